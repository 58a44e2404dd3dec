// A checkpoint that was cut short or changed is never used: the last good one is, and the user is told.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

void flip_bit_at(const fs::path& path, double share) {
  std::string content = testing::read_file(path);
  content[static_cast<size_t>(static_cast<double>(content.size()) * share)] ^= 4;
  testing::write_file(path, content);
}
void flip_bit(const fs::path& path) { flip_bit_at(path, 0.25); }  // of a shard the weights are its first third
void flip_moment(const fs::path& path) { flip_bit_at(path, 0.9); }
void cut(const fs::path& path) { fs::resize_file(path, fs::file_size(path) / 2); }
void empty(const fs::path& path) { fs::resize_file(path, 0); }
void lose(const fs::path& path) { fs::remove(path); }

struct Damage {
  const char *name, *file;
  void (*harm)(const fs::path&);
};
constexpr Damage kDamages[] = {{"a flipped bit in the weights", "shard-0.safetensors", flip_bit},
                               {"a flipped bit in the optimizer's state", "shard-0.safetensors", flip_moment},
                               {"a shard cut short", "shard-0.safetensors", cut},
                               {"no shard", "shard-0.safetensors", lose},
                               {"a flipped bit in the manifest", "manifest.json", flip_bit},
                               {"a manifest cut short", "manifest.json", cut},
                               {"an empty manifest", "manifest.json", empty}};

class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished done = run(scratch_, Words{"train", testing::tiny_recipe(scratch_), "--run", "whole", "--steps",
                                              "10", "--checkpoint.best=false"} +
                                            testing::text_data(scratch_) + testing::device_flags());
    ASSERT_EQ(done.code, 0) << done.err;
    ASSERT_TRUE(fs::exists(step("whole", 5)) && fs::exists(step("whole", 10)));
  }
  fs::path step(const std::string& name, int number) {
    return scratch_.runs() / name / "checkpoints" / ("step-" + std::to_string(number));
  }
  std::string copy_of_whole() {
    const std::string name = "copy-" + std::to_string(++copies_);
    fs::copy(scratch_.runs() / "whole", scratch_.runs() / name, fs::copy_options::recursive);
    return name;
  }

  Scratch scratch_;
  int copies_ = 0;
};

TEST_F(DamagedCheckpoint, resume_falls_back_and_ends_as_the_undisturbed_run) {
  for (const Damage& damage : kDamages) {
    SCOPED_TRACE(damage.name);
    const std::string name = copy_of_whole();
    damage.harm(step(name, 10) / damage.file);
    const Finished again = run(scratch_, {"resume", name});
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_NE(again.err.find("checkpoint of step 10 is bad, falling back to step 5"), std::string::npos) << again.err;
    EXPECT_NE(again.err.find("resuming after step 5"), std::string::npos) << again.err;
    EXPECT_EQ(testing::losses(scratch_.runs() / name), testing::losses(scratch_.runs() / "whole"));
    EXPECT_TRUE(testing::read_file(step(name, 10) / "shard-0.safetensors") ==
                testing::read_file(step("whole", 10) / "shard-0.safetensors"));
    EXPECT_EQ(testing::leftovers(scratch_.runs() / name), "");
  }
}

TEST_F(DamagedCheckpoint, eval_and_generate_fall_back_and_say_so) {
  flip_bit(step("whole", 10) / "shard-0.safetensors");
  const auto before = testing::tree(scratch_.runs());
  const Finished eval = run(scratch_, {"eval", "whole"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_NE(eval.err.find("checkpoint of step 10 is bad, falling back to step 5"), std::string::npos) << eval.err;
  EXPECT_NE(eval.out.find("whole, step 5"), std::string::npos) << eval.out;
  const Finished text = run(scratch_, {"generate", "whole", "--prompt", "the"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.err.find("falling back to step 5"), std::string::npos) << text.err;
  EXPECT_TRUE(testing::tree(scratch_.runs()) == before);
}

TEST_F(DamagedCheckpoint, with_none_left_good_each_is_told_of_and_nothing_is_deleted) {
  flip_bit(step("whole", 10) / "shard-0.safetensors");
  cut(step("whole", 5) / "manifest.json");
  const auto before = testing::tree(scratch_.runs());
  for (const Words& command :
       {Words{"resume", "whole"}, Words{"eval", "whole"}, Words{"generate", "whole", "--prompt", "the"}}) {
    SCOPED_TRACE(command[0]);
    const Finished done = run(scratch_, command);
    EXPECT_EQ(done.code, 1) << done.err;
    EXPECT_NE(done.err.find("step 10: "), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("step 5: "), std::string::npos) << done.err;
    EXPECT_NE(testing::hint_line(done), "") << done.err;
    EXPECT_TRUE(testing::tree(scratch_.runs()) == before);
  }
}

TEST_F(DamagedCheckpoint, a_checkpoint_named_itself_has_no_fall_back) {
  flip_bit(step("whole", 10) / "shard-0.safetensors");
  const Finished done = run(scratch_, {"generate", step("whole", 10), "--prompt", "the"});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(testing::error_line(done).find("step-10/shard-0.safetensors, tensor \"model."), std::string::npos)
      << done.err;
  EXPECT_EQ(run(scratch_, {"generate", step("whole", 5), "--prompt", "the"}).code, 0);
}

TEST_F(DamagedCheckpoint, what_reads_no_optimizer_does_not_mind_its_damage) {
  const std::string before = run(scratch_, {"eval", "whole"}).out;
  flip_moment(step("whole", 10) / "shard-0.safetensors");
  const Finished eval = run(scratch_, {"eval", "whole"});
  EXPECT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(eval.err.find("bad"), std::string::npos) << eval.err;
  EXPECT_EQ(eval.out, before);
}

// What a resume changes is compared with the checkpoint it goes on from: another one is for another resume.
TEST_F(DamagedCheckpoint, a_fall_back_over_other_settings_takes_two_resumes_and_loses_nothing) {
  const Words longer{"resume", "whole", "--steps", "15", "--checkpoint.every=1", "--checkpoint.keep=2"};
  ASSERT_NE(run(scratch_, longer, {{"HYPERION_FAULTS", "train.step=kill@2"}}).code, 0);
  ASSERT_TRUE(fs::exists(step("whole", 11)));
  const std::string name = copy_of_whole();
  flip_moment(step(name, 11) / "shard-0.safetensors");
  const Finished first = run(scratch_, {"resume", name});
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_NE(first.err.find("checkpoint of step 11 is bad, and was put aside as "), std::string::npos) << first.err;
  EXPECT_NE(first.err.find("resume again, from step 10"), std::string::npos) << first.err;
  EXPECT_TRUE(fs::exists(step(name, 11).string() + ".bad"));
  const Finished second = run(scratch_, {"resume", name});
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NE(second.err.find("resuming after step 10"), std::string::npos) << second.err;
  EXPECT_EQ(run(scratch_, {"resume", "whole"}).code, 0);
  EXPECT_EQ(testing::losses(scratch_.runs() / name), testing::losses(scratch_.runs() / "whole"));
}

}  // namespace
}  // namespace hyperion
