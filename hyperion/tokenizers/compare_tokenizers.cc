#include "hyperion/tokenizers/compare_tokenizers.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/read_file.h"
#include "hyperion/tokenizers/tokenizer_files.h"

namespace hyperion::tokenizers {
namespace {

using base::Json;

// By part and type, what a field means where a file leaves it out.
const Json& defaults() {
  static const Json known = Json::parse(R"({
    "model": {
      "BPE": {"dropout": 0, "unk_token": "", "continuing_subword_prefix": "", "end_of_word_suffix": "",
              "fuse_unk": false, "byte_fallback": false, "ignore_merges": false},
      "Unigram": {"byte_fallback": false},
      "WordPiece": {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}},
    "normalizer": {
      "BertNormalizer": {"clean_text": true, "handle_chinese_chars": true, "lowercase": true},
      "Strip": {"strip_left": true, "strip_right": true}},
    "pre_tokenizer": {
      "ByteLevel": {"add_prefix_space": true, "use_regex": true},
      "Split": {"behavior": "Isolated", "invert": false},
      "Metaspace": {"replacement": "▁", "prepend_scheme": "always", "split": true},
      "Punctuation": {"behavior": "Isolated"},
      "Digits": {"individual_digits": false}},
    "decoder": {
      "Metaspace": {"replacement": "▁", "prepend_scheme": "always"},
      "WordPiece": {"prefix": "##", "cleanup": true},
      "BPEDecoder": {"suffix": "</w>"}}
  })");
  return known;
}

// Fields that are of offsets alone, or that nothing reads.
const Json& without_effect() {
  static const Json known = Json::parse(R"({
    "pre_tokenizer": {"ByteLevel": ["trim_offsets"], "Metaspace": ["str_rep"]},
    "decoder": {"ByteLevel": ["add_prefix_space", "trim_offsets", "use_regex"], "Metaspace": ["str_rep", "split"]}
  })");
  return known;
}

const Json* find_in(const Json& json, const std::string& key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found == json.end() ? nullptr : &*found;
}

const Json* find_in(const Json& json, const std::string& part, const std::string& type) {
  const Json* types = find_in(json, part);
  return types == nullptr ? nullptr : find_in(*types, type);
}

void drop_nulls(Json& json) {
  for (auto field = json.begin(); field != json.end();) field = field->is_null() ? json.erase(field) : std::next(field);
}

// Older files say add_prefix_space.
void name_scheme(Json& metaspace) {
  const Json* prefix = find_in(metaspace, "add_prefix_space");
  if (!metaspace.contains("prepend_scheme") && prefix != nullptr)
    metaspace["prepend_scheme"] = *prefix == false ? "never" : "always";
  metaspace.erase("add_prefix_space");
}

// One model, or one step of another part.
Json without_defaults(Json json, const std::string& part) {
  if (!json.is_object()) return json;
  drop_nulls(json);
  const Json* named = find_in(json, "type");
  const std::string type = named != nullptr && named->is_string() ? named->get<std::string>() : "";
  if (type == "Metaspace") name_scheme(json);
  if (const Json* fields = find_in(without_effect(), part, type))
    for (const Json& field : *fields) json.erase(field.get<std::string>());
  if (const Json* fields = find_in(defaults(), part, type))
    for (const auto& [field, value] : fields->items())
      if (const Json* found = find_in(json, field); found != nullptr && *found == value) json.erase(field);
  return json;
}

// The steps of a part in order, out of the sequences they lie in.
void add_steps(const Json& json, const std::string& part, Json& out) {
  if (json.is_null()) return;
  const Json* type = find_in(json, "type");
  const Json* steps = find_in(json, part == "pre_tokenizer" ? "pretokenizers" : part + "s");
  if (type == nullptr || *type != "Sequence" || steps == nullptr || !steps->is_array())
    return out.push_back(without_defaults(json, part));
  for (const Json& step : *steps) add_steps(step, part, out);
}

Json model_form(Json model) {
  if (!model.is_object()) return model;
  if (model.contains("vocab") && model.value("type", Json()).is_null()) model["type"] = type_of_model(model);
  if (const auto merges = model.find("merges"); merges != model.end() && merges->is_array())
    for (Json& merge : *merges)
      if (merge.is_string()) {
        const auto [left, right] = split_merge(merge.get_ref<const std::string&>(), "tokenizer.json");
        merge = {left, right};
      }
  return without_defaults(std::move(model), "model");
}

