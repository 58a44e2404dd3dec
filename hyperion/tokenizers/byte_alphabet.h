// The spelling of bytes as visible characters that vocab.json, merges.txt and tokenizer.json of byte-level BPE use: "Ġ"
// is a space.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace hyperion::tokenizers {

std::string spell_bytes(std::string_view bytes);
// Nothing when a character is not of this alphabet.
std::optional<std::string> unspell_bytes(std::string_view text);

}  // namespace hyperion::tokenizers
