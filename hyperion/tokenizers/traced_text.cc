#include "hyperion/tokenizers/traced_text.h"

#include <algorithm>

#include "hyperion/base/error.h"

namespace hyperion::tokenizers {

void check_grown(size_t bytes, size_t most) {
  if (bytes > most)
    throw base::CorruptError("the tokenizer makes more than 32 times as much of a text as it is given",
                             "its tokenizer.json, by the normalizer, pre_tokenizer or decoder, is damaged or not to be "
                             "trusted; take the model's own");
}

TracedText TracedText::part(size_t begin, size_t end) const {
  TracedText out(std::string_view(text_).substr(begin, end - begin), base_ + begin, traced_);
  out.head_ = std::min(head_ - std::min(head_, begin), end - begin);
  if (!origins_.empty())
    out.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                        origins_.begin() + static_cast<std::ptrdiff_t>(end));
  return out;
}

// As long as all is kept from the start on, nothing need be written down.
void Rewrite::write_origins() {
  if (!out_.origins_.empty()) return;
  out_.origins_.reserve(from_.text_.size());
  for (size_t at = 0; at < out_.text_.size(); ++at) out_.origins_.push_back({out_.base_ + at, out_.base_ + at + 1});
}

void Rewrite::keep(size_t begin, size_t end) {
  if (begin == end) return;
  const bool plain = from_.origins_.empty() && out_.origins_.empty();
  if (out_.traced_ && plain && out_.text_.empty()) out_.base_ = from_.base_ + begin;
  if (out_.traced_ && !(plain && from_.base_ + begin == out_.base_ + out_.text_.size())) {
    write_origins();
    for (size_t at = begin; at < end; ++at) out_.origins_.push_back(from_.origin(at, at + 1));
  }
  count_head(std::min(from_.head_ - std::min(from_.head_, begin), end - begin));
  out_.text_.append(from_.text_, begin, end - begin);
}

void Rewrite::put(std::string_view text, size_t begin, size_t end) {
  if (text.empty()) return;
  check_grown(out_.text_.size() + text.size(), out_.most_);
  if (out_.traced_) {
    write_origins();
    out_.origins_.insert(out_.origins_.end(), text.size(), from_.origin(begin, end));
  }
  count_head(begin < from_.head_ ? text.size() : 0);
  out_.text_ += text;
}

}  // namespace hyperion::tokenizers
