#include "hyperion/tokenizers/chat_tokens.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/tokenizers/bpe_trainer.h"
#include "hyperion/tokenizers/open_tokenizer.h"

namespace hyperion::tokenizers {
namespace {

const std::string kChatMl =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const std::vector<text::ChatMessage> kTurns = {
    {"system", "Be kind."}, {"user", "Hi"}, {"assistant", "Hello."}, {"user", "Bye"}, {"assistant", "So long!"}};

// What the assistant says, by the template, each in brackets.
std::string said(const std::string& source, const std::vector<text::ChatMessage>& messages = kTurns,
                 const std::string& eos = "<|im_end|>") {
  const auto turns = text::ChatTemplate(source, "template").render_with_turns(messages, "<s>", eos);
  EXPECT_EQ(turns.text, text::ChatTemplate(source, "template").render(messages, false, "<s>", eos));
  std::string out;
  for (const auto& [begin, end] : turns.said) out += "[" + turns.text.substr(begin, end - begin) + "]";
  return out;
}

TEST(ChatTurns, RunFromThePromptToTheEndOfTheTurn) {
  EXPECT_EQ(said(kChatMl), "[Hello.<|im_end|>\n][So long!<|im_end|>\n]");
  EXPECT_EQ(said(kChatMl, {kTurns.begin(), kTurns.end() - 1}), "[Hello.<|im_end|>\n]");
  EXPECT_EQ(said(kChatMl, {{"user", "Hi"}}), "");
}

TEST(ChatTurns, ArePreferredAsTheTemplateMarksThem) {
  const std::string marked =
      "{% for m in messages %}{% if m.role == 'assistant' %}A:{% generation %}{{ m.content }}{{ eos_token }}"
      "{% endgeneration %}{% else %}U:{{ m.content }}{% endif %};{% endfor %}";
  EXPECT_EQ(said(marked, kTurns, "</s>"), "[Hello.</s>][So long!</s>]");
  EXPECT_EQ(said("{% generation %}a{% generation %}b{% endgeneration %}c{% endgeneration %}"), "[abc]");
}

TEST(ChatTurns, MarkedWhereTheirPlaceIsNotKnownAreAnError) {
  const std::string hidden = "{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ f() }}";
  EXPECT_EQ(text::ChatTemplate(hidden, "t").render(kTurns, false), "x");
  EXPECT_THROW(text::ChatTemplate(hidden, "t").render_with_turns(kTurns), base::CorruptError);
}

TEST(ChatTurns, HaveTheEndOfTurnThatTheLastOneLacks) {
  EXPECT_EQ(said("{% for m in messages %}{{ '#' + m.role + ':' + m.content + ('' if loop.last else eos_token) }}"
                 "{% endfor %}{% if add_generation_prompt %}{{ eos_token + '#assistant:' }}{% endif %}",
                 kTurns, "</s>"),
            "[Hello.</s>][So long!]");
}

TEST(ChatTurns, LeaveOutWhatEndsOnlyTheDialogue) {
  EXPECT_EQ(said("{% for m in messages %}{{ '#' + m.role + ':' + m.content + '<end>' }}{% endfor %}"
                 "{{ '#assistant:' if add_generation_prompt else eos_token }}",
                 kTurns, "</s>"),
            "[Hello.<end>][So long!<end></s>]");
}

TEST(ChatTurns, HaveNoEndWhereTheLastOneEndsOtherwise) {
  EXPECT_EQ(said("{% for m in messages %}{{ '#' + m.role + ':' + m.content }}"
                 "{{ '<return>' if loop.last and m.role == 'assistant' else '<end>' }}{% endfor %}"
                 "{% if add_generation_prompt %}{{ '#assistant:' }}{% endif %}"),
            "[Hello.][So long!<return>]");
}

TEST(ChatTurns, AreFoundWhereOnlyTheLastOneShowsItsThoughts) {
  const std::string thinks =
      "{% for m in messages %}{{ '#' + m.role + ':' }}{% if m.role == 'assistant' and not loop.last %}"
      "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}#assistant:{% endif %}";
  auto chat = kTurns;
  chat[2].content = "<think>A greeting.</think>Hello.";
  chat[4].content = "<think>They leave.</think>So long!";
  EXPECT_EQ(said(thinks, chat, "</s>"), "[Hello.</s>][<think>They leave.</think>So long!</s>]");
}

TEST(ChatTurns, BeginBeforeWhatOnlyThePromptSays) {
  const std::string prompts =
      "{% for m in messages %}{{ '#' + m.role + ':' + m.content + eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}#assistant:<think>{% endif %}";
  auto chat = kTurns;
  chat[2].content = "<b>Hello.</b>";  // begins as the prompt goes on
  EXPECT_EQ(said(prompts, chat, "</s>"), "[<b>Hello.</b></s>][So long!</s>]");
}

TEST(ChatTurns, MayFollowWhiteSpaceThatIsOnlyThereBeforeThem) {
  EXPECT_EQ(said("{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ '' if loop.last or m.role == 'assistant' else "
                 "'\n' }}|{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"),
            "[Hello.|][So long!|]");
}

TEST(ChatTurns, ThatCannotBeFoundAreAnErrorThatNamesTheMessage) {
  const std::string counts =
      "{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}:{% "
      "endif %}";
  try {
    said(counts);
    FAIL() << "found";
  } catch (const base::ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("message 3"), std::string::npos) << error.what();
  }
  EXPECT_THROW(text::ChatTemplate(counts, "t").render_with_turns(nlohmann::ordered_json::object(), 0),
               base::ConfigError);
}

// A tokenizer of bytes: a token a byte, and those of the words in `text` merged.
std::unique_ptr<const Tokenizer> small_tokenizer(std::string_view text) {
  const auto path = std::filesystem::temp_directory_path() / base::format("chat-tokens-{}.json", ::getpid());
  BpeTrainer trainer({Pattern::kGpt2, 400, 0, {"<|im_start|>", "<|im_end|>"}});
  trainer.add(text);
  std::ofstream(path) << trainer.train();
  auto out = open_tokenizer(path);
  std::filesystem::remove(path);
  return out;
}

TEST(ChatTokens, LearnWhatTheAssistantSaysAndNothingElse) {
  const auto tokenizer = small_tokenizer("Hello Hello. So long So long! assistant user");
  const auto turns = text::ChatTemplate(kChatMl, "template").render_with_turns(kTurns);
  const auto tokens = tokens_of_turns(*tokenizer, turns);
  ASSERT_EQ(tokens.loss_mask.size(), tokens.ids.size());
  EXPECT_EQ(tokens.ids, tokenizer->encode(turns.text, false));
  std::vector<TokenId> learned;
  for (size_t i = 0; i < tokens.ids.size(); ++i)
    if (tokens.loss_mask[i] != 0) learned.push_back(tokens.ids[i]);
  EXPECT_EQ(tokenizer->decode(learned), "Hello.<|im_end|>\nSo long!<|im_end|>\n");
}

TEST(ChatTokens, ThatBeginBeforeATurnAndEndInItAreLearned) {
  const auto tokenizer = small_tokenizer("abcd abcd abcd");
  text::ChatTurns turns{"abcd abcd", {{2, 3}}};
  const auto tokens = tokens_of_turns(*tokenizer, turns);
  ASSERT_EQ(tokens.ids.size(), 2u);
  EXPECT_EQ(tokens.loss_mask, (std::vector<uint8_t>{1, 0}));
}

}  // namespace
}  // namespace hyperion::tokenizers
