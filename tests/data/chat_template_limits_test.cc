// Templates come with models from anywhere: none may run without end, or eat the memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/data/chat_template.h"

namespace hyperion::data {
namespace {

std::string rendered_within_limits(const std::string& source) {
  return ChatTemplate(source, "t.jinja").render({{"user", "hi"}}, true);
}

std::string refusal_of(const std::string& source) {
  try {
    rendered_within_limits(source);
  } catch (const base::CorruptError& error) {
    return error.what();
  }
  return "";
}

void expect_refused(const std::string& source, const std::string& why) {
  const std::string text = refusal_of(source);
  EXPECT_NE(text.find("t.jinja:1: in the chat template"), std::string::npos) << text << " of " << source;
  EXPECT_NE(text.find(why), std::string::npos) << text << " of " << source;
}

TEST(ChatTemplateLimits, loops_that_do_nothing_count_too) {
  expect_refused("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps");
  expect_refused("{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}", "steps");
}

TEST(ChatTemplateLimits, a_value_that_is_handed_on_is_not_copied) {
  const std::string wrapped = "{% set n = namespace(x=[]) %}{% for i in range(900) %}{% set n.x = [n.x] %}{% endfor %}";
  EXPECT_EQ(rendered_within_limits(wrapped + "{{ n.x | length }}"), "1");
  const std::string handed =
      "{% set n = namespace(x=range(90000) | list) %}{% for i in range(90000) %}{% set n.x = n.x %}{% endfor %}";
  EXPECT_EQ(rendered_within_limits(handed + "{{ n.x | length }}"), "90000");
}

TEST(ChatTemplateLimits, a_value_nests_only_so_deep) {
  expect_refused("{% set n = namespace(x=[]) %}{% for i in range(30000) %}{% set n.x = [n.x] %}{% endfor %}", "deep");
  expect_refused("{% set n = namespace(x={}) %}{% for i in range(30000) %}{% set n.x = {'k': n.x} %}{% endfor %}",
                 "deep");
}

TEST(ChatTemplateLimits, a_value_that_holds_itself_twice_again_and_again_is_neither_shown_nor_compared) {
  const std::string doubled =
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% set n.y = [n.y, n.y] "
      "%}{% endfor %}";
  EXPECT_EQ(rendered_within_limits(doubled + "{{ n.x | length }}"), "2");
  expect_refused(doubled + "{{ n.x }}", "steps");
  expect_refused(doubled + "{{ n.x | tojson }}", "steps");
  expect_refused(doubled + "{{ n.x == n.y }}", "steps");
}

TEST(ChatTemplateLimits, texts_grow_only_so_far) {
  const std::string long_text =
      "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(20) %}{% set n.x = n.x ~ n.x "
      "%}{% endfor %}";
  expect_refused(long_text + "{{ n.x | replace('a', n.x) }}", "too large");
  expect_refused(long_text + "{{ range(99999) | join(n.x) }}", "too large");
  expect_refused(long_text + "{% for i in range(99) %}{{ n.x }}{% endfor %}", "too large");
}

TEST(ChatTemplateLimits, comparisons_in_comparisons_do_not_multiply) {
  std::string inner = "1";
  for (int i = 0; i < 40; ++i) inner = "(1 < " + inner + " < 2)";
  expect_refused("{{ " + inner + " }}", "operators");
}

TEST(ChatTemplateLimits, a_long_dialogue_is_far_from_them) {
  std::vector<ChatMessage> messages;
  for (int i = 0; i < 3000; ++i) messages.push_back({i % 2 == 0 ? "user" : "assistant", std::string(500, 'x')});
  const ChatTemplate chat(
      "{% for m in messages %}{% if loop.index0 > 0 and messages[loop.index0 - 1].role == m.role %}{{ "
      "raise_exception('twice') }}{% endif %}{% if messages | length > 2 and m.content | trim %}{{ m.role ~ ': ' ~ "
      "m.content.strip() }}{% if not loop.last %}{{ '\n' }}{% endif %}{% endif %}{% endfor %}",
      "t.jinja");
  EXPECT_EQ(chat.render(messages, false).size(), 3000u * 500 + 1500 * 6 + 1500 * 11 + 2999);
}

}  // namespace
}  // namespace hyperion::data
