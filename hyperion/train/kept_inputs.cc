#include "hyperion/train/kept_inputs.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/data/images.h"
#include "hyperion/data/prepared.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/interop/generation_config.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/tokenizers/compare_tokenizers.h"

namespace hyperion::train {

void keep_processor(base::FileSystem& files, const base::Path& run, const data::Split& split) {
  if (split.validation_images == nullptr) return;
  const auto processing = split.validation_images->processing();
  if (!processing) return;
  const base::Path to = run / interop::kRunProcessor;
  files.create_folders(to);
  base::write_atomically(files, to / images::kProcessorFile, images::processor_json(*processing));
}

void keep_tokenizer(base::FileSystem& files, const base::Path& run, const RunConfig& config) {
  if (config.data.source != data::SourceKind::prepared) return;
  const base::Path from = base::Path(config.data.path.front()) / data::kSetTokenizer;
  const base::Path to = run / interop::kRunTokenizer;
  if (!files.exists(from)) return;
  files.create_folders(to);
  for (const auto& path : files.list(from)) base::write_atomically(files, to / path.filename(), files.read(path));
  if (config.model.from.empty()) return;
  const auto text = interop::generation_config(files, interop::tokenizer_folder(files, config.model.from), to);
  if (!text.empty()) base::write_atomically(files, to / interop::kGenerationConfig, text);
}

std::string check_tokenizer(base::FileSystem& files, const RunConfig& config) {
  const base::Path own = base::Path(config.model.from) / "tokenizer.json";
  if (config.model.from.empty() || !files.exists(own)) return {};
  if (config.data.source != data::SourceKind::prepared)
    return base::format(
        "data.source = \"{}\" is a byte a token, and model.from = \"{}\" has a tokenizer whose ids mean "
        "something else: to train it on text, prepare a set (`hyperion data prepare`)",
        base::word_of(config.data.source), config.model.from);
  const base::Path set = base::Path(config.data.path.front()) / data::kSetTokenizer / "tokenizer.json";
  if (files.exists(set) &&
      tokenizers::extends_tokenizer(tokenizers::read_tokenizer(files, set), tokenizers::read_tokenizer(files, own)))
    return {};
  throw base::ConfigError(
      base::format("{} was not prepared with the tokenizer of model.from = \"{}\", nor with one that only adds to it",
                   config.data.path.front(), config.model.from),
      base::format("prepare it with --prepare.tokenizer={}", config.model.from));
}

std::vector<int64_t> tokens_new_to_base(base::FileSystem& files, const RunConfig& config) {
  if (config.model.from.empty() || config.data.source != data::SourceKind::prepared) return {};
  return tokenizers::tokens_added(files, base::Path(config.data.path.front()) / data::kSetTokenizer,
                                  interop::tokenizer_folder(files, config.model.from));
}

}  // namespace hyperion::train
