#include "hyperion/tokenizers/expressions.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::tokenizers {
namespace {

// What opening or running an expression fails with; empty: it does not.
std::string failure(const std::string& expression, std::string_view text = "a") {
  try {
    find_expression(expression, "file.json")(text);
  } catch (const base::CorruptError& error) {
    return error.what();
  }
  return "";
}

class Expressions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (failure("a").find("no PCRE2") != std::string::npos) GTEST_SKIP() << "this build has no PCRE2";
  }
};

TEST_F(Expressions, FindMatchesAndWhatLiesBetween) {
  std::string shown;
  for (const auto& [start, end, match] : find_expression(R"(\p{L}+(?=\d)|\w$)", "f")("ab1 c d\nx"))
    shown += (match ? "[" : "(") + std::string("ab1 c d\nx").substr(start, end - start) + (match ? "]" : ")");
  EXPECT_EQ(shown, "[ab](1 c )[d](\n)[x]");
}

TEST_F(Expressions, ThatPcre2UnderstandsOtherwiseAreRefusedByName) {
  for (const std::string refused :
       {"[^(\\s|[.,])]+", "[a&&b]", "\\p{N}{1,3}+", "a{,3}", "\\h", "\\v", "\\bx", "(?m:.)", "(?<name>a)", "(*ACCEPT)",
        "[\\W]", "\\1", "a*", "(", "[a", "\\", "\\p{None}", "\\pL"}) {
    EXPECT_NE(failure(refused).find("not known here"), std::string::npos) << refused << ": " << failure(refused);
    EXPECT_NE(failure(refused).find("file.json"), std::string::npos) << refused;
  }
}

TEST_F(Expressions, ThatTakeTooLongOnATextAreAnError) {
  const std::string run(100'000, 'a');
  EXPECT_NE(failure("(a+)+b", run).find("steps a byte"), std::string::npos);
  EXPECT_NE(failure("a*b", run).find("steps a byte"), std::string::npos);  // quadratic, not exponential
  EXPECT_EQ(failure("a+", run), "");
  EXPECT_EQ(failure("\\s+(?!\\S)|\\s+|[^a]", run + std::string(100'000, ' ') + "x"), "");
}

}  // namespace
}  // namespace hyperion::tokenizers
