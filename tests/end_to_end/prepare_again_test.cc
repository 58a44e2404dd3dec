// A set that is there already: what counts as the same, and what is said where it is another.
#include "tests/end_to_end/support_prepare.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Prepare;
using testing::Words;
using testing::write_file;
using testing::operator+;

class PrepareAgain : public Prepare {
 protected:
  void write_records(const std::string& last) {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += nlohmann::json{{"text", testing::sentence(random_)}}.dump() + "\n";
    write_file(in("records.jsonl"), lines + last);
    write_file(in("records.toml"), "[prepare]\nfiles = \"" + in("records.jsonl") +
                                       "\"\nformat = \"jsonl\"\nvalidation = 0.1\noutput = \"" + in("set") + "\"\n");
  }
  Finished prepare(const Words& flags = {}) { return hyperion(Words{"data", "prepare", in("records.toml")} + flags); }
  void expect_found(const Finished& done) {
    expect_fine(done);
    EXPECT_NE(done.out.find("it was there already"), std::string::npos) << done.out;
  }
  void expect_other(const Finished& done, const std::string& what) {
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find("was prepared from other inputs or settings: " + what), std::string::npos) << done.err;
  }
};

TEST_F(PrepareAgain, with_another_policy_for_bad_records_where_there_were_none_finds_the_set) {
  write_records("");
  expect_fine(prepare());
  expect_found(prepare({"--on-bad", "skip"}));
  std::filesystem::remove_all(in("set"));
  expect_fine(prepare({"--on-bad", "skip"}));
  expect_found(prepare());
}

TEST_F(PrepareAgain, to_the_letter_where_records_were_left_out_is_told) {
  write_records("nonsense\n");
  expect_fine(prepare({"--on-bad", "skip"}));
  expect_found(prepare({"--on-bad", "skip"}));
  expect_other(prepare(), "prepare.on_bad was \"skip\" and left out 1, and is \"fail\"");
}

TEST_F(PrepareAgain, says_which_setting_file_or_tokenizer_differs) {
  write_records("");
  expect_fine(prepare());
  expect_other(prepare({"--prepare.validation=0.2"}), "prepare.validation was 0.1, and is 0.2");
  write_records("");  // other sentences
  expect_other(prepare(), in("records.jsonl") + " holds something else");
  write_chat_tokenizer();
  const auto other = prepare({"--prepare.tokenizer=" + in("chat"), "--on-bad", "skip"});
  expect_other(other, "whether prepare.tokenizer is \"bytes\"");
  EXPECT_EQ(other.err.find("on_bad"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace hyperion
