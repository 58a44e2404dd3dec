// How much one rendering of a template may do: templates come with models from anywhere, and some would never end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace hyperion::data::jinja {

constexpr size_t kMaxText = size_t{1} << 26;  // bytes of a text that a template makes

// While it lives, what this thread renders counts against it.
class Budget {
 public:
  Budget();
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  int64_t outer_;
};

// So many steps: of the template, elements looked at, or pieces of text. Throws Fault where the budget is used up, and
// Interrupted where the program was asked to stop.
void spend(size_t steps);
inline void spend_on_text(size_t bytes) { spend(1 + bytes / 16); }

// Appends, and throws Fault where the text grows past kMaxText.
void append(std::string& out, const std::string& more);

}  // namespace hyperion::data::jinja
