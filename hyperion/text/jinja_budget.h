// How much one rendering of a template may do and hold: templates come with models from anywhere, and some would never
// end, or fill the memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hyperion::text::jinja {

constexpr size_t kMaxText = size_t{1} << 26;    // bytes of a text that a template makes
constexpr size_t kMaxValues = size_t{1} << 28;  // bytes of all values that it has made and that are still alive

struct Account {
  int64_t steps_left = 0;
  size_t bytes = 0;
  bool open = false;
};

// While it lives, what this thread renders counts against it. Values made meanwhile must not outlive it.
class Budget {
 public:
  Budget();
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  Account outer_;
};

// So many steps: of the template, elements looked at, or pieces of text. Throws Fault where the budget is used up, and
// Interrupted where the program was asked to stop. Without a budget nothing is counted.
void spend(size_t steps);
inline void spend_on_text(size_t bytes) { spend(1 + bytes / 16); }

// The bytes of one value, which count as long as this lives. Throws Fault where all together are more than kMaxValues.
class HeldBytes {
 public:
  explicit HeldBytes(size_t bytes);
  HeldBytes(const HeldBytes& other) : HeldBytes(other.bytes_) {}
  HeldBytes& operator=(const HeldBytes&) = delete;
  ~HeldBytes();
  void grow(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0, counted_ = 0;  // counted_: those since a budget is open
};

// Appends, and throws Fault where the text grows past kMaxText.
void append(std::string& out, std::string_view more);

// As std::string_view::find, but in time that grows with the lengths alone, which are paid for.
size_t place_of(std::string_view what, std::string_view text, size_t from = 0);

}  // namespace hyperion::text::jinja
