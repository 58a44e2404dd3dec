#include "hyperion/serve/line_editor.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/text/unicode.h"

namespace hyperion::serve {
namespace {

constexpr size_t kRemembered = 1000;
constexpr size_t kLongestEscape = 16;

constexpr char key_of(char letter) { return static_cast<char>(letter & 31); }  // Ctrl and the letter

size_t columns_of_point(char32_t point) {
  struct Stretch {
    char32_t first, last;
  };
  constexpr Stretch kWide[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xAC00, 0xD7A3},
                               {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
                               {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};
  const auto kind = text::class_of(point);
  const bool joins = kind == text::CharClass::kMark || (point >= 0x200B && point <= 0x200F) ||
                     (point >= 0x1F3FB && point <= 0x1F3FF);  // joiners, and the colors of faces
  if (joins) return 0;
  return std::any_of(std::begin(kWide), std::end(kWide),
                     [&](const Stretch& wide) { return point >= wide.first && point <= wide.last; })
             ? 2
             : 1;
}

size_t columns_at(std::string_view text, size_t place) { return columns_of_point(text::char_at(&text[place])); }

}  // namespace

size_t columns_of(std::string_view text) {
  size_t columns = 0;
  for (size_t place = 0; place < text.size(); place += text::char_size(text[place])) columns += columns_at(text, place);
  return columns;
}

void LineEditor::begin() {
  if (!text_.empty() && (history_.empty() || history_.back() != text_)) history_.push_back(text_);
  if (history_.size() > kRemembered) history_.erase(history_.begin());
  text_.clear(), partial_.clear(), kept_.clear();
  cursor_ = 0;
  recalled_ = history_.size();
}

LineEditor::State LineEditor::take(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  if (!partial_.empty() && partial_.front() == '\x1b') {
    partial_ += byte;
    const bool opens = partial_.size() == 2 && (byte == '[' || byte == 'O');
    const bool goes_on = partial_.size() > 2 && value >= 0x20 && value < 0x40 && partial_.size() < kLongestEscape;
    if (!opens && !goes_on) escape(std::exchange(partial_, {}));
    return State::typing;
  }
  if (value < 0x20 || value == 0x7f) {
    partial_.clear();
    return control(value);
  }
  partial_ += byte;
  const size_t whole = value < 0x80 ? 1 : text::char_size(partial_.front());
  if (value < 0x80 || text::valid_prefix(partial_) == partial_.size()) {
    insert(value < 0x80 ? std::string(1, byte) : partial_);
    partial_.clear();
  } else if (partial_.size() >= whole) {
    partial_.clear();  // no character
  }
  return State::typing;
}

LineEditor::State LineEditor::control(unsigned char byte) {
  switch (static_cast<char>(byte)) {
    case '\r':
    case '\n':
      return State::done;
    case key_of('D'):
      if (text_.empty()) return State::ended;
      erase(cursor_, after(cursor_));
      break;
    case '\x7f':
    case '\b':
      erase(before(cursor_), cursor_);
      break;
    case '\x1b':
      partial_ = '\x1b';
      break;
    case key_of('A'):
      cursor_ = 0;
      break;
    case key_of('E'):
      cursor_ = text_.size();
      break;
    case key_of('B'):
      cursor_ = before(cursor_);
      break;
    case key_of('F'):
      cursor_ = after(cursor_);
      break;
    case key_of('P'):
      recall(-1);
      break;
    case key_of('N'):
      recall(1);
      break;
    case key_of('K'):
      erase(cursor_, text_.size());
      break;
    case key_of('U'):
      erase(0, cursor_);
      break;
    case key_of('W'):
      erase(word_before(cursor_), cursor_);
      break;
    case key_of('L'):
      clear_screen_ = true;
      break;
    case '\t':
      insert(" ");
      break;
    default:
      break;
  }
  return State::typing;
}

// ESC [ or ESC O, and what follows. A key that is not known does nothing.
void LineEditor::escape(const std::string& sequence) {
  const std::string_view key = std::string_view(sequence).substr(std::min<size_t>(2, sequence.size()));
  if (key == "A") return recall(-1);
  if (key == "B") return recall(1);
  if (key == "C") cursor_ = after(cursor_);
  if (key == "D") cursor_ = before(cursor_);
  if (key == "H" || key == "1~" || key == "7~") cursor_ = 0;
  if (key == "F" || key == "4~" || key == "8~") cursor_ = text_.size();
  if (key == "3~") erase(cursor_, after(cursor_));
}

void LineEditor::insert(std::string_view character) {
  text_.insert(cursor_, character);
  cursor_ += character.size();
}

void LineEditor::erase(size_t from, size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::recall(int step) {
  if ((step < 0 && recalled_ == 0) || (step > 0 && recalled_ == history_.size())) return;
  if (recalled_ == history_.size()) kept_ = text_;
  recalled_ += step;
  text_ = recalled_ == history_.size() ? kept_ : history_[recalled_];
  cursor_ = text_.size();
}

size_t LineEditor::before(size_t place) const {
  while (place > 0) {
    do --place;
    while (place > 0 && (static_cast<unsigned char>(text_[place]) & 0xC0) == 0x80);
    if (columns_at(text_, place) > 0) break;
  }
  return place;
}

size_t LineEditor::after(size_t place) const {
  if (place < text_.size()) place += text::char_size(text_[place]);
  while (place < text_.size() && columns_at(text_, place) == 0) place += text::char_size(text_[place]);
  return place;
}

size_t LineEditor::word_before(size_t place) const {
  while (place > 0 && text_[place - 1] == ' ') --place;
  while (place > 0 && text_[place - 1] != ' ') --place;
  return place;
}

bool LineEditor::wants_clear_screen() { return std::exchange(clear_screen_, false); }

std::string LineEditor::drawn(std::string_view prompt, size_t width) const {
  const size_t room = std::max<size_t>(width, columns_of(prompt) + 4) - columns_of(prompt) - 1;  // one for the cursor
  const std::string_view line = text_;
  const auto columns = [&](size_t from, size_t to) { return columns_of(line.substr(from, to - from)); };
  size_t first = 0, left = columns(0, cursor_);
  for (size_t next = after(first); left > room; first = next, next = after(first)) left -= columns(first, next);
  size_t last = first, shown = 0;
  for (size_t next = after(last); last < text_.size(); last = next, next = after(last)) {
    if (shown + columns(last, next) > room) break;
    shown += columns(last, next);
  }
  const size_t back = shown - left;
  std::string out = base::format("\r{}{}\x1b[K", prompt, line.substr(first, last - first));
  if (back > 0) out += base::format("\x1b[{}D", back);
  return out;
}

}  // namespace hyperion::serve
