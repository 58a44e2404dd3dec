#include "hyperion/nn/path_expression.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::nn {
namespace {

constexpr auto kEnd = PathExpression::Reach::end;

std::string expression_failure(const std::string& text, PathExpression::Reach reach = PathExpression::Reach::whole) {
  try {
    PathExpression(text, "lora.targets", reach).matches("model.layers.10.self_attn.q_proj.of.some.length");
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "";
}

class PathExpressions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (expression_failure("a").find("no PCRE2") != std::string::npos) GTEST_SKIP() << "this build has no PCRE2";
  }
};

TEST_F(PathExpressions, match_whole_paths_or_their_ends_as_in_peft) {
  const auto whole = [](const std::string& text, const std::string& path) {
    return PathExpression(text, "here").matches(path);
  };
  EXPECT_TRUE(whole(".*q_proj", "model.q_proj"));
  EXPECT_FALSE(whole("q_proj", "model.q_proj"));
  EXPECT_FALSE(whole("model", "model.q_proj"));
  EXPECT_TRUE(whole("a|ab", "ab"));  // the first that fits the whole, not the first that fits
  EXPECT_TRUE(whole(R"((?P<kind>q|v)_proj(?<=j)\.(?P=kind))", "q_proj.q"));
  EXPECT_TRUE(whole(R"(^(?:model\.)?layers\.\d{1,2}\.(?!mlp)[]a-z_^]+$)", "model.layers.10.attn"));
  EXPECT_TRUE(whole("(?i)Q_PROJ", "q_proj"));
  const auto end = [](const std::string& text, const std::string& path) {
    return PathExpression(text, "here", kEnd).matches(path);
  };
  EXPECT_TRUE(end("q_proj", "model.q_proj"));
  EXPECT_TRUE(end("q_proj", "q_proj"));
  EXPECT_FALSE(end("proj", "q_proj"));
  EXPECT_TRUE(end("^model.q_proj", "model.q_proj"));
  EXPECT_TRUE(end("a|q_proj", "model.q_proj"));
  EXPECT_FALSE(end("q_proj", "model.q_proj.lora"));
  EXPECT_FALSE(PathExpression().matches(""));
}

TEST_F(PathExpressions, that_python_means_otherwise_are_refused_by_name) {
  for (const std::string refused : {"(?<x>a)", "(?R)", "(*ACCEPT)", "a{,3}", "\\K", "\\Qa\\E", "\\v", "\\pL", "\\u0041",
                                    "[[:alpha:]]", "(?|a)", "(a", "a)", "[a", "\\", "*", "(?P<x>a"}) {
    EXPECT_NE(expression_failure(refused).find("lora.targets: "), std::string::npos) << refused;
    EXPECT_NE(expression_failure(refused).find("regular expression"), std::string::npos) << refused;
  }
}

TEST_F(PathExpressions, neither_overflow_nor_run_for_ever) {
  for (const auto reach : {PathExpression::Reach::whole, kEnd}) {
    EXPECT_NE(expression_failure(std::string(20'000, '('), reach).find("nested"), std::string::npos);
    EXPECT_NE(expression_failure("(.*)*[xy]", reach).find("steps"), std::string::npos);
    EXPECT_NE(expression_failure(std::string(1 << 17, 'a'), reach).find("bytes"), std::string::npos);
    EXPECT_LT(expression_failure(std::string(1 << 17, 'a'), reach).size(), 300u);
  }
  EXPECT_EQ(expression_failure("(.*)*x"), "");  // no path without an "x" is tried at all
  std::string many = ".*(none";
  for (int i = 0; i < 1000; ++i) many += "|layers\\." + std::to_string(i) + "\\.self_attn\\.q_proj.*";
  EXPECT_EQ(expression_failure(many + ")"), "");
}

}  // namespace
}  // namespace hyperion::nn
