// The "decoder" of a tokenizer.json: how spelled tokens become text again.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/json.h"

namespace hyperion::tokenizers {

// A stretch of the text to be: one token, or several already joined.
struct Spelled {
  std::string text;
  std::vector<size_t> starts;  // where each token in it begins
};
using TokenDecoder = std::function<std::vector<Spelled>(std::vector<Spelled>)>;

// Throws CorruptError that names `place` and a component that is not known.
TokenDecoder make_decoder(const base::Json& json, const std::string& place);
// Whether it is ByteLevel alone, so that each token's bytes are known beforehand.
bool is_byte_level_decoder(const base::Json& json);

}  // namespace hyperion::tokenizers
