// A run that is killed and resumed is the run that was never disturbed, to the last bit.
#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <thread>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::device_flags;
using testing::Finished;
using testing::Program;
using testing::run;
using testing::Scratch;
using testing::operator+;

constexpr int kSteps = 24;

class Resume : public ::testing::TestWithParam<std::string> {
 protected:
  std::vector<std::string> train(const std::string& name) {
    return std::vector<std::string>{"train",    testing::tiny_recipe(scratch_), "--run", name, "--precision",
                                    precision()} +
           device_flags();
  }
  virtual std::string precision() { return GetParam(); }

  void undisturbed() {
    const Finished done = run(scratch_, train("whole"));
    ASSERT_EQ(done.code, 0) << done.err;
    ASSERT_EQ(testing::losses(scratch_.runs() / "whole").size(), static_cast<size_t>(kSteps));
  }

  void expect_equal_to_undisturbed(const std::string& name) {
    const auto whole = scratch_.runs() / "whole", other = scratch_.runs() / name;
    EXPECT_EQ(testing::losses(other), testing::losses(whole));
    const auto shard =
        std::filesystem::path("checkpoints") / ("step-" + std::to_string(kSteps)) / "shard-0.safetensors";
    const auto weights = testing::read_file(other / shard);
    EXPECT_GT(weights.size(), 1000u);
    EXPECT_TRUE(weights == testing::read_file(whole / shard)) << "the final weights and optimizer state differ";
  }

  Scratch scratch_;
  std::mt19937 random_{std::random_device{}()};
};

TEST_P(Resume, resumes_bit_exactly_after_kill) {
  undisturbed();
  for (int round = 0; round < 3; ++round) {
    const int step = std::uniform_int_distribution<int>(1, kSteps)(random_);
    SCOPED_TRACE("killed before step " + std::to_string(step));
    const std::string name = "killed-" + std::to_string(round);
    EXPECT_EQ(run(scratch_, train(name), {{"HYPERION_FAULTS", "train.step=kill@" + std::to_string(step)}}).code,
              128 + SIGKILL);
    const Finished again = run(scratch_, std::vector<std::string>{"resume", name});
    ASSERT_EQ(again.code, 0) << again.err;
    expect_equal_to_undisturbed(name);
  }
}

TEST_P(Resume, survives_kill_9_from_outside_again_and_again) {
  undisturbed();
  Program first(scratch_, train("hunted"));
  ASSERT_TRUE(first.wait_for_text("step 1/"));
  std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 300)(random_)));
  first.signal(SIGKILL);
  first.wait();
  for (int round = 0; round < 3; ++round) {
    Program next(scratch_, {"resume", "hunted"});
    if (next.wait_for_text("step "))
      std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 200)(random_)));
    next.signal(SIGKILL);
    next.wait();
  }
  const Finished last = run(scratch_, {"resume", "hunted"});
  ASSERT_EQ(last.code, 0) << last.err;
  expect_equal_to_undisturbed("hunted");
}

INSTANTIATE_TEST_SUITE_P(Precisions, Resume, ::testing::Values("fp32", "bf16"),
                         [](const auto& info) { return info.param; });

class Stop : public Resume {
 protected:
  std::string precision() override { return "fp32"; }
};

TEST_P(Stop, ctrl_c_in_every_phase_loses_nothing) {
  undisturbed();
  const Finished stopped = run(scratch_, train("stopped"), {{"HYPERION_FAULTS", GetParam()}});
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_EQ(stopped.err.find("error:"), std::string::npos) << stopped.err;
  EXPECT_NE(testing::read_file(scratch_.runs() / "stopped" / "run.json").find("\"stopped\""), std::string::npos);
  const Finished again = run(scratch_, {"resume", "stopped"});
  ASSERT_EQ(again.code, 0) << again.err;
  expect_equal_to_undisturbed("stopped");
}

