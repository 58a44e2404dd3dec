#include "hyperion/text/chat_template.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::text {
namespace {

using nlohmann::ordered_json;

const std::vector<ChatMessage> kChat = {{"user", "Hello "}, {"assistant", "Hi"}, {"user", "Bye"}};

std::string rendered(const std::string& source, const ordered_json& variables = ordered_json::object()) {
  return ChatTemplate(source, "t.jinja").render(variables, 1741523400);
}

template <class ErrorType>
std::string template_error(const std::string& source) {
  try {
    ChatTemplate(source, "t.jinja").render(kChat, false);
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, WritesChatMlWithAndWithoutTheGenerationPrompt) {
  const ChatTemplate chat(
      "{%- for m in messages %}\n"
      "    {{- '<|im_start|>' + m.role + '\\n' + m['content'] | trim + '<|im_end|>\\n' }}\n"
      "{%- endfor %}\n"
      "{%- if add_generation_prompt %}\n"
      "    {{- '<|im_start|>assistant\\n' }}\n"
      "{%- endif %}\n",
      "t.jinja");
  const std::string text =
      "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n";
  EXPECT_EQ(chat.render(kChat, false), text);
  EXPECT_EQ(chat.render(kChat, true), text + "<|im_start|>assistant\n");
}

TEST(ChatTemplate, GivesTheTokensThatBeginAndEndAText) {
  EXPECT_EQ(
      ChatTemplate("{{ bos_token }}{{ messages | length }}{{ eos_token }}", "t").render(kChat, false, "<s>", "</s>"),
      "<s>3</s>");
}

TEST(ChatTemplate, TrimsBlocksAndTheirIndentButNotPrintedValues) {
  EXPECT_EQ(rendered("  {% if true %}\n  a\n  {% endif %}\n  {{ 'b' }}\n c\n"), "  a\n  b\n c");
  EXPECT_EQ(rendered("a \n {%- if true -%} \n b {%+ endif +%}\nc"), "ab \nc");
  EXPECT_EQ(rendered("a {#- note -#} b{# note #}\nc"), "abc");
}

TEST(ChatTemplate, KeepsWhatALoopSetsOnlyInANamespace) {
  EXPECT_EQ(rendered("{% set x = 0 %}{% set ns = namespace(n=0) %}"
                     "{% for i in range(4) %}{% set x = i %}{% set ns.n = ns.n + i %}{% endfor %}{{ x }} {{ ns.n }}"),
            "0 6");
}

TEST(ChatTemplate, WritesValuesAsPythonDoesAndJsonAsJsonDumps) {
  const ordered_json variables = {{"v", {{"b", 1}, {"a", {true, nullptr, 1.0, "it's \"é\""}}}}};
  EXPECT_EQ(rendered("{{ v }}", variables), R"({'b': 1, 'a': [True, None, 1.0, 'it\'s "é"']})");
  EXPECT_EQ(rendered("{{ v | tojson }}", variables), R"({"b": 1, "a": [true, null, 1.0, "it's \"é\""]})");
  EXPECT_EQ(rendered("{{ {'a': [1], 'b': {}} | tojson(indent=2) }}"), "{\n  \"a\": [\n    1\n  ],\n  \"b\": {}\n}");
}

TEST(ChatTemplate, CutsTextByCharactersNotBytes) {
  EXPECT_EQ(rendered("{{ '日本語'[1:] }} {{ '日本語'[-1] }} {{ '日本語' | length }}"), "本語 語 3");
}

TEST(ChatTemplate, TellsTheTimeItIsGiven) {
  EXPECT_EQ(rendered("{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"), "09 Mar 2025");
}

TEST(ChatTemplate, NamesWhatItDoesNotKnowAndTheLine) {
  EXPECT_EQ(template_error<base::CorruptError>("a\n{% include 'x' %}"),
            "t.jinja:2: in the chat template, {% include %} is not known here");
  EXPECT_EQ(template_error<base::CorruptError>("\n\n{{ 'x' | frobnicate }}"),
            "t.jinja:3: in the chat template, the filter frobnicate is not known here");
  EXPECT_EQ(template_error<base::CorruptError>("{{ messages is purple }}"),
            "t.jinja:1: in the chat template, the test \"is purple\" is not known here");
  EXPECT_EQ(template_error<base::CorruptError>("{{ lost.part }}"),
            "t.jinja:1: in the chat template, \"lost\" is undefined, and part of it is asked for");
  EXPECT_EQ(template_error<base::CorruptError>("{% if true %}\n"),
            "t.jinja:1: in the chat template, {% endif %} is missing");
}

TEST(ChatTemplate, ARefusalOfTheTemplateIsTheUsersToMend) {
  EXPECT_EQ(template_error<base::ConfigError>("{{ raise_exception('no system role') }}"),
            "the chat template refuses the messages: no system role");
}

TEST(ChatTemplate, HostileTemplatesEndInAnErrorNotInTheStackOrTheMemory) {
  std::string sums = "{{ 1", parens = "{{ ", parts = "{{ a";
  for (int i = 0; i < 100'000; ++i) {
    sums += "+1";
    parens += '(';
    parts += ".a";
  }
  EXPECT_NE(template_error<base::CorruptError>(sums + " }}").find("operators"), std::string::npos);
  EXPECT_NE(template_error<base::CorruptError>(parts + " }}").find("operators"), std::string::npos);
  EXPECT_NE(template_error<base::CorruptError>(parens + "1" + std::string(100'000, ')') + " }}").find("deep"),
            std::string::npos);
  EXPECT_NE(template_error<base::CorruptError>("{% set n = namespace(x='abcdefgh') %}{% for i in range(99) %}"
                                               "{% set n.x = n.x ~ n.x %}{% endfor %}")
                .find("too large"),
            std::string::npos);
  EXPECT_NE(template_error<base::CorruptError>("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("calls itself"),
            std::string::npos);
  EXPECT_NE(template_error<base::CorruptError>("{{ range(9000000000) }}").find("range"), std::string::npos);
}

TEST(ChatTemplate, EveryCutOfATemplateIsReadOrRefused) {
  const std::string whole =
      "{%- for m in messages if m.role != 'x' %}{{ m['content'][1:] | replace('a', \"\\n\") }}{# c #}{% else %}{% "
      "endfor %}"
      "{% macro f(a, b=1) %}{{ {'k': [a, b]} | tojson(indent=1) }}{% endmacro %}{{ f(1, b=2) if not true else -1 }}";
  for (size_t size = 0; size <= whole.size(); ++size) {
    try {
      ChatTemplate(whole.substr(0, size), "t").render(kChat, true);
    } catch (const base::CorruptError&) {
      EXPECT_LT(size, whole.size());
    }
  }
}

class ChatTemplateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / base::format("chat-template-{}", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::optional<std::string> found() { return find_chat_template(base::real_files(), folder_); }
  std::filesystem::path folder_;
};

TEST_F(ChatTemplateFolder, PrefersItsOwnFileThenTheTokenizersSetting) {
  EXPECT_EQ(found(), std::nullopt);
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(found(), std::nullopt);
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(found(), "d");
  write("tokenizer_config.json", R"({"chat_template": "s"})");
  EXPECT_EQ(found(), "s");
  write("chat_template.jinja", "own");
  EXPECT_EQ(found(), "own");
}

TEST_F(ChatTemplateFolder, MayHaveATemplateApartForTools) {
  const auto for_tools = [&] { return find_tool_template(base::real_files(), folder_); };
  EXPECT_EQ(for_tools(), std::nullopt);
  write("tokenizer_config.json", R"({"chat_template": "s"})");
  EXPECT_EQ(for_tools(), std::nullopt);
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"}]})");
  EXPECT_EQ(for_tools(), std::nullopt);
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(for_tools(), "t");
  std::filesystem::create_directories(folder_ / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "own");
  EXPECT_EQ(for_tools(), "own");
}

// A model of a text without the call would learn to stop where it stood.
TEST(ChatTemplate, RefusesCallsAndToolsThatItDoesNotWrite) {
  const std::string plain = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  const auto text = [](const std::string& source, const std::string& more, const std::string& tools = "") {
    const std::vector<ChatMessage> messages = {
        {"user", "a"}, {"assistant", "b", R"({"role": "assistant", "content": "b")" + more + "}"}};
    try {
      return ChatTemplate(source, "t.jinja").render_with_turns(messages, "", "", tools).text;
    } catch (const base::ConfigError& error) {
      return std::string(error.what());
    }
  };
  const std::string calls = R"(, "tool_calls": [{"name": "f"}])", said = "<user>a<assistant>b";
  EXPECT_EQ(text(plain, calls), "message 2 has \"tool_calls\", which the chat template t.jinja does not write");
  EXPECT_EQ(text(plain, R"(, "function_call": {"name": "f"})"),
            "message 2 has \"function_call\", which the chat template t.jinja does not write");
  EXPECT_EQ(text(plain, "", R"([{"name": "f"}])"),
            "the record has \"tools\", which the chat template t.jinja does not write");
  EXPECT_EQ(text(plain, R"(, "tool_calls": [], "function_call": null, "weight": 1, "tool_call_id": "x")", "[]"), said);
  for (const char* named : {"m.tool_calls[0].name", "m['tool_calls'][0].name", "m.get('tool_calls')[0].name"})
    EXPECT_EQ(text("{% for m in messages %}{% if m.role == 'assistant' %}{{ " + std::string(named) +
                       " }}{% endif %}{% endfor %}",
                   calls),
              "f");
  EXPECT_EQ(text("{% if tools %}{{ tools[0].name }}{% endif %}" + plain, "", R"([{"name": "f"}])"), "f" + said);
  EXPECT_EQ(text("{% for m in messages %}{{ m | tojson }}{% endfor %}", calls),
            R"({"role": "user", "content": "a"})"
            R"({"role": "assistant", "content": "b", "tool_calls": [{"name": "f"}]})");
}

TEST_F(ChatTemplateFolder, RefusesASettingThatIsNoTemplate) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}]})");
  EXPECT_THROW(found(), base::CorruptError);
}

}  // namespace
}  // namespace hyperion::text
