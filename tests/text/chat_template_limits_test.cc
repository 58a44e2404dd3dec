// Templates come with models from anywhere: none may run without end, or eat the memory.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/text/chat_template.h"

namespace hyperion::text {
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

// x: 8 MiB of the letter a; y: the same text, held apart.
const std::string kLongTexts =
    "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(20) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    "{% set n.y = n.x ~ '' %}{% set x = n.x %}{% set y = n.y %}";

std::string again(int times, const std::string& body) {
  return kLongTexts + "{% for i in range(" + std::to_string(times) + ") %}" + body + "{% endfor %}";
}

TEST(ChatTemplateLimits, work_on_texts_counts_by_their_length) {
  for (const char* body : {"{% if x == y %}{% endif %}", "{% if x < y %}{% endif %}", "{% if 'b' in x %}{% endif %}",
                           "{% set z = x ~ '' %}", "{% set z = x + '' %}", "{% set z = 'a'.startswith([x]) %}",
                           "{% set z = 'a'.find(x) %}", "{% set z = 'a'.strip(x) %}", "{% set z = 'a'.split(x) %}",
                           "{% set z = 'a'.replace('b', x).replace(x, 'b') %}", "{% set z = x[-1:] %}",
                           "{% set z = x[9] %}", "{% set z = x | first %}"})
    expect_refused(again(300, body), "steps");
}

TEST(ChatTemplateLimits, searches_end_however_much_of_them_nearly_matches) {
  EXPECT_EQ(rendered_within_limits(kLongTexts + "{{ (x[9:] ~ 'b') in x }}"), "False");
  EXPECT_EQ(rendered_within_limits(kLongTexts + "{{ x.find(x[9:] ~ 'b') }}"), "-1");
  EXPECT_EQ(rendered_within_limits(kLongTexts + "{{ x.split(x[9:] ~ 'b') | length }}"), "1");
  EXPECT_EQ(rendered_within_limits(kLongTexts + "{{ x.replace(x[9:] ~ 'b', '') == x }}"), "True");
  expect_refused(kLongTexts + "{{ x.strip(x.replace('aaaaaaaa', 'bbbbbbbb') ~ 'a') }}", "steps");
}

TEST(ChatTemplateLimits, keys_that_are_looked_for_count) {
  std::string keys;
  for (int i = 0; i < 5000; ++i) keys += "'k" + std::to_string(i) + "': 1, ";
  const std::string mapping = "{% set m = {" + keys + "'z': 2} %}";
  EXPECT_EQ(rendered_within_limits(mapping + "{{ m.z }}"), "2");
  expect_refused(mapping + "{% for i in range(99999) %}{% if m.z %}{% endif %}{% endfor %}", "steps");
  expect_refused(mapping + "{% for i in range(99999) %}{% set c = dict(m, a=1) %}{% endfor %}", "steps");
}

TEST(ChatTemplateLimits, all_values_alive_share_one_limit) {
  const std::string why = "past 256 MiB together";
  expect_refused(kLongTexts + "{{ x.split('a') | length }}", why);
  expect_refused(kLongTexts + "{% for c in x %}{% endfor %}", why);
  expect_refused(again(40, "{% set n.l = [n.l, x ~ i] %}"), why);
  expect_refused(again(40, "{% set n.l = {'text': x ~ i, 'rest': n.l} %}"), why);
  expect_refused(again(40, "{% set n.l = {x ~ i: n.l} %}"), why);
  std::string nested;
  for (int i = 0; i < 40; ++i) nested = "{% set b" + std::to_string(i) + " %}{{ x }}" + nested + "{% endset %}";
  expect_refused(kLongTexts + nested, why);
  expect_refused(kLongTexts + "{% macro m(d) %}{{ x }}{{ m(d + 1) }}{% endmacro %}{{ m(0) }}", why);
}

TEST(ChatTemplateLimits, values_that_are_gone_do_not_count) {
  EXPECT_EQ(rendered_within_limits(again(40, "{% set n.z = x | upper %}") + "{{ n.z | length }}"), "8388608");
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
}  // namespace hyperion::text
