#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "hyperion/cli/commands.h"
#include "hyperion/kernels/device.h"
#include "hyperion/serve/chat.h"

namespace hyperion::cli {

int chat_command(const ChatOptions& options) {
  const auto device = kernels::open_device(options.device);
  auto opened = interop::open_model(base::real_files(), options.model, device);
  serve::GenerateOptions decoding;
  decoding.new_tokens = options.tokens;
  decoding.temperature = options.temperature;
  decoding.top_p = options.top_p;
  decoding.seed = options.seed;
  serve::Chat chat(opened, device, decoding, options.system);
  const bool person = ::isatty(STDIN_FILENO) != 0;
  if (person) std::printf("Say something; an empty line or Ctrl-D ends.\n");
  for (std::string line;;) {
    if (person) std::printf("> "), std::fflush(stdout);
    if (!std::getline(std::cin, line) || (person && line.empty())) break;
    if (line.empty()) continue;
    chat.answer(line, [](size_t, std::string_view piece, bool last) {
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      if (last) std::fputc('\n', stdout);
      std::fflush(stdout);
    });
  }
  return 0;
}

}  // namespace hyperion::cli
