// The "post_processor" of a tokenizer.json: the tokens that stand around a text. And its "truncation" and "padding".
#pragma once
#include <utility>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

struct Surround {
  std::vector<TokenId> before, after;
};

struct Truncation {
  size_t length = 0;
  bool from_left = false;  // the start is cut off, not the end
};

struct Padding {
  size_t length = 0, multiple = 0;  // to this length, then to a multiple; 0: neither
  TokenId id = 0;
  bool on_left = false;
};

// Throw CorruptError that names `place` and a component that is not known.
Surround make_surround(const base::Json& json, const std::string& place);
Truncation make_truncation(const base::Json& json, const std::string& place);
Padding make_padding(const base::Json& json, const std::string& place);

// Of so many tokens, the first that stays and the one after the last.
std::pair<size_t, size_t> kept_of(size_t size, const Truncation& truncation, size_t surround);
// How long so many tokens become.
size_t padded_size(size_t size, const Padding& padding);

}  // namespace hyperion::tokenizers
