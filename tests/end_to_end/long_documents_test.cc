// Documents that are longer than a sample: said aloud, and split, truncated or dropped as the recipe asks.
#include "tests/end_to_end/support_prepare.h"

namespace hyperion::testing {
namespace {

class LongDocuments : public Prepare {
 protected:
  LongDocuments() {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += "a line of some thirty letters " + std::to_string(10 + i) + "\n";
    for (int i = 0; i < 20; ++i) lines += "short " + std::to_string(10 + i) + "\n";
    write_file(in("lines.txt"), lines);
    write_file(in("lines.toml"), "[prepare]\nfiles = [\"" + in("lines.txt") + "\"]\nvalidation_files = [\"" +
                                     in("lines.txt") + "\"]\nformat = \"lines\"\noutput = \"" + in("set") + "\"\n" +
                                     training());
  }
  void SetUp() override { expect_fine(hyperion({"data", "prepare", in("lines.toml")})); }
  Finished trained(const std::string& name, const Words& more) {
    return hyperion(train("lines.toml", name) + Words{"--data.packing=single"} + more);
  }
  std::vector<nlohmann::json> epochs(const std::string& name) const {
    std::istringstream lines(read_file(scratch_.runs() / name / "metrics.jsonl"));
    std::vector<nlohmann::json> list;
    for (std::string line; std::getline(lines, line);)
      if (auto record = nlohmann::json::parse(line); record.value("split", "") == "training")
        list.push_back(std::move(record));
    return list;
  }
};

TEST_F(LongDocuments, are_split_and_said_at_the_start_in_the_record_and_on_the_page) {
  const Finished done = trained("r", {"--train.length=16"});
  expect_fine(done);
  const std::string cut = "60 documents, 40 longer than train.length = 16 and split into several samples",
                    epochs = "100 samples an epoch; 6 steps are 0.24 epochs";
  EXPECT_TRUE(says(done.err, " tokens and padding a step")) << done.err;
  EXPECT_TRUE(says(done.err, cut)) << done.err;
  EXPECT_TRUE(says(done.err, epochs)) << done.err;
  EXPECT_TRUE(says(hyperion({"runs", "show", "r"}).out, cut + "; " + epochs));
  EXPECT_TRUE(says(read_file(scratch_.runs() / "r/report.html"), cut));
}

TEST_F(LongDocuments, are_truncated_or_dropped_where_the_recipe_says_so) {
  const Finished cut = trained("cut", {"--train.length=16", "--data.too_long=truncate"});
  expect_fine(cut);
  EXPECT_TRUE(says(cut.err, "40 longer than train.length = 16 and truncated")) << cut.err;
  EXPECT_TRUE(says(cut.err, "60 samples an epoch")) << cut.err;
  const Finished dropped = trained("dropped", {"--train.length=16", "--data.too_long=drop"});
  expect_fine(dropped);
  EXPECT_TRUE(says(dropped.err, "40 longer than train.length = 16 and left out")) << dropped.err;
  EXPECT_TRUE(says(dropped.err, "20 samples an epoch")) << dropped.err;
  ASSERT_EQ(epochs("dropped").size(), 1u);
  EXPECT_EQ(epochs("dropped")[0]["documents_dropped"], 40);
  EXPECT_TRUE(says(dropped.err, "; 40 documents dropped")) << dropped.err;
  const Finished other = hyperion({"resume", "dropped", "--data.too_long=split", "--steps", "8"});
  EXPECT_EQ(other.code, 2) << "it would be another run";
}

TEST_F(LongDocuments, that_are_all_dropped_are_refused) {
  const Finished done = trained("r", {"--data.too_long=drop", "--train.length=4"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "all 60 documents")) << done.err;
}

TEST_F(LongDocuments, of_a_stream_have_no_length_to_speak_of) {
  const Finished done = hyperion(train("lines.toml", "r") + Words{"--data.too_long=drop"});
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "data.packing = \"stream\" joins them")) << done.err;
}

}  // namespace
}  // namespace hyperion::testing
