// The "normalizer" of a tokenizer.json: what is done to a text before it is cut.
#pragma once
#include <functional>
#include <string>

#include "hyperion/base/json.h"
#include "hyperion/tokenizers/traced_text.h"

namespace hyperion::tokenizers {

using Normalizer = std::function<TracedText(TracedText)>;  // empty: nothing is done

// With `front` before it, which came from its first character. An empty text stays empty.
TracedText prepended(const TracedText& text, std::string_view front);
// Every byte as a character, by the alphabet of byte_alphabet.h.
TracedText spelled(const TracedText& text);

// Throws CorruptError that names `place` and a component that is not known.
Normalizer make_normalizer(const base::Json& json, const std::string& place);

}  // namespace hyperion::tokenizers
