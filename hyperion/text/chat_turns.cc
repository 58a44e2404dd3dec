#include "hyperion/text/chat_turns.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::text {
namespace {

using nlohmann::ordered_json;
using Render = std::function<std::string(const ordered_json&)>;

size_t common_start(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
size_t common_end(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

// The longest end of `a` that `b` begins with. Linear: each mismatch falls back to the longest end of what matched that
// is also its beginning.
size_t end_that_begins(std::string_view a, std::string_view b) {
  std::vector<size_t> fall_back(b.size() + 1, 0);
  const auto advance = [&](size_t matched, char byte) {
    while (matched > 0 && (matched == b.size() || b[matched] != byte)) matched = fall_back[matched];
    return matched < b.size() && b[matched] == byte ? matched + 1 : 0;
  };
  for (size_t at = 1; at < b.size(); ++at) fall_back[at + 1] = advance(fall_back[at], b[at]);
  size_t matched = 0;
  for (const char byte : a) matched = advance(matched, byte);
  return matched;
}

std::string text_or_none(const ordered_json& variables, const char* name) {
  const auto found = variables.find(name);
  return found != variables.end() && found->is_string() ? found->get<std::string>() : "";
}

class Turns {
 public:
  Turns(const ordered_json& variables, std::string_view text, const std::string& place, const Render& render)
      : variables_(variables),
        messages_(variables.at("messages")),
        text_(text),
        eos_(text_or_none(variables, "eos_token")),
        place_(place),
        render_(render) {}

  std::vector<ByteRange> find() const {
    std::vector<ByteRange> out;
    size_t done = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const auto& message = messages_[i];
      if (!message.is_object() || message.value("role", ordered_json()) != "assistant") continue;
      const ByteRange turn = turn_of(i);
      if (turn.begin < done) lost(i);
      out.push_back(turn);
      done = turn.end;
    }
    return out;
  }

 private:
  // The first `count` messages.
  std::string first(size_t count, bool prompt = false) const {
    auto changed = variables_;
    changed["messages"] = ordered_json(ordered_json::array());
    for (size_t i = 0; i < count; ++i) changed["messages"].push_back(messages_[i]);
    changed["add_generation_prompt"] = prompt;
    return render_(changed);
  }

  // The first messages up to message i, with two contents in its place that have nothing in common: what stands around
  // the content is the same in both.
  struct Around {
    size_t before, after;
  };
  Around around_content(size_t i) const {
    auto changed = variables_;
    changed["messages"] = ordered_json(ordered_json::array());
    for (size_t k = 0; k <= i; ++k) changed["messages"].push_back(messages_[k]);
    changed["messages"][i]["content"] = "0";
    const auto zero = render_(changed);
    changed["messages"][i]["content"] = "1";
    const auto one = render_(changed);
    return {common_start(zero, one), common_end(zero, one)};
  }

  ByteRange turn_of(size_t i) const {
    const size_t begin = begin_of(i);
    size_t end = end_of(i, begin);
    // Some templates leave the end of turn out where the dialogue ends, and only there.
    if (!eos_.empty() && !text_.substr(begin, end - begin).ends_with(eos_) && text_.substr(end).starts_with(eos_))
      end += eos_.size();
    return {begin, end};
  }

  size_t begin_of(size_t i) const {
    const auto prompt = first(i, true);
    if (text_.starts_with(prompt)) return prompt.size();
    // The prompt may say more than stands before a turn that is there, as "<think>".
    const size_t same = common_start(prompt, text_), begin = std::min(same, around_content(i).before);
    const auto before = first(i);
    if (text_.starts_with(before) && begin >= before.size()) return begin;
    // What a tool says may end with white space where a turn follows, and without where the dialogue ends.
    const size_t there = text_.find(std::string_view(prompt).substr(same), same);
    if (there == text_.npos || text_.substr(same, there - same).find_first_not_of(" \n") != text_.npos) lost(i);
    return there + prompt.size() - same;
  }

  size_t end_of(size_t i, size_t begin) const {
    if (i + 1 == messages_.size()) return text_.size();
    auto turn = first(i + 1);
    // Some templates put a token at the end of the dialogue that is not of the turn.
    if (!eos_.empty() && turn.ends_with(eos_) && !text_.starts_with(turn)) turn.resize(turn.size() - eos_.size());
    if (text_.starts_with(turn)) {
      if (turn.size() < begin) lost(i);
      return turn.size();
    }
    const size_t after = around_content(i).after;
    // What follows the words is another where the dialogue ends.
    const size_t said = turn.size() - std::min(after, turn.size());
    if (said >= begin && common_start(turn, text_) >= said) return said;
    // What precedes the words is another: the turn as it is here is the end of the turn as it is there.
    const size_t size =
        end_that_begins(std::string_view(turn).substr(std::min(begin, turn.size())), text_.substr(begin));
    if (size <= after) lost(i);
    return begin + size;
  }

  [[noreturn]] void lost(size_t i) const {
    throw base::ConfigError(
        base::format("{}: the turn of message {} is not to be found in the dialogue, since the chat template writes it "
                     "otherwise once other messages follow",
                     place_, i + 1),
        "mark what the assistant says in the template: {% generation %}...{% endgeneration %}");
  }

  const ordered_json& variables_;
  const ordered_json& messages_;
  std::string_view text_;
  std::string eos_;
  const std::string& place_;
  const Render& render_;
};

}  // namespace

std::vector<ByteRange> find_turns(const ordered_json& variables, std::string_view text, const std::string& place,
                                  const Render& render) {
  return Turns(variables, text, place, render).find();
}

}  // namespace hyperion::text