INSTANTIATE_TEST_SUITE_P(Phases, Stop,
                         ::testing::Values("train.prepare=interrupt", "train.step=interrupt", "train.step=interrupt@13",
                                           "train.step=interrupt@24", "train.evaluate=interrupt",
                                           "train.evaluate=interrupt@4", "train.answer=interrupt",
                                           "checkpoint.before_shard=interrupt@2",
                                           "checkpoint.before_rename=interrupt@2",
                                           "checkpoint.after_rename=interrupt@5"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

class Signals : public Resume {
 protected:
  std::string precision() override { return "fp32"; }
};

TEST_P(Signals, sigterm_means_checkpoint_and_leave_with_75) {
  undisturbed();
  // The pause leaves time for the signal, however fast the machine.
  Program program(scratch_, train("preempted"), {{"HYPERION_FAULTS", "train.step=sleep@5"}});
  ASSERT_TRUE(program.wait_for_text("step 3/"));
  program.signal(GetParam() == "SIGTERM" ? SIGTERM : SIGUSR1);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_EQ(run(scratch_, {"resume", "preempted"}).code, 0);
  expect_equal_to_undisturbed("preempted");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Signals, ::testing::Values("SIGTERM", "SIGUSR1"),
                         [](const auto& info) { return info.param; });

class Seeds : public ::testing::Test {
 protected:
  Scratch scratch_;
};

TEST_F(Seeds, same_seed_same_bits_other_seed_other_bits) {
  const auto with_seed = [&](const std::string& name, const std::string& seed) {
    const auto flags =
        std::vector<std::string>{"train", testing::tiny_recipe(scratch_), "--run", name, "--seed", seed, "--steps",
                                 "6"} +
        device_flags();
    EXPECT_EQ(run(scratch_, flags).code, 0);
    return std::pair(testing::losses(scratch_.runs() / name),
                     testing::read_file(scratch_.runs() / name / "checkpoints" / "step-6" / "shard-0.safetensors"));
  };
  const auto one = with_seed("a", "7"), same = with_seed("b", "7"), other = with_seed("c", "8");
  EXPECT_TRUE(one == same);
  EXPECT_FALSE(one.first == other.first);
  EXPECT_FALSE(one.second == other.second);
}

TEST_F(Seeds, a_resume_that_is_refused_changes_nothing) {
  const auto train =
      std::vector<std::string>{"train", testing::tiny_recipe(scratch_), "--run", "kept"} + device_flags();
  Program program(scratch_, train, {{"HYPERION_FAULTS", "train.step=interrupt@7"}});
  EXPECT_EQ(program.wait().code, 130);
  const auto config = scratch_.runs() / "kept" / "config.resolved.toml";
  const auto before = testing::read_file(config);
  for (const auto& refused : {std::vector<std::string>{"resume", "kept", "--memory-budget", "1KiB"},
                              train + std::vector<std::string>{"--or-resume", "--memory-budget", "1KiB"},
                              train + std::vector<std::string>{"--or-resume", "--fp8.history=4"}}) {
    EXPECT_NE(run(scratch_, refused).code, 0);
    EXPECT_EQ(testing::read_file(config), before);
  }
  EXPECT_EQ(run(scratch_, {"resume", "kept", "--eval.batches=1"}).code, 0);
  EXPECT_NE(testing::read_file(config), before) << "what was accepted is kept";
}

TEST_F(Seeds, a_second_ctrl_c_stops_at_once_and_leaves_the_run_whole) {
  Program program(
      scratch_,
      std::vector<std::string>{"train", testing::tiny_recipe(scratch_), "--run", "hasty", "--checkpoint.best=false"} +
          device_flags(),
      {{"HYPERION_FAULTS", "checkpoint.before_manifest=sleep@2,train.step=interrupt@7"}});
  ASSERT_TRUE(program.wait_for_text("stopping:"));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().code, 130);
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "hasty" / "checkpoints" / "step-6"));
  const Finished again = run(scratch_, {"resume", "hasty"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("resuming after step 5"), std::string::npos) << again.err;
}

}  // namespace
}  // namespace hyperion
