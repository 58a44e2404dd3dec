// Text to token ids and back, as `tokenizers` and `tiktoken` do it, from the files that they read. A Tokenizer does not
// change once open and may be used by any number of threads.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/text/byte_range.h"

namespace hyperion::tokenizers {

using TokenId = int32_t;

// A token that is found in the text before anything else is done with it.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool special = false;                 // left out when decoding without special tokens
  bool single_word = false;             // only where no letter, digit or underscore is beside it
  bool lstrip = false, rstrip = false;  // takes the white space before or after it along
  bool normalized = true;               // looked for after the text is normalized, not before
};

struct Encoded {
  std::vector<TokenId> ids;
  std::vector<text::ByteRange> ranges;  // of the text, one for each id
};

struct Decoded {
  std::string bytes;
  std::vector<size_t> starts;  // where each token's bytes begin
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // With `special`, also what the file's template puts around a text. Truncated and padded where the file says so,
  // unless it was opened for free lengths. Bytes that are not UTF-8 are encoded by byte-level tokenizers, as tiktoken
  // does: all from the last piece before them to the end of the text is one piece. Other tokenizers throw CorruptError.
  // The ids are the same for any number of threads; more than one are of use to byte-level tokenizers on megabytes.
  virtual std::vector<TokenId> encode(std::string_view text, bool special = true, int threads = 1) const = 0;
  // The same ids, and which bytes of `text` each came from. What was changed into something longer or shorter is in the
  // range whole; tokens put around the text have an empty range at 0.
  virtual Encoded encode_with_offsets(std::string_view text, bool special = true) const = 0;
  // Throws ConfigError for an id that is not in the vocabulary. The bytes need not be UTF-8.
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special = false) const = 0;
  virtual Decoded decode_with_starts(std::span<const TokenId> ids) const = 0;

  virtual int64_t vocabulary_size() const = 0;  // the highest id and one
  virtual std::optional<std::string> token(
      TokenId id) const = 0;  // as its file spells it; bytes of a rank file as vocab.json would
  virtual std::optional<TokenId> id_of(std::string_view token) const = 0;
  virtual const std::vector<AddedToken>& added_tokens() const = 0;  // by id
};

}  // namespace hyperion::tokenizers
