// How a model's tokens become text: bytes as they are, or through the tokenizer of its folder.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/interop/open_model.h"
#include "hyperion/models/decode.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::interop {

class Text {
 public:
  // Throws ConfigError where the tokens are neither bytes nor of a tokenizer that lies beside the weights.
  explicit Text(const OpenedModel& opened);
  // The same of a tokenizer's folder, or of bytes where it is empty. `ends`: what ends a text of bytes.
  Text(const base::Path& folder, int64_t vocabulary, std::vector<int64_t> ends);

  // With `special`, also what the tokenizer puts around a text.
  models::Tokens encode(const std::string& text, bool special = true) const;
  std::string decode(const models::Tokens& tokens) const;  // special tokens are left out
  // Tokens that end a text, as config.json and generation_config.json name them; of bytes, as the run's data has it.
  const std::vector<int64_t>& ends() const { return ends_; }

 private:
  std::unique_ptr<const tokenizers::Tokenizer> tokenizer_;  // null: bytes
  std::vector<int64_t> ends_;
  int64_t vocabulary_;  // of the model
};

// How much of `bytes` is whole: a character of UTF-8 that has only begun at the end is left for later.
size_t whole_characters(std::string_view bytes);

// What is no UTF-8 in it replaced by U+FFFD, a sequence cut short as one, as Python and Rust do.
std::string valid_utf8(std::string_view bytes);

}  // namespace hyperion::interop
