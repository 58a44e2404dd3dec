#include "hyperion/tokenizers/open_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/base/read_file.h"
#include "hyperion/tokenizers/tokenizer_files.h"

namespace hyperion::tokenizers {
namespace {

using base::ConfigError;
using base::format;
using base::Json;
using base::Path;

constexpr const char* kTaken =
    "name a Hugging Face folder, a tokenizer.json, a vocab.json with merges.txt beside it, or a .tiktoken file";

constexpr uint64_t kLongestTokenizer = uint64_t{1} << 30;

std::string read_tokenizer_file(const Path& path) {
  return base::read_at_most(base::real_files(), path, kLongestTokenizer);
}
Json read_json(const Path& path) { return base::parse_json(read_tokenizer_file(path), path.string()); }

// Components are read by functions that call themselves: a file that nests without end must not get that far.
void check_nesting(std::string_view json, const std::string& place) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < json.size(); ++at) {
    if (quoted && json[at] == '\\')
      ++at;
    else if (json[at] == '"')
      quoted = !quoted;
    else if (!quoted && (json[at] == '{' || json[at] == '['))
      ++depth;
    else if (!quoted && (json[at] == '}' || json[at] == ']'))
      --depth;
    if (depth > 100) throw base::CorruptError(format("{} nests more than 100 deep", place), "the file is damaged");
  }
}

Pattern pattern_of_ranks(const Path& path, std::string_view named, size_t ranks) {
  if (!named.empty()) {
    if (const auto pattern = pattern_named(named)) return *pattern;
    throw ConfigError(format("no pattern is called {}", named), "one of gpt2, llama3, qwen2, cl100k, o200k");
  }
  constexpr std::tuple<std::string_view, size_t, Pattern> known[] = {
      {"gpt2", 50256, Pattern::kGpt2},   {"r50k", 50256, Pattern::kGpt2},      {"p50k", 50280, Pattern::kGpt2},
      {"qwen", 151643, Pattern::kQwen2}, {"cl100k", 100256, Pattern::kCl100k}, {"llama", 128000, Pattern::kLlama3},
      {"o200k", 199998, Pattern::kO200k}};
  const std::string name = path.filename().string();
  for (const auto& [word, count, pattern] : known)
    if (name.find(word) != name.npos) return pattern;
  for (const auto& [word, count, pattern] : known)
    if (ranks == count) return pattern;
  throw ConfigError(format("{} does not say how text is cut into pieces, and neither its name nor its {} ranks do",
                           path.string(), ranks),
                    "name the pattern: gpt2, llama3, qwen2, cl100k or o200k");
}

TokenStages open_vocabulary(const Path& vocabulary) {
  const Path merges = vocabulary.parent_path() / "merges.txt",
             config = vocabulary.parent_path() / "tokenizer_config.json";
  auto& files = base::real_files();
  if (!files.exists(merges)) throw ConfigError(format("{} has no merges.txt beside it", vocabulary.string()), kTaken);
  return stages_of_vocabulary(read_json(vocabulary), read_tokenizer_file(merges),
                              files.exists(config) ? read_json(config) : Json(), vocabulary.string());
}

TokenStages stages_of_content(const Path& path, std::string_view content, std::string_view pattern) {
  const size_t first = content.find_first_not_of(" \t\r\n");
  if (first != content.npos && content[first] == '{') {
    check_nesting(content, path.string());
    const Json json = base::parse_json(content, path.string());
    if (json.contains("model") && json.at("model").is_object()) return stages_of_json(json, path.string());
    return open_vocabulary(path);
  }
  if (content.find('\0') != content.npos)
    throw ConfigError(
        format("{} is neither JSON nor a file of ranks", path.string()),
        path.extension() == ".model" ? "a SentencePiece model is read from the tokenizer.json beside it" : kTaken);
  return stages_of_ranks(content, pattern_of_ranks(path, pattern, count_ranks(content)), path.string());
}

TokenStages open_file(const Path& path, std::string_view pattern) {
  return stages_of_content(path, read_tokenizer_file(path), pattern);
}

TokenStages open_folder(const Path& folder, std::string_view pattern) {
  auto& files = base::real_files();
  if (files.exists(folder / "tokenizer.json")) return open_file(folder / "tokenizer.json", pattern);
  if (files.exists(folder / "vocab.json")) return open_vocabulary(folder / "vocab.json");
  std::vector<Path> ranks;
  for (const auto& path : files.list(folder))
    if (path.extension() == ".tiktoken") ranks.push_back(path);
  if (ranks.size() != 1)
    throw ConfigError(format("{} has {}", folder.string(),
                             ranks.empty() ? "no tokenizer in it" : "more than one .tiktoken file in it"),
                      kTaken);
  return open_file(ranks.front(), pattern);
}

// A tokenizer of the stages that `read` gives; a part of the file that is of another type than it should be is damage.
template <class Read>
std::unique_ptr<const Tokenizer> made_of(const std::string& place, Read read) {
  try {
    return std::make_unique<TokenPipeline>(read());
  } catch (const Json::exception& error) {
    throw base::CorruptError(format("{} is not what a tokenizer's file should be: {}", place, base::json_fault(error)),
                             "the file is damaged, or of a form that is not known here");
  } catch (const base::CorruptError& error) {
    if (std::string_view(error.what()).find(place) != std::string_view::npos) throw;
    throw base::CorruptError(format("{}: {}", place, error.what()), error.hint());
  }
}

}  // namespace

std::unique_ptr<const Tokenizer> open_tokenizer(const Path& path, std::string_view pattern, Lengths lengths) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw ConfigError(format("{} does not exist", path.string()), kTaken);
  return made_of(path.string(), [&] {
    auto stages = std::filesystem::is_directory(path, ignored) ? open_folder(path, pattern) : open_file(path, pattern);
    if (lengths == Lengths::free) stages.truncation.reset(), stages.padding.reset();
    return stages;
  });
}

std::unique_ptr<const Tokenizer> read_tokenizer(std::string_view content, const std::string& place,
                                                std::string_view pattern) {
  return made_of(place, [&] { return stages_of_content(place, content, pattern); });
}

std::unique_ptr<const Tokenizer> read_tokenizer(std::string_view vocabulary, std::string_view merges,
                                                std::string_view config, const std::string& place) {
  return made_of(place, [&] {
    return stages_of_vocabulary(base::parse_json(vocabulary, place), merges,
                                config.empty() ? Json() : base::parse_json(config, place), place);
  });
}

}  // namespace hyperion::tokenizers