// Whether a token is left out of decoded text changes no id.
Json added_form(Json token) {
  if (!token.is_object()) return token;
  drop_nulls(token);
  const Json* special = find_in(token, "special");
  if (!token.contains("normalized")) token["normalized"] = special == nullptr || *special == false;
  token.erase("special");
  for (const char* flag : {"single_word", "lstrip", "rstrip"})
    if (const Json* found = find_in(token, flag); found != nullptr && *found == false) token.erase(flag);
  return token;
}

bool extends(const Json& large, const Json& small) {
  if (!large.is_object() || !small.is_object()) return false;
  for (const char* part : {"model", "normalizer", "pre_tokenizer", "decoder"})
    if (large.at(part) != small.at(part)) return false;
  const Json &more = large.at("added_tokens"), &fewer = small.at("added_tokens");
  return std::includes(more.begin(), more.end(), fewer.begin(), fewer.end());
}

Json form_of(const TokenizerText& text) { return tokenizer_form(base::parse_json(text.json, text.place)); }

constexpr int64_t kNoId = -1;

int64_t whole_number(const Json* json) {
  return json != nullptr && json->is_number_integer() ? json->get<int64_t>() : kNoId;
}

std::set<int64_t> ids_in(const Json& form) {
  std::set<int64_t> ids;
  int64_t place = 0;
  if (const Json* vocabulary = find_in(form.at("model"), "vocab"))
    for (const Json& entry : *vocabulary) ids.insert(vocabulary->is_object() ? whole_number(&entry) : place++);
  for (const Json& token : form.at("added_tokens")) ids.insert(whole_number(find_in(token, "id")));
  return ids;
}

// Tokens that lie beside tokenizer.json, as transformers adds them when it opens the folder.
std::map<int64_t, std::string> known_beside(base::FileSystem& files, const base::Path& folder) {
  std::map<int64_t, std::string> known;
  const auto read = [&](const char* name) {
    const base::Path path = folder / name;
    return files.exists(path) ? base::parse_json(base::read_description(files, path), path.string()) : Json();
  };
  const Json config = read("tokenizer_config.json"), added = read("added_tokens.json");
  const Json* decoder = find_in(config, "added_tokens_decoder");
  if (decoder != nullptr && decoder->is_object())
    for (const auto& [id, token] : decoder->items())
      if (const Json* text = find_in(token, "content"); text != nullptr && text->is_string())
        known[std::strtoll(id.c_str(), nullptr, 10)] = text->get<std::string>();
  if (added.is_object())
    for (const auto& [text, id] : added.items()) known[whole_number(&id)] = text;
  return known;
}

}  // namespace

Json tokenizer_form(const Json& tokenizer) {
  if (!tokenizer.is_object()) return tokenizer;
  Json form = {{"model", model_form(tokenizer.value("model", Json()))}, {"added_tokens", Json::array()}};
  for (const std::string part : {"normalizer", "pre_tokenizer", "decoder"}) {
    form[part] = Json::array();
    add_steps(tokenizer.value(part, Json()), part, form[part]);
  }
  if (const Json* added = find_in(tokenizer, "added_tokens"))
    for (const Json& token : *added) form["added_tokens"].push_back(added_form(token));
  std::sort(form["added_tokens"].begin(), form["added_tokens"].end());
  return form;
}

TokenizerText read_tokenizer(base::FileSystem& files, const base::Path& path) {
  return {base::read_description(files, path), path.string()};
}

bool extends_tokenizer(const TokenizerText& tokenizer, const TokenizerText& other) {
  return tokenizer.json == other.json || extends(form_of(tokenizer), form_of(other));
}

bool same_tokenizer(const TokenizerText& tokenizer, const TokenizerText& other) {
  return tokenizer.json == other.json || form_of(tokenizer) == form_of(other);
}

std::vector<int64_t> tokens_added(base::FileSystem& files, const base::Path& folder, const base::Path& other) {
  const base::Path own = folder / "tokenizer.json", theirs = other / "tokenizer.json";
  if (!files.exists(own) || !files.exists(theirs)) return {};
  const Json large = form_of(read_tokenizer(files, own)), small = form_of(read_tokenizer(files, theirs));
  if (!extends(large, small)) return {};
  const auto known = ids_in(small);
  const auto beside = known_beside(files, other);
  std::set<int64_t> fresh;
  for (const Json& token : large.at("added_tokens")) {
    const int64_t id = whole_number(find_in(token, "id"));
    const auto found = beside.find(id);
    const bool is_beside = found != beside.end() && token.value("content", Json()) == found->second;
    if (id != kNoId && !known.contains(id) && !is_beside) fresh.insert(id);
  }
  return {fresh.begin(), fresh.end()};
}

}  // namespace hyperion::tokenizers
