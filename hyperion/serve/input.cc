#include "hyperion/serve/input.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"

namespace hyperion::serve {
namespace {

// Up to `end`, or to the end of the stream; whether anything was there.
bool take_until(std::istream& in, std::optional<char> end, const char* what, std::string& out) {
  char byte = 0;
  bool any = false;
  while (in.get(byte)) {
    any = true;
    if (byte == end) break;
    if (out.size() == kLongestPrompt)
      throw base::ConfigError(
          base::format("{} from standard input is longer than {}", what, base::bytes_text(kLongestPrompt)),
          "no model reads so much at once; give it a part");
    out += byte;
  }
  base::throw_if_stopped("reading standard input");
  return any;
}

}  // namespace

std::string read_prompt(std::istream& in) {
  std::string out;
  take_until(in, std::nullopt, "the prompt", out);
  return out;
}

std::optional<std::string> read_plain_line(std::istream& in) {
  std::string out;
  if (!take_until(in, '\n', "a line", out)) return std::nullopt;
  return out;
}

}  // namespace hyperion::serve
