// A line as it is typed on a terminal: what each key does to it, and how it is shown. Knows bytes only; who reads them
// and draws the result is serve/terminal.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::serve {

// Columns that a text of valid UTF-8 takes on a terminal: 2 for most of East Asia and emoji, 0 for what joins the
// character before it.
size_t columns_of(std::string_view text);

class LineEditor {
 public:
  enum class State { typing, done, ended };  // ended: Ctrl-D on an empty line

  // The next byte from the terminal. Once the line is done, `text` is it, and `begin` starts the next.
  State take(char byte);
  void begin();

  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }  // in bytes
  bool wants_clear_screen();                 // Ctrl-L was typed since this was asked

  // What a terminal of `width` columns shows: the prompt, as much of the line as there is room for around the cursor,
  // and the cursor put where it stands.
  std::string drawn(std::string_view prompt, size_t width) const;

 private:
  State control(unsigned char byte);
  void escape(const std::string& sequence);
  void insert(std::string_view character);
  void erase(size_t from, size_t to);
  void recall(int step);
  size_t before(size_t place) const;  // where the character before it begins, with what joins it
  size_t after(size_t place) const;
  size_t word_before(size_t place) const;

  std::string text_, partial_;  // partial_: of a character, or of an escape sequence
  std::string kept_;            // the line that was being typed when the history was looked at
  size_t cursor_ = 0, recalled_ = 0;
  std::vector<std::string> history_;
  bool clear_screen_ = false;
};

}  // namespace hyperion::serve
