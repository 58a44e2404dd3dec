#include "hyperion/data/prepare.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/preparation.h"
#include "hyperion/data/prepare_images.h"
#include "hyperion/data/prepare_text.h"
#include "hyperion/records/input_files.h"
#include "hyperion/records/raw_records.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;

int thread_count(const PrepareConfig& config) {
  return config.threads > 0 ? static_cast<int>(config.threads)
                            : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Paths in the settings are left out: the content of what they name is in the key.
std::string settings_text(const PrepareConfig& config) {
  nlohmann::json all = {{"format", base::word_of(config.format)},
                        {"pattern", config.pattern},
                        {"end", config.end},
                        {"text", config.text},
                        {"messages", config.messages},
                        {"chat", config.chat},
                        {"on_bad", base::word_of(config.on_bad)},
                        {"validation", config.validation},
                        {"bytes", config.tokenizer == "bytes"}};
  if (!config.messages.empty()) all["tools"] = config.tools;
  return all.dump();
}

bool has_images(const PrepareConfig& config) {
  return config.format == SetFormat::images || config.format == SetFormat::cifar;
}

// One folder of images or shards of them. Their names are no part of the key, what they hold and show is.
PrepareSummary prepare_image_set(base::FileSystem& files, const PrepareConfig& config, const OnPrepare& progress) {
  const ImageRecipe recipe = image_recipe(config);
  PreparedFrom from;
  from.inputs = recipe.inputs();
  nlohmann::json settings = {{"format", base::word_of(config.format)},
                             {"store", base::word_of(config.store)},
                             {"digest", recipe.digest()},
                             {"on_bad", base::word_of(config.on_bad)},
                             {"validation", config.validation}};
  if (recipe.raw) settings["side"] = config.side;
  from.settings = settings.dump();
  Preparation preparation(files, config.output, from, thread_count(config), [&](uint64_t bytes, uint64_t all) {
    if (progress) progress({"reading the inputs", bytes, all});
  });
  return prepare_images(files, recipe, preparation, thread_count(config), progress);
}

}  // namespace

void describe(base::Settings& settings, PrepareConfig& config) {
  settings.section("prepare", "what a set is made of")
      .list("files", config.files,
            "the training files; patterns such as data/*.jsonl.gz too; .gz and .zst are unpacked")
      .list("validation_files", config.validation_files,
            "of the validation set; empty: a part of the others is held out")
      .real("validation", config.validation, {0.0001, 0.5}, "that part")
      .choice(
          "format", config.format,
          "a file, a line, an article of WikiText, a line of JSON or an element of a JSON array is a document; tar: "
          "WebDataset's shards; images: a folder of JPEG and PNG files, or tar shards of them; cifar: the folder of "
          "CIFAR's binary files")
      .choice("store", config.store,
              "images: the files' own bytes, or pixels of the size below, which need no decoding")
      .integer("side", config.side, {8, 8192}, "raw: of the shorter side", "pixels")
      .text("output", config.output, "the folder to make")
      .text("tokenizer", config.tokenizer, "a folder or file; bytes: each byte is a token")
      .text("pattern", config.pattern, "how a .tiktoken file's text is cut: gpt2, llama3, qwen2, cl100k or o200k")
      .text("end", config.end, "the token that ends a document; auto: the tokenizer's own; empty: none")
      .text("text", config.text, "the JSON field with a document's text")
      .list("chat", config.chat, "JSON fields as turns of a dialogue: [\"user:query\", \"assistant:response\"]")
      .text("messages", config.messages, "the JSON field with a list of messages")
      .text("tools", config.tools, "beside messages, the JSON field with what the assistant may call; empty: none")
      .text("chat_template", config.chat_template, "a file; empty: the one in the tokenizer's folder")
      .choice("on_bad", config.on_bad, "what cannot be read: stop there, or leave it out and list it")
      .integer("bad_limit", config.bad_limit, {0, 1'000'000'000}, "most records to leave out")
      .real("safe_seconds", config.safe_seconds, {0, 3600}, "between two points that a killed program can go on from",
            "s")
      .integer("threads", config.threads, {0, 4096}, "0 takes all cores");
}

void check(const PrepareConfig& config) {
  if (config.files.empty())
    throw ConfigError("prepare.files is empty", "name the files: prepare.files = [\"data/*.txt\"]");
  if (config.output.empty()) throw ConfigError("prepare.output is empty", "name the folder to make: --output FOLDER");
  if (!config.chat.empty() && !config.messages.empty())
    throw ConfigError("prepare.chat and prepare.messages are both set", "a dialogue comes from one of them");
  const PrepareConfig usual;
  const bool images = has_images(config), dialogues = !config.chat.empty() || !config.messages.empty();
  const bool fields = config.format == SetFormat::jsonl || config.format == SetFormat::json ||
                      config.format == SetFormat::tar || config.format == SetFormat::parquet;
  struct {
    const char* name;
    bool is_set, is_used;
  } const settings[] = {{"store", config.store != usual.store, config.format == SetFormat::images},
                        {"side", config.side != usual.side, config.format == SetFormat::images},
                        {"tokenizer", config.tokenizer != usual.tokenizer, !images},
                        {"pattern", config.pattern != usual.pattern, !images},
                        {"end", config.end != usual.end, !images},
                        {"text", config.text != usual.text, fields && !dialogues},
                        {"chat", !config.chat.empty(), fields},
                        {"messages", !config.messages.empty(), fields},
                        {"tools", config.tools != usual.tools, !config.messages.empty()},
                        {"chat_template", !config.chat_template.empty(), dialogues}};
  for (const auto& [name, is_set, is_used] : settings)
    if (is_set && !is_used)
      throw ConfigError(format("prepare.{} is set, and prepare.format = \"{}\"{} has no use for it", name,
                               base::word_of(config.format), images || dialogues ? "" : " without dialogues"),
                        format("leave prepare.{} out", name));
}

PrepareSummary prepare(base::FileSystem& files, const PrepareConfig& config, const OnPrepare& progress) {
  check(config);
  if (has_images(config)) return prepare_image_set(files, config, progress);
  const TextRecipe recipe = text_recipe(config);
  PreparedFrom from;
  from.inputs = records::input_files(config.files);
  const size_t training = from.inputs.size();
  if (!config.validation_files.empty())
    for (auto& path : records::input_files(config.validation_files)) from.inputs.push_back(std::move(path));
  from.tokenizer = recipe.tokenizer_files;
  from.settings = settings_text(config);
  const int threads = thread_count(config);
  Preparation preparation(files, config.output, from, threads, [&](uint64_t bytes, uint64_t all) {
    if (progress) progress({"reading the inputs", bytes, all});
  });
  const auto end = from.inputs.begin() + static_cast<ptrdiff_t>(training);
  return prepare_text(files, recipe, {{from.inputs.begin(), end}, {end, from.inputs.end()}}, preparation, threads,
                      progress);
}

}  // namespace hyperion::data
