#include <nlohmann/json.hpp>
#include <unordered_map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json_fault.h"
#include "hyperion/tokenizers/byte_alphabet.h"
#include "hyperion/tokenizers/char_bpe.h"
#include "hyperion/tokenizers/text_pattern.h"
#include "hyperion/tokenizers/tokenizer_files.h"
#include "hyperion/tokenizers/unigram.h"
#include "hyperion/tokenizers/word_piece.h"

namespace hyperion::tokenizers {
namespace {

using base::CorruptError;
using base::format;
using base::Json;

bool is_set(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && !found->is_null();
}
std::string text_or(const Json& json, const char* key, const char* otherwise) {
  return is_set(json, key) ? json.at(key).get<std::string>() : otherwise;
}
bool flag_of(const Json& json, const char* key) { return is_set(json, key) && json.at(key).get<bool>(); }

int64_t id_in(const Json& json) {
  if (!json.is_number_integer()) throw CorruptError("an id is not a whole number");
  return json.get<int64_t>();
}

const Json& tokens_in(const Json& model) {
  const auto& vocabulary = model.at("vocab");
  if (!vocabulary.is_object()) throw CorruptError("the vocabulary is not an object of tokens and their ids");
  return vocabulary;
}

// What `read` makes of a part of the file; where the part is not as it should be, the error names it.
template <class Read>
auto in_part(const char* name, const std::string& place, Read read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    throw CorruptError(format("{}: in \"{}\", {}", place, name, base::json_fault(error)),
                       "the file is damaged, or of a form that is not known here");
  }
}

Vocabulary read_vocabulary(const Json& json) {
  Vocabulary out;
  for (const auto& [token, id] : json.items()) out.add(token, id_in(id));
  return out;
}

std::unique_ptr<const TokenModel> read_bpe(const Json& json, bool byte_level, const std::string& place) {
  if (is_set(json, "dropout") && json.at("dropout").get<double>() != 0)
    unknown_component(place, "the dropout of a BPE model");
  BpeParts parts;
  for (const auto& [token, id] : tokens_in(json).items()) parts.vocabulary.emplace_back(token, id_in(id));
  in_part("merges", place, [&] {
    for (const auto& merge : json.at("merges"))
      parts.merges.push_back(merge.is_string()
                                 ? split_merge(merge.get_ref<const std::string&>(), place)
                                 : std::pair(merge.at(0).get<std::string>(), merge.at(1).get<std::string>()));
  });
  if (is_set(json, "unk_token")) parts.unknown = json.at("unk_token").get<std::string>();
  parts.fuse_unknown = flag_of(json, "fuse_unk");
  parts.byte_fallback = flag_of(json, "byte_fallback");
  parts.whole_pieces = flag_of(json, "ignore_merges");
  parts.prefix = text_or(json, "continuing_subword_prefix", "");
  parts.suffix = text_or(json, "end_of_word_suffix", "");
  return make_bpe(std::move(parts), byte_level, place);
}

std::unique_ptr<const TokenModel> read_unigram(const Json& json) {
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const auto& entry : json.at("vocab")) {
    vocabulary.add(entry.at(0).get<std::string>(), static_cast<TokenId>(scores.size()));
    scores.push_back(entry.at(1).get<double>());
  }
  Unigram::Options options;
  if (is_set(json, "unk_id")) options.unknown = json.at("unk_id").get<TokenId>();
  options.byte_fallback = flag_of(json, "byte_fallback");
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), options);
}

std::unique_ptr<const TokenModel> read_words(const Json& json, bool whole_words) {
  auto vocabulary = read_vocabulary(tokens_in(json));
  WordPiece::Options options;
  options.whole_words = whole_words;
  options.prefix = text_or(json, "continuing_subword_prefix", "##");
  if (is_set(json, "max_input_chars_per_word"))
    options.longest_word = json.at("max_input_chars_per_word").get<size_t>();
  if (is_set(json, "unk_token")) options.unknown = vocabulary.id_of(json.at("unk_token").get<std::string>());
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(options));
}

// Models that are not BPE see bytes spelled as characters.
void spell_pieces(PreTokenizer& pre) {
  pre.steps.emplace_back([](std::vector<TracedText> pieces) {
    for (auto& piece : pieces) piece = spelled(piece);
    return pieces;
  });
  pre.byte_level = false;
  pre.scanner.reset();
}

std::unique_ptr<const TokenModel> read_model(const Json& json, PreTokenizer& pre, const std::string& place) {
  const auto type = type_of_model(json);
  if (type == "BPE") return read_bpe(json, pre.byte_level, place);
  if (pre.byte_level) spell_pieces(pre);
  if (type == "Unigram") return read_unigram(json);
  if (type == "WordPiece") return read_words(json, false);
  if (type == "WordLevel") return read_words(json, true);
  unknown_component(place, format("the model \"{}\"", type));
}

void check_apart(const std::vector<AddedToken>& added) {
  std::unordered_map<TokenId, const AddedToken*> met;
  for (const auto& token : added)
    if (const auto [other, fresh] = met.emplace(token.id, &token); !fresh && other->second->text != token.text)
      throw CorruptError(
          format("the added tokens \"{}\" and \"{}\" both have the id {}", other->second->text, token.text, token.id),
          "each token has an id of its own");
}

}  // namespace

std::string type_of_model(const Json& model) {
  if (is_set(model, "type")) return model.at("type").get<std::string>();
  if (model.contains("merges")) return "BPE";
  if (model.at("vocab").is_array()) return "Unigram";
  return model.contains("max_input_chars_per_word") ? "WordPiece" : "WordLevel";
}

AddedToken read_added(const Json& json, int64_t id) {
  AddedToken out;
  out.text = json.at("content").get<std::string>();
  if (id < 0 || id >= kIdLimit)
    throw CorruptError(format("the added token \"{}\" has the id {}", out.text, id),
                       format("ids are from 0 to {}", kIdLimit - 1));
  out.id = static_cast<TokenId>(id);
  out.special = flag_of(json, "special");
  out.single_word = flag_of(json, "single_word");
  out.lstrip = flag_of(json, "lstrip");
  out.rstrip = flag_of(json, "rstrip");
  out.normalized = is_set(json, "normalized") ? json.at("normalized").get<bool>() : !out.special;
  return out;
}

TokenStages stages_of_json(const Json& json, const std::string& place) {
  TokenStages out;
  const auto read_part = [&](const char* name, auto read) {
    if (is_set(json, name)) in_part(name, place, [&] { read(json.at(name)); });
  };
  read_part("added_tokens", [&](const Json& part) {
    for (const auto& token : part) out.added.push_back(read_added(token, id_in(token.at("id"))));
    check_apart(out.added);
  });
  read_part("normalizer", [&](const Json& part) { out.normalizer = make_normalizer(part, place); });
  read_part("pre_tokenizer", [&](const Json& part) { out.pre_tokenizer = make_pre_tokenizer(part, place); });
  read_part("model", [&](const Json& part) { out.model = read_model(part, out.pre_tokenizer, place); });
  read_part("post_processor", [&](const Json& part) { out.surround = make_surround(part, place); });
  read_part("truncation", [&](const Json& part) { out.truncation = make_truncation(part, place); });
  read_part("padding", [&](const Json& part) { out.padding = make_padding(part, place); });
  read_part("decoder", [&](const Json& part) {
    out.decoder = make_decoder(part, place);
    out.byte_level_decoder = is_byte_level_decoder(part);
  });
  return out;
}

}  // namespace hyperion::tokenizers
