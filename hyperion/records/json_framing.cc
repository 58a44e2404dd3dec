#include <algorithm>

#include "hyperion/records/framing.h"
#include "hyperion/text/json_text.h"

namespace hyperion::records {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Finds where values end by their brackets and quotes alone; whether they are JSON is for the parser to say.
class JsonRecords final : public RawRecords {
 public:
  explicit JsonRecords(FramedFile file) : file_(std::move(file)) {}

  bool next(RawRecord& record) override {
    if (file_.bytes.failed() || state_ == State::over) return false;
    if (state_ == State::beginning) {
      state_ = after_space() == '[' ? State::first_element : State::object;
      if (state_ == State::object && after_space() != '{') fail("is neither an array nor an object of JSON");
      if (state_ == State::first_element) take(1, nullptr);
    }
    if (state_ == State::object) {
      state_ = State::over;
      value(record);
      end();
      return true;
    }
    const char c = after_space();
    if (c == ']' && (state_ == State::first_element || state_ == State::elements)) {
      take(1, nullptr);
      end();
      return false;
    }
    if (state_ == State::elements) {
      if (c != ',') fail("a ',' or ']' is missing after an element of the array");
      take(1, nullptr);
    }
    state_ = State::elements;
    value(record);
    return true;
  }

 private:
  enum class State { beginning, object, first_element, elements, over };

  // 0 at the end.
  char after_space() {
    for (std::string_view piece; !(piece = file_.bytes.peek()).empty();) {
      const auto* found = std::find_if_not(piece.begin(), piece.end(), is_space);
      const char c = found == piece.end() ? '\0' : *found;
      const bool ended = found != piece.end();
      take(static_cast<size_t>(found - piece.begin()), nullptr);
      if (ended) return c == '\0' ? '\1' : c;  // a NUL is as wrong as any control character
    }
    return '\0';
  }

  void value(RawRecord& record) {
    const char first = after_space();
    record.bytes.clear();
    record.file = file_.name;
    record.line = line_;
    record.byte = file_.bytes.position();
    too_large_ = false;
    if (first == '\0') fail("ends in the middle of its array");
    if (first == '{' || first == '[' || first == '"') {
      nested(record.bytes);
    } else {
      scalar(record.bytes);
    }
    if (too_large_) throw file_.too_large(record.line, "the element");
  }

  void nested(std::string& out) {
    int64_t depth = 0;
    bool quoted = false, escaped = false;
    for (std::string_view piece; !(piece = file_.bytes.peek()).empty();) {
      const char *at = piece.data(), *end = at + piece.size();
      while (at < end) {
        if (escaped) {
          escaped = false;
          ++at;
        } else if (quoted) {
          at = text::find_string_break(at, end);
          if (at == end) break;
          escaped = *at == '\\';
          quoted = *at != '"';
          ++at;
        } else {
          const char c = *at++;
          quoted = c == '"';
          depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        }
        if (depth == 0 && !quoted) {
          take(static_cast<size_t>(at - piece.data()), &out);
          return;
        }
      }
      take(piece.size(), &out);
    }
    fail("ends in the middle of an element");
  }

  void scalar(std::string& out) {
    for (std::string_view piece; !(piece = file_.bytes.peek()).empty();) {
      const size_t end = std::min(piece.find_first_of(",] \t\r\n"), piece.size());
      const bool ended = end < piece.size();
      take(end, &out);
      if (ended) break;
    }
    if (out.empty()) fail("an element of the array is missing");
  }

  void end() {
    state_ = State::over;
    if (after_space() == '\0') return;
    const auto line = line_;
    file_.bytes.stop();
    throw BadRecord(*file_.name, line, "something follows the end of the JSON",
                    "where each line is a JSON object, the format is jsonl");
  }

  void take(size_t size, std::string* out) {
    const std::string_view piece = file_.bytes.peek().substr(0, size);
    if (out != nullptr) {
      too_large_ |= out->size() + size > file_.limits.record;
      if (!too_large_) *out += piece;
    }
    line_ += std::count(piece.begin(), piece.end(), '\n');
    file_.bytes.skip(size);
  }

  [[noreturn]] void fail(const char* what) {
    const std::string reason = base::format("{} (byte {})", what, file_.bytes.position());
    file_.bytes.stop();
    throw BadRecord(*file_.name, line_, reason);
  }

  FramedFile file_;
  State state_ = State::beginning;
  int64_t line_ = 1;
  bool too_large_ = false;
};

}  // namespace

std::unique_ptr<RawRecords> frame_json(FramedFile file) { return std::make_unique<JsonRecords>(std::move(file)); }

}  // namespace hyperion::records
