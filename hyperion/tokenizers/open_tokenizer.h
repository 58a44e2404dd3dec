// Tokenizers from the files that `tokenizers` and `tiktoken` read.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "hyperion/base/files.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::tokenizers {

// A tokenizer.json may cut texts and fill them up, as its last user had it do ("truncation", "padding"). What is
// trained on or asked must not: transformers passes over both, and `tokenizers` does as the file says.
enum class Lengths { free, as_file };

// A Hugging Face folder, a tokenizer.json, a vocab.json with a merges.txt beside it, or a .tiktoken file of ranks. A
// rank file does not say how text is cut into pieces: `pattern` does (gpt2, llama3, qwen2, cl100k or o200k); empty: by
// the file's name, else its number of ranks. A rank file has no added tokens. Throws ConfigError where nothing can be
// opened, CorruptError where a file is not what its format says, or has a component that is not known here.
std::unique_ptr<const Tokenizer> open_tokenizer(const base::Path& path, std::string_view pattern = {},
                                                Lengths lengths = Lengths::free);

// The same, lengths as in the file, from what is in a tokenizer.json or a rank file; and from a vocab.json, a
// merges.txt and what there is of a tokenizer_config.json. `place` is their name in messages.
std::unique_ptr<const Tokenizer> read_tokenizer(std::string_view content, const std::string& place,
                                                std::string_view pattern = {});
std::unique_ptr<const Tokenizer> read_tokenizer(std::string_view vocabulary, std::string_view merges,
                                                std::string_view config, const std::string& place);

}  // namespace hyperion::tokenizers
