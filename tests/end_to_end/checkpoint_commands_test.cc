// `hyperion checkpoint`: the checkpoints of a run, looked at, checked, compared and gathered.
#include <nlohmann/json.hpp>

#include "tests/end_to_end/support_text_run.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::run;
using testing::says;

class CheckpointCommands : public testing::TextRun {
 protected:
  void SetUp() override {
    const auto done = run(scratch_, train({"--checkpoint.keep=2", "--checkpoint.keep_every=5"}));
    ASSERT_EQ(done.code, 0) << done.err;
  }
  fs::path step(int number) const { return scratch_.runs() / "r" / "checkpoints" / ("step-" + std::to_string(number)); }
  void turn_last_byte(const fs::path& path) const {
    std::string content = testing::read_file(path);
    content.back() ^= 1;
    testing::write_file(path, content);
  }
};

TEST_F(CheckpointCommands, ls_tells_steps_states_and_the_best) {
  auto listed = run(scratch_, {"checkpoint", "ls", "r"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_TRUE(says(listed.out, "complete  best")) << listed.out;
  fs::resize_file(step(12) / "shard-0.safetensors", 100);
  listed = run(scratch_, {"checkpoint", "ls", "r"});
  EXPECT_TRUE(says(listed.out, "damaged")) << listed.out;
  EXPECT_TRUE(says(listed.out, "step 12: ")) << listed.out;
  const auto rows = json::parse(run(scratch_, {"checkpoint", "ls", "r", "--json"}).out);
  EXPECT_EQ(rows.at(0).at("step"), 12);
  EXPECT_EQ(rows.at(0).at("complete"), false);
  EXPECT_EQ(rows.at(1).at("complete"), true);
  EXPECT_EQ(run(scratch_, {"checkpoint", "ls", "nobody"}).code, 2);
}

TEST_F(CheckpointCommands, verify_reads_every_byte_and_names_what_is_damaged) {
  auto verified = run(scratch_, {"checkpoint", "verify", "r"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_TRUE(says(verified.out, "step-12: whole")) << verified.out;
  turn_last_byte(step(12) / "shard-0.safetensors");
  EXPECT_EQ(run(scratch_, {"checkpoint", "ls", "r"}).code, 0) << "its header is whole";
  verified = run(scratch_, {"checkpoint", "verify", "r"});
  EXPECT_EQ(verified.code, 1);
  EXPECT_TRUE(says(verified.out, "shard-0.safetensors, tensor \"")) << verified.out;
  EXPECT_TRUE(says(verified.out, "block 0 has the hash")) << verified.out;
  EXPECT_EQ(run(scratch_, {"checkpoint", "verify", "r@10"}).code, 0);
  EXPECT_EQ(run(scratch_, {"checkpoint", "verify", step(12).string()}).code, 1);
}

TEST_F(CheckpointCommands, show_and_diff_tell_of_every_tensor) {
  const auto shown = run(scratch_, {"checkpoint", "show", "r@12"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(says(shown.out, "model.transformer.wte.weight")) << shown.out;
  const auto rows = json::parse(run(scratch_, {"checkpoint", "show", "r@12", "--json"}).out);
  for (const auto& row : rows) EXPECT_EQ(row.at("not_finite"), 0) << row;
  const auto same = run(scratch_, {"checkpoint", "diff", "r@12", step(12).string()});
  EXPECT_EQ(same.code, 0) << same.out;
  EXPECT_TRUE(says(same.out, "the same to the bit")) << same.out;
  const auto other = run(scratch_, {"checkpoint", "diff", "r@10", "r@12"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(says(other.out, "tensors differ")) << other.out;
}

TEST_F(CheckpointCommands, gather_writes_the_weights_an_export_has) {
  const auto file = (scratch_.path() / "one.safetensors").string(), folder = (scratch_.path() / "hf").string();
  const auto gathered = run(scratch_, {"checkpoint", "gather", "r@12", "--output", file});
  ASSERT_EQ(gathered.code, 0) << gathered.err;
  ASSERT_EQ(run(scratch_, {"export", "r@12", "--to", folder}).code, 0);
  const auto diff = run(scratch_, {"checkpoint", "diff", file, folder});
  EXPECT_EQ(diff.code, 0) << diff.out;
  ASSERT_EQ(run(scratch_, {"checkpoint", "gather", "r@12", "--output", file, "--optimizer"}).code, 0);
  EXPECT_EQ(run(scratch_, {"checkpoint", "diff", file, "r@12"}).code, 0) << "all of the state";
  EXPECT_EQ(run(scratch_, {"checkpoint", "gather", "r@12", "--output", folder}).code, 2) << "a folder";
}

}  // namespace
}  // namespace hyperion
