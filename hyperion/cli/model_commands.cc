#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/open_text_model.h"
#include "hyperion/device/device.h"
#include "hyperion/serve/input.h"
#include "hyperion/serve/terminal.h"

namespace hyperion::cli {

using base::Json;

namespace {

std::vector<std::string> prompts_of(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  for (std::string& prompt : prompts)
    if (prompt == "-") prompt = serve::read_prompt(std::cin);
  if (!options.prompts_file.empty()) {
    std::istringstream lines(base::read_to_end(options.prompts_file));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) prompts.push_back(line);
  }
  if (prompts.empty()) throw base::ConfigError("there is no prompt", "give --prompt TEXT, or --prompts FILE");
  return prompts;
}

void print_json(const GenerateOptions& options, const interop::OpenedModel& opened,
                const std::vector<std::string>& prompts, const std::vector<std::string>& texts) {
  const auto adapter = adapter_in_use(options, opened);
  Json list = Json::array();
  for (size_t i = 0; i < texts.size(); ++i)
    list.push_back({{"model", options.model},
                    {"step", opened.step},
                    {"adapter", adapter.empty() ? Json() : Json(adapter)},
                    {"quantize", opened.quantized ? "nf4" : "none"},
                    {"prompt", prompts[i]},
                    {"text", texts[i]}});
  std::printf("%s\n", list.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

int generate_command(const GenerateOptions& options) {
  const auto prompts = prompts_of(options);
  const auto device = device::open_device(options.device);
  auto opened = open_text_model(options, device);
  const auto decoding = decoding_of(options);
  if (options.json) {
    print_json(options, opened, prompts, serve::generate(opened, device, prompts, decoding));
    return 0;
  }
  size_t begun = 0;  // a prompt that is refused is not shown
  serve::InTurn in_turn(prompts.size(), [&](size_t index, std::string_view piece, bool last) {
    if (index == begun) {
      if (prompts.size() > 1) std::printf("--- %zu of %zu ---\n", index + 1, prompts.size());
      serve::write_text(prompts[begun]);
      ++begun;
    }
    serve::write_text(piece);
    if (last) std::fputc('\n', stdout);
    std::fflush(stdout);
  });
  serve::generate(opened, device, prompts, decoding,
                  [&](size_t index, std::string_view piece, bool last) { in_turn.take(index, piece, last); });
  return 0;
}

}  // namespace hyperion::cli
