#include "hyperion/data/prepare_text.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <variant>

#include "hyperion/base/clock.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/data/held_out.h"
#include "hyperion/data/ordered_work.h"
#include "hyperion/data/prepared.h"
#include "hyperion/data/token_set.h"
#include "hyperion/tokenizers/chat_tokens.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;
using base::Json;

// Tokens of a text take several times its bytes while they are under way.
constexpr records::RecordLimits kLimits{.text_piece = size_t{16} << 20};
constexpr size_t kTaskBytes = 256 << 10, kBytesUnderWay = size_t{48} << 20;
constexpr uint64_t kSafeBytes = uint64_t{64} << 20;  // of tokens between two journals

// Records in the order of the files; what cannot be framed stands in its place.
struct TextTask {
  std::vector<std::variant<records::RawRecord, records::BadRecord>> records;
  std::vector<bool> of_validation;  // from a validation file
  size_t cost = 0, bytes = 0;
};

struct Encoded {
  std::vector<tokenizers::TokenId> ids;
  std::vector<uint8_t> loss_mask;  // empty: all
  std::optional<records::BadRecord> bad;
};

struct Batch {
  std::vector<Encoded> documents;
  std::vector<bool> of_validation;
  size_t bytes = 0;
};

tokenizers::TokenId end_token(const PrepareConfig& config, const tokenizers::Tokenizer& tokenizer,
                              const std::string& eos) {
  if (config.end.empty()) return -1;
  if (config.end != "auto") {
    if (const auto id = tokenizer.id_of(config.end)) return *id;
    throw ConfigError(format("prepare.end = \"{}\" is no token of {}", config.end, config.tokenizer),
                      "name one of its tokens, or leave it empty");
  }
  for (const std::string& name :
       {eos, std::string("<|endoftext|>"), std::string("</s>"), std::string("<|end_of_text|>")})
    if (const auto id = name.empty() ? std::nullopt : tokenizer.id_of(name)) return *id;
  return -1;
}

// What a folder of a tokenizer may hold, besides files of ranks.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "vocab.json",
                                           "merges.txt",
                                           "chat_template.jinja",
                                           text::kToolTemplates[0],
                                           text::kToolTemplates[1],
                                           "special_tokens_map.json",
                                           "added_tokens.json"};

std::vector<base::Path> files_of(const base::Path& tokenizer) {
  if (!std::filesystem::is_directory(tokenizer)) {
    std::vector<base::Path> files = {tokenizer};
    if (tokenizer.filename() == "vocab.json") files.push_back(tokenizer.parent_path() / "merges.txt");
    return files;
  }
  std::vector<base::Path> files;
  for (const char* name : kTokenizerFiles)
    if (base::real_files().exists(tokenizer / name)) files.push_back(tokenizer / name);
  for (const auto& path : base::real_files().list(tokenizer))
    if (path.extension() == ".tiktoken") files.push_back(path);
  return files;
}

std::vector<std::pair<std::string, std::string>> turns_of(const std::vector<std::string>& chat) {
  std::vector<std::pair<std::string, std::string>> turns;
  for (const auto& turn : chat) {
    const size_t colon = turn.find(':');
    if (colon == turn.npos || colon == 0 || colon + 1 == turn.size())
      throw ConfigError(format("prepare.chat has \"{}\", which is not ROLE:FIELD", turn),
                        "for example [\"user:query\", \"assistant:response\"]");
    turns.emplace_back(turn.substr(0, colon), turn.substr(colon + 1));
  }
  return turns;
}

Encoded encode(const records::RawRecord& record, const TextRecipe& recipe, int threads) {
  Encoded encoded;
  try {
    const records::Document document = records::parse_record(record, recipe.format, recipe.mapping);
    if (recipe.chat) {
      if (!document.tools.empty() && !recipe.tool_chat_fault.empty())
        throw base::CorruptError(recipe.tool_chat_fault, "name another: prepare.chat_template = \"FILE\"");
      const auto& chat = !document.tools.empty() && recipe.tool_chat ? *recipe.tool_chat : *recipe.chat;
      auto tokens = tokenizers::tokens_of_turns(
          *recipe.tokenizer, chat.render_with_turns(document.messages, recipe.bos, recipe.eos, document.tools));
      encoded.ids = std::move(tokens.ids), encoded.loss_mask = std::move(tokens.loss_mask);
      return encoded;
    }
    if (recipe.tokenizer)
      encoded.ids = recipe.tokenizer->encode(document.text, true, document.text.size() > kTaskBytes ? threads : 1);
    else
      for (const char byte : document.text) encoded.ids.push_back(static_cast<unsigned char>(byte));
    if (recipe.end >= 0 && (encoded.ids.empty() || encoded.ids.back() != recipe.end)) encoded.ids.push_back(recipe.end);
  } catch (const records::BadRecord& bad) {
    encoded.bad = bad;
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error& error) {  // the tokenizer or the template refuses it
    // An array may be one long line: there only the byte finds the record.
    const bool of_array = recipe.format == records::RecordFormat::json;
    encoded.bad =
        records::BadRecord(*record.file, record.line,
                           error.what() + (of_array ? format(" (record at byte {})", record.byte) : ""), error.hint());
  }
  return encoded;
}

