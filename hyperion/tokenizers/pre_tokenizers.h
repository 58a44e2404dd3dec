// The "pre_tokenizer" of a tokenizer.json: how a normalized text is cut into the pieces that no token crosses.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/tokenizers/scanner.h"
#include "hyperion/tokenizers/traced_text.h"

namespace hyperion::tokenizers {

struct PreTokenizer {
  using Step = std::function<std::vector<TracedText>(std::vector<TracedText>)>;  // from pieces to smaller ones
  std::vector<Step> steps;
  bool byte_level = false;  // the model works on bytes, its tokens spelled in the alphabet of byte_alphabet.h
  // Set when the whole of it is one scanner before a byte-level model: then the steps need not run.
  std::optional<Pattern> scanner;
  bool prefix_space = false;  // with `scanner`: a text that does not begin with a space gets one
};

// Throws CorruptError that names `place` and a component that is not known.
PreTokenizer make_pre_tokenizer(const base::Json& json, const std::string& place);

}  // namespace hyperion::tokenizers
