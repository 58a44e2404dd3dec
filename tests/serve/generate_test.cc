#include "hyperion/serve/generate.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/models/gpt2.h"

namespace hyperion::serve {
namespace {

interop::OpenedModel opened_model() {
  models::Gpt2Config config;
  config.layers = 2, config.heads = 2, config.width = 16, config.context = 24, config.vocabulary = 256;
  interop::OpenedModel opened;
  opened.model = models::make_gpt2(config);
  opened.model->initialise(3);
  return opened;
}

GenerateOptions sampled(int64_t tokens) {
  GenerateOptions options;
  options.temperature = 1, options.new_tokens = tokens;
  return options;
}

TEST(Generate, hands_on_every_piece_and_then_the_end) {
  auto opened = opened_model();
  std::map<size_t, std::string> heard;
  std::map<size_t, int> ends;
  auto options = sampled(10);
  options.batch = 2;
  const auto texts = generate(opened, at::kCPU, {"a", "abcdef", "xy"}, options, [&](size_t i, auto piece, bool last) {
    EXPECT_EQ(ends[i], 0);
    heard[i] += piece;
    ends[i] += last;
  });
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(texts[i].size(), 10u);
    EXPECT_EQ(heard[i], texts[i]);
    EXPECT_EQ(ends[i], 1);
  }
}

TEST(Generate, ends_at_the_first_of_the_stop_texts_and_keeps_it) {
  auto opened = opened_model();
  auto options = sampled(16);
  const std::string whole = generate(opened, at::kCPU, {"abc"}, options)[0];
  options.stop = {"not to be found", whole.substr(9, 4), whole.substr(5, 3)};
  const std::string cut = generate(opened, at::kCPU, {"abc"}, options)[0];
  EXPECT_EQ(cut, whole.substr(0, 8));
  options.stop = {"c" + whole.substr(0, 1)};
  EXPECT_EQ(generate(opened, at::kCPU, {"abc"}, options)[0], whole) << "the prompt is no part of it";
}

TEST(Generate, ends_at_an_end_token_which_is_no_text) {
  auto opened = opened_model();
  const std::string whole = generate(opened, at::kCPU, {"abc"}, sampled(16))[0];
  opened.ends = {static_cast<unsigned char>(whole[6])};
  EXPECT_EQ(generate(opened, at::kCPU, {"abc"}, sampled(16))[0], whole.substr(0, whole.find(whole[6])));
}

TEST(Generate, scores_that_are_not_finite_are_an_error) {
  auto opened = opened_model();
  opened.model->parameters().front().tensor.detach().fill_(std::numeric_limits<float>::quiet_NaN());
  for (const double temperature : {0.0, 1.0}) {
    auto options = sampled(4);
    options.temperature = temperature;
    try {
      generate(opened, at::kCPU, {"abc"}, options);
      FAIL();
    } catch (const base::Error& error) {
      EXPECT_NE(std::string(error.what()).find("not finite"), std::string::npos) << error.what();
    }
  }
}

TEST(Generate, fills_the_context_of_each_prompt_alike_alone_and_in_a_batch) {
  auto opened = opened_model();
  GenerateOptions greedy;
  greedy.new_tokens = 100;
  const std::vector<std::string> prompts = {"a", "a much longer prompt", "xyz"};
  const auto together = generate(opened, at::kCPU, prompts, greedy);
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(together[i].size(), 24 - prompts[i].size());
    EXPECT_EQ(generate(opened, at::kCPU, {prompts[i]}, greedy)[0], together[i]);
  }
}

TEST(Generate, refuses_a_model_whose_tokens_are_not_bytes) {
  auto opened = opened_model();
  opened.bytes = false;
  EXPECT_THROW(generate(opened, at::kCPU, {"a"}, {}), base::ConfigError);
}

TEST(InTurn, puts_texts_that_grow_together_one_after_the_other) {
  std::string out;
  InTurn in_turn(3, [&](size_t index, std::string_view piece, bool last) {
    out += std::to_string(index) + std::string(piece) + (last ? "|" : " ");
  });
  in_turn.take(1, "b", false);
  in_turn.take(0, "a", false);
  in_turn.take(1, "c", true);
  in_turn.take(2, "x", false);
  EXPECT_EQ(out, "0a ");
  in_turn.take(0, "", true);
  EXPECT_EQ(out, "0a 0|1bc|2x ");
  in_turn.take(2, "y", true);
  EXPECT_EQ(out, "0a 0|1bc|2x 2y|");
}

}  // namespace
}  // namespace hyperion::serve