// Both files of a set, and how far the inputs are read.
class TextOutput {
 public:
  TextOutput(base::FileSystem& files, const TextRecipe& recipe, Preparation& preparation, bool files_apart)
      : recipe_(recipe), preparation_(preparation), files_apart_(files_apart), bad_(recipe.on_bad, recipe.bad_limit) {
    const Json& journal = preparation.journal();
    const int64_t width = token_width(recipe.vocabulary());
    for (const char* name : {kTrainSet, kValidationSet}) {
      const base::Path path = preparation.folder() / name;
      TokenWriter::State kept;
      if (!journal.is_null()) {
        const Json& state = journal.at(name);
        kept = {state.at("kept").get<SetWriter::Kept>(), state.at("bits").get<int>(), state.at("bit_count").get<int>(),
                state.at("learned").get<int64_t>()};
        if (journal.at("complete").get<bool>() && files.exists(path)) {  // killed between the two
          writers_.push_back(nullptr);
          continue;
        }
      }
      writers_.push_back(std::make_unique<TokenWriter>(files, path, width, kept.kept));
      writers_.back()->restore(kept);
    }
    if (journal.is_null()) return;
    taken_ = journal.at("taken").get<int64_t>(), documents_ = journal.at("documents").get<int64_t>();
    complete_ = journal.at("complete").get<bool>();
    for (const auto& bad : journal.at("bad"))
      bad_.add(
          records::BadRecord(bad.at(0).get<std::string>(), bad.at(1).get<int64_t>(), bad.at(2).get<std::string>()));
  }

  int64_t taken() const { return taken_; }  // records of the inputs so far, bad ones too
  bool complete() const { return complete_; }
  int64_t documents() const { return documents_; }
  int64_t tokens() const {
    int64_t sum = 0;
    for (const auto& writer : writers_) sum += writer ? writer->tokens() : 0;
    return sum;
  }
  const records::BadRecords& bad() const { return bad_; }

  void add(const Encoded& encoded, bool validation_file) {
    ++taken_;
    if (encoded.bad) return bad_.add(*encoded.bad);
    if (files_apart_) {
      writers_[validation_file]->add(encoded.ids, encoded.loss_mask);
    } else if (recipe_.format == records::RecordFormat::text) {
      add_in_parts(encoded);
    } else {
      writers_[is_held_out(documents_, recipe_.validation)]->add(encoded.ids, encoded.loss_mask);
    }
    ++documents_;
  }

  void make_safe() {
    Json journal = {{"taken", taken_}, {"documents", documents_}, {"complete", complete_}, {"bad", Json::array()}};
    for (const auto& bad : bad_.list()) journal["bad"].push_back({bad.file, bad.line, bad.reason});
    for (size_t i = 0; i < 2; ++i) {
      const auto state = writers_[i]->make_safe();
      journal[i == 0 ? kTrainSet : kValidationSet] = {
          {"kept", state.kept}, {"bits", state.bits}, {"bit_count", state.bit_count}, {"learned", state.learned}};
    }
    preparation_.write_journal(journal);
    base::fault_point("prepare.journal");
  }

  void finish() {
    if (!complete_) {
      complete_ = true;
      make_safe();
    }
    for (auto& writer : writers_)
      if (writer) writer->finish(recipe_.vocabulary(), recipe_.end, Json::object());
  }

 private:
  // Few long documents: the end of each is held out.
  void add_in_parts(const Encoded& encoded) {
    const auto held_out = static_cast<size_t>(static_cast<double>(encoded.ids.size()) * recipe_.validation);
    const std::span<const tokenizers::TokenId> ids(encoded.ids);
    writers_[0]->add(ids.first(ids.size() - held_out), {});
    if (held_out > 0) writers_[1]->add(ids.last(held_out), {});
  }

  const TextRecipe& recipe_;
  Preparation& preparation_;
  bool files_apart_, complete_ = false;
  records::BadRecords bad_;
  std::vector<std::unique_ptr<TokenWriter>> writers_;  // training, validation; null: finished before
  int64_t taken_ = 0, documents_ = 0;
};

