#include "hyperion/cli/open_text_model.h"

#include <cctype>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/interop/peft.h"

namespace hyperion::cli {
namespace {

interop::WeightForm form_of(const std::string& quantize) {
  return quantize == "nf4"    ? interop::WeightForm::nf4
         : quantize == "none" ? interop::WeightForm::whole
                              : interop::WeightForm::as_trained;
}

struct NamedFolder {
  std::string name, folder;
};

// NAME=FOLDER, or a folder that gives its own name. A folder whose own name has a "=" in it is one all the same.
NamedFolder named_folder(const std::string& text) {
  std::error_code ignored;
  const size_t equals = text.find('=');
  if (equals != text.npos && !std::filesystem::is_directory(text, ignored))
    return {text.substr(0, equals), text.substr(equals + 1)};
  std::string name = std::filesystem::absolute(text).lexically_normal().string();
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  name = base::Path(name).filename().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-') c = '_';
  return {name, text};
}

}  // namespace

interop::OpenedModel open_in_form(const std::string& model, at::Device device, const std::string& quantize,
                                  std::optional<at::ScalarType> type, Laid on_it) {
  const auto open = on_it == Laid::an_adapter ? interop::open_beneath : interop::open_model;
  auto opened = open(base::real_files(), model, device, type, form_of(quantize));
  if (opened.quantized)
    base::log_info(quantize.empty() ? "weights in 4 bits (nf4), as the run was trained; --quantize none: whole"
                                    : "weights in 4 bits (nf4)");
  else if (opened.trained_quantized)
    base::log_info("weights whole, though the run was trained beside 4 bits (nf4)");
  return opened;
}

void add_adapters(interop::OpenedModel& opened, const std::vector<std::string>& adapters) {
  for (const auto& text : adapters) {
    const auto [name, folder] = named_folder(text);
    interop::add_adapter(base::real_files(), folder, opened, name);
  }
}

interop::OpenedModel open_text_model(const TextOptions& options, at::Device device) {
  auto opened = open_in_form(options.model, device, options.quantize, {},
                             options.adapters.empty() ? Laid::nothing : Laid::an_adapter);
  if (opened.model->input() == models::Input::images)
    throw base::ConfigError(base::format("{} takes images, not text", options.model),
                            base::format("`hyperion classify {} IMAGE` says what it sees", options.model));
  add_adapters(opened, options.adapters);
  if (const auto name = adapter_in_use(options, opened); !name.empty()) opened.model->adapters().use(name);
  return opened;
}

std::string adapter_in_use(const TextOptions& options, const interop::OpenedModel& opened) {
  if (!options.use.empty()) return options.use;
  if (!options.adapters.empty()) return named_folder(options.adapters.front()).name;
  const nn::Adapters& adapters = opened.model->adapters();
  return adapters.empty() ? "" : adapters.names().front();
}

serve::GenerateOptions decoding_of(const TextOptions& options) {
  serve::GenerateOptions decoding;
  decoding.new_tokens = options.tokens;
  decoding.temperature = options.temperature;
  decoding.top_k = options.top_k;
  decoding.top_p = options.top_p;
  decoding.repetition_penalty = options.repetition_penalty;
  decoding.seed = options.seed;
  decoding.stop = options.stop;
  return decoding;
}

void refuse_within_model(const base::Path& output, const interop::OpenedModel& opened) {
  std::error_code ignored;
  const auto place = [&](const base::Path& path) { return std::filesystem::weakly_canonical(path, ignored).string(); };
  auto folders = opened.others;
  folders.insert(folders.end(), {opened.folder, opened.run, opened.checkpoint});
  for (const auto& folder : folders)
    if (!folder.empty() && place(output).starts_with(place(folder) + "/"))
      throw base::ConfigError(base::format("{} lies in the model's own folder, {}", output.string(), folder.string()),
                              "name a file elsewhere");
}

}  // namespace hyperion::cli
