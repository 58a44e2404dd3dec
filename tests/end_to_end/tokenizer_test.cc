// A tokenizer trained by the program, opened by it again; and what it says to those who ask for one that is not there.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;

TEST(TokenizerCommands, train_writes_a_file_once_and_tokenize_opens_it) {
  const Scratch scratch;
  const auto text = (scratch.path() / "text.txt").string(), json = (scratch.path() / "tokenizer.json").string();
  testing::write_file(text, "low lower lowest, new newer newest\n");
  const std::vector<std::string> train = {"data", "train-tokenizer", text, "--to", json, "--vocab-size", "262"};
  const Finished trained = run(scratch, train);
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("262 tokens from 35 B"), std::string::npos) << trained.out;
  const Finished again = run(scratch, train);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
  const Finished both = run(scratch, {"data", "tokenize", "--tokenizer", json, "--ids", "--count"});
  EXPECT_EQ(both.code, 2) << both.err;
}

TEST(TokenizerCommands, what_cannot_be_opened_is_refused_with_a_hint) {
  const Scratch scratch;
  const Finished missing = run(scratch, {"data", "tokenize", "--tokenizer", "nowhere"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("nowhere does not exist"), std::string::npos) << missing.err;
  EXPECT_NE(missing.err.find("hint: name a Hugging Face folder"), std::string::npos) << missing.err;
  testing::write_file(scratch.path() / "tokenizer.json", R"({"model": {"type": "Magic", "vocab": {}}})");
  const Finished unknown = run(scratch, {"data", "detokenize", "--tokenizer", scratch.path().string()});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("the model \"Magic\" is not known here"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace hyperion
