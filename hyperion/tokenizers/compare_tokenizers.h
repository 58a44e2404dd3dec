// Whether two tokenizers make the same ids of a text. Libraries save one tokenizer in many ways: merges as "a b" or
// ["a", "b"], defaults written out or left out, steps alone or in a Sequence. What is compared is one form of them all.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/base/json.h"

namespace hyperion::tokenizers {

// A tokenizer.json in the form that is compared: model, normalizer, pre_tokenizer, decoder and added_tokens, without
// what changes no id. What is of no form known here stays as it is.
base::Json tokenizer_form(const base::Json& tokenizer);

struct TokenizerText {
  TokenizerText(std::string text = {}, std::string where = "tokenizer.json")
      : json(std::move(text)), place(std::move(where)) {}
  std::string json;   // a tokenizer.json
  std::string place;  // where it lies, for errors
};

// Whether a tokenizer.json is another, or that one with more tokens added: what the other makes of a text, it makes
// too.
bool extends_tokenizer(const TokenizerText& tokenizer, const TokenizerText& other);

// Whether each extends the other.
bool same_tokenizer(const TokenizerText& tokenizer, const TokenizerText& other);

TokenizerText read_tokenizer(base::FileSystem& files, const base::Path& path);

// The ids, ascending, of tokens that the tokenizer of a folder adds to that of another, whose tokenizer_config.json and
// added_tokens.json may also know some. Empty where a folder has no tokenizer.json, or it does not extend the other.
std::vector<int64_t> tokens_added(base::FileSystem& files, const base::Path& folder, const base::Path& other);

}  // namespace hyperion::tokenizers