// The records of both halves, one after the other, from a place on.
class Records {
 public:
  Records(const TextRecipe& recipe, const std::vector<base::Path>& training, const std::vector<base::Path>& validation,
          int64_t first)
      : training_(records::open_raw_records(training, recipe.format, kLimits)),
        validation_(records::open_raw_records(validation, recipe.format, kLimits)) {
    std::variant<records::RawRecord, records::BadRecord> dropped;
    bool of_validation = false;
    for (int64_t i = 0; i < first && next(dropped, of_validation); ++i) base::throw_if_stopped("finding the place");
  }

  bool next(std::variant<records::RawRecord, records::BadRecord>& out, bool& of_validation) {
    for (; half_ < 2; ++half_) {
      try {
        records::RawRecord record;
        if (!(half_ == 0 ? training_ : validation_)->next(record)) continue;
        out = std::move(record);
      } catch (const records::BadRecord& bad) {
        out = bad;
      }
      of_validation = half_ == 1;
      return true;
    }
    return false;
  }

 private:
  std::unique_ptr<records::RawRecords> training_, validation_;
  int half_ = 0;
};

// A file of ranks says by its name alone how text is cut. A tokenizer.json that has another name gets this one, by
// which sets and runs look for it.
base::Path kept_name(const base::Path& path, const std::string& content, const TextRecipe& recipe) {
  if (path == recipe.template_file) return "chat_template.jinja";
  if (path.extension() == ".tiktoken" && !recipe.pattern.empty()) return recipe.pattern + ".tiktoken";
  const size_t first = content.find_first_not_of(" \t\r\n");
  const bool known = std::any_of(std::begin(kTokenizerFiles), std::end(kTokenizerFiles),
                                 [&](const char* name) { return path.filename() == name; });
  return known || first == content.npos || content[first] != '{' ? path.filename() : "tokenizer.json";
}

void keep_tokenizer(base::FileSystem& files, const TextRecipe& recipe, const base::Path& folder) {
  if (!recipe.tokenizer) return;
  files.create_folders(folder);
  for (const auto& path : recipe.tokenizer_files) {
    const auto content = files.read(path);
    base::write_atomically(files, folder / kept_name(path, content, recipe), content);
  }
  if (recipe.end >= 0)
    base::write_atomically(files, folder / "generation_config.json", Json{{"eos_token_id", recipe.end}}.dump() + "\n");
}

PrepareSummary text_summary(const Preparation& preparation) {
  PrepareSummary summary;
  summary.output = preparation.output();
  for (const char* name : {kTrainSet, kValidationSet}) {
    const TokenSet set(preparation.output() / name);
    (name == kTrainSet ? summary.records : summary.validation_records) = set.documents();
    (name == kTrainSet ? summary.tokens : summary.validation_tokens) = set.tokens();
  }
  return summary;
}

}  // namespace

TextRecipe text_recipe(const PrepareConfig& config) {
  TextRecipe recipe;
  recipe.format = base::from_word<records::RecordFormat>(base::word_of(config.format)).value();
  recipe.mapping = {config.text, turns_of(config.chat), config.messages, config.tools};
  recipe.on_bad = config.on_bad, recipe.bad_limit = config.bad_limit;
  recipe.validation = config.validation, recipe.safe_seconds = config.safe_seconds;
  records::check_mapping(recipe.format, recipe.mapping);
  const bool dialogues = !config.chat.empty() || !config.messages.empty();
  if (config.end != "auto" && (dialogues || config.tokenizer == "bytes"))
    throw ConfigError(format("prepare.end is set, and {}", dialogues ? "a dialogue ends as its chat template says"
                                                                     : "bytes have no token that ends a document"),
                      "leave prepare.end out");
  if (config.tokenizer == "bytes") {
    if (!config.pattern.empty())
      throw ConfigError("prepare.pattern is set, and prepare.tokenizer is \"bytes\"", "leave prepare.pattern out");
    if (dialogues)
      throw ConfigError("dialogues need a tokenizer with a chat template, and prepare.tokenizer is \"bytes\"",
                        "name a model's folder: prepare.tokenizer = \"PATH\"");
    return recipe;
  }
  recipe.tokenizer = tokenizers::open_tokenizer(config.tokenizer, config.pattern);
  recipe.tokenizer_files = files_of(config.tokenizer), recipe.pattern = config.pattern;
  const base::Path folder = std::filesystem::is_directory(config.tokenizer)
                                ? base::Path(config.tokenizer)
                                : base::Path(config.tokenizer).parent_path();
  auto& files = base::real_files();
  recipe.bos = text::special_token(files, folder, "bos_token"),
  recipe.eos = text::special_token(files, folder, "eos_token");
  recipe.end = end_token(config, *recipe.tokenizer, recipe.eos);
  if (recipe.end < 0 && !dialogues)
    base::log_info("no token ends a document: the tokenizer names none; prepare.end can");
  if (!dialogues) return recipe;
  const auto source = config.chat_template.empty() ? text::find_chat_template(files, folder)
                                                   : std::optional(base::read_description(files, config.chat_template));
  if (!source)
    throw ConfigError(format("{} has no chat template, which dialogues need", folder.string()),
                      "name one: prepare.chat_template = \"FILE\"");
  recipe.template_file = config.chat_template;
  if (!config.chat_template.empty()) recipe.tokenizer_files.emplace_back(config.chat_template);
  recipe.chat = std::make_unique<text::ChatTemplate>(
      *source, config.chat_template.empty() ? folder.string() : config.chat_template);
  if (const auto for_tools = config.chat_template.empty() ? text::find_tool_template(files, folder) : std::nullopt)
    try {
      recipe.tool_chat = std::make_unique<text::ChatTemplate>(*for_tools, folder.string() + " (tool_use)");
    } catch (const base::CorruptError& error) {  // which matters once a dialogue has tools
      recipe.tool_chat_fault = error.what();
    }
  return recipe;
}

