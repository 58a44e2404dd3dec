#include "hyperion/base/error.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"

namespace hyperion::base {

Activity& current_activity() {
  thread_local Activity activity;
  return activity;
}

OperationScope::OperationScope(std::string_view name) : outer_(std::move(current_activity().operation)) {
  current_activity().operation = name;
}
OperationScope::~OperationScope() { current_activity().operation = std::move(outer_); }

Error::Error(std::string what, std::string hint)
    : what_(std::move(what)), hint_(std::move(hint)), activity_(current_activity()) {}

FileError::FileError(std::string what, int code, std::string hint)
    : Error(code == 0 ? std::move(what) : what + ": " + std::strerror(code), std::move(hint)), code_(code) {}

Interrupted::Interrupted(std::string what, int exit_code, std::string hint)
    : Error(std::move(what), std::move(hint)), exit_code_(exit_code) {}

namespace {

// Our own lists have a line for each thing, indented by two; other line ends came with a name or a file.
std::string printable_lines(std::string_view text) {
  constexpr std::string_view kNext = "\n  ";
  std::string lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(kNext, at), text.size());
    lines += printable_line(text.substr(at, end - at));
    if (end < text.size()) lines += kNext;
    at = end + kNext.size();
  }
  return lines;
}

}  // namespace

std::string error_text(const Error& error) {
  const Activity& activity = error.activity();
  std::string text = format("error: {}", printable_lines(error.what()));
  std::string place;
  if (activity.rank != 0) place += format("rank {}, ", activity.rank);
  if (activity.step >= 0) place += format("step {}, ", activity.step);
  if (!activity.operation.empty()) place += format("in {}, ", activity.operation);
  if (!place.empty()) text += " (" + place.substr(0, place.size() - 2) + ")";
  text += "\n";
  if (!error.hint().empty()) text += format("hint: {}\n", printable_line(error.hint()));
  return text;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(format("{} ({} is false at {}:{})", message, condition, file, line),
              "this is a bug in hyperion; please report it with the command you ran");
}

namespace {
// Two letters that changed places count as one slip.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}
}  // namespace

std::string nearest(std::string_view word, const std::string* begin, const std::string* end) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string* candidate = begin; candidate != end; ++candidate) {
    const size_t distance = edit_distance(word, *candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate->size()))
      best = *candidate, best_distance = distance;
  }
  return best;
}

}  // namespace hyperion::base