PrepareSummary prepare_text(base::FileSystem& files, const TextRecipe& recipe, const TextFiles& inputs,
                            Preparation& preparation, int threads, const OnPrepare& progress) {
  if (preparation.done()) {
    auto summary = text_summary(preparation);
    summary.was_there = true;
    return summary;
  }
  const auto taken_up = preparation.take_up_in<TextOutput>(files, recipe, preparation, !inputs.validation.empty());
  TextOutput& output = *taken_up;
  const bool resumed = !preparation.journal().is_null();
  if (!output.complete()) {
    Records records(recipe, inputs.training, inputs.validation, output.taken());
    OrderedWork<TextTask, Batch> work(
        threads, kBytesUnderWay,
        [&](TextTask& task) {
          std::variant<records::RawRecord, records::BadRecord> record;
          bool of_validation = false;
          while (task.cost < kTaskBytes && records.next(record, of_validation)) {
            if (const auto* raw = std::get_if<records::RawRecord>(&record)) {
              task.cost += raw->bytes.size() + sizeof(record);
              task.bytes += raw->bytes.size() + 1;
            }
            task.records.push_back(std::move(record));
            task.of_validation.push_back(of_validation);
          }
          return !task.records.empty();
        },
        [&](TextTask& task) {
          Batch batch;
          for (auto& record : task.records) {
            if (auto* raw = std::get_if<records::RawRecord>(&record)) {
              batch.documents.push_back(encode(*raw, recipe, threads));
              std::string().swap(raw->bytes);
            } else {
              batch.documents.push_back({{}, {}, std::get<records::BadRecord>(record)});
            }
          }
          batch.of_validation = std::move(task.of_validation), batch.bytes = task.bytes;
          return batch;
        });
    Batch batch;
    uint64_t bytes = 0;
    int64_t safe_tokens = output.tokens();
    double safe_at = base::real_clock().seconds();
    while (work.next(batch)) {
      for (size_t i = 0; i < batch.documents.size(); ++i) output.add(batch.documents[i], batch.of_validation[i]);
      bytes += batch.bytes;
      if (progress) progress({"tokenizing", bytes, preparation.input_bytes(), output.documents(), output.tokens()});
      base::fault_point("prepare.batch");
      const double now = base::real_clock().seconds();
      if (static_cast<uint64_t>(output.tokens() - safe_tokens) * 4 > kSafeBytes ||
          now - safe_at > recipe.safe_seconds || base::stop_signal() != 0) {
        output.make_safe();
        safe_tokens = output.tokens(), safe_at = now;
      }
      if (const int signal = base::stop_signal(); signal != 0)
        throw base::Interrupted(format("stopped; {} documents are safe in {}", base::with_commas(output.documents()),
                                       preparation.folder().string()),
                                base::stop_exit_code(signal), "the same command goes on there");
    }
  }
  output.finish();
  keep_tokenizer(files, recipe, preparation.folder() / kSetTokenizer);
  Json bad = Json::array();
  for (const auto& record : output.bad().list()) bad.push_back(record.what());
  preparation.finish({{"kind", kTokens},
                      {"documents", output.documents()},
                      {"tokenizer", recipe.tokenizer ? recipe.tokenizer_files.front().string() : "bytes"},
                      {"skipped", bad}});
  if (const TokenSet set(preparation.output() / kTrainSet); set.tokens() > 0 && set.learned_in_all() == 0)
    base::log_warn("no token is learned: the dialogues have no turn of an assistant");
  auto summary = text_summary(preparation);
  summary.resumed = resumed;
  summary.bad = bad.get<std::vector<std::string>>();
  return summary;
}

}  // namespace hyperion::data
