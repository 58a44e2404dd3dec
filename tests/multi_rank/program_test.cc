// `hyperion train` and `resume` on several processes, as a user runs them.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/multi_rank/support_launch.h"

namespace hyperion::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

class Program : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    std::ofstream(recipe()) << R"([train]
steps = 12
batch = 12
length = 16
log_every = 1
[model]
layers = 2
heads = 2
width = 32
context = 32
[data]
digits = 2
[optim]
warmup = 4
[eval]
every = 6
batches = 2
[checkpoint]
every = 4
[parallel]
timeout = 8
)";
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path recipe() const { return folder_ / "tiny.toml"; }
  fs::path run(const std::string& name) const { return folder_ / "runs" / name; }
  Environment environment() const { return {{"HYPERION_RUNS", folder_ / "runs"}}; }
  Words train(const std::string& name, const Words& more = {}) const {
    Words words{HYPERION_PROGRAM, "train", recipe(), "--run", name, "--device", "cpu"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words resume(const std::string& name, const Words& more = {}) const {
    Words words{HYPERION_PROGRAM, "resume", name};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  void expect_fine(int ranks, const Words& command) {
    const auto results = Ranks(ranks, command, environment()).wait();
    for (size_t rank = 0; rank < results.size(); ++rank)
      ASSERT_EQ(results[rank].code, 0) << "rank " << rank << ": " << results[rank].err;
  }
  std::vector<double> losses(const std::string& name, bool of_validation = false) const {
    std::vector<double> list;
    std::istringstream lines(read(run(name) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("split") == of_validation) list.push_back(record["loss"]);
    }
    return list;
  }
  nlohmann::json last_step(const std::string& name) const {
    std::istringstream lines(read(run(name) / "metrics.jsonl"));
    nlohmann::json last;
    for (std::string line; std::getline(lines, line);) {
      const auto record = nlohmann::json::parse(line);
      if (!record.contains("split")) last = record;
    }
    return last;
  }
  void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << "step " << i + 1;
  }

  fs::path folder_;
};

TEST_F(Program, refuses_ranks_whose_settings_differ) {
  const auto results = Ranks(2, train("mixed"), environment(),
                             {{1, {{"HYPERION_TRAIN__BATCH", "14"}, {"HYPERION_TRAIN__THREADS", "1"}}}})
                           .wait();
  EXPECT_EQ(results[1].code, 2);
  EXPECT_NE(results[1].err.find("rank 1 has other settings than rank 0: [train] batch = 14 here, batch = 12 there"),
            std::string::npos)
      << results[1].err;
  EXPECT_NE(results[0].code, 0);
}

TEST_F(Program, one_rank_tells_and_every_rank_keeps_its_table_and_shard) {
  expect_fine(1, train("alone", {"--train.accumulate=3"}));
  const auto results = Ranks(3, train("three", {"--zero", "2"}), environment()).wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  EXPECT_NE(results[0].err.find("step 12/12"), std::string::npos) << results[0].err;
  EXPECT_NE(results[0].err.find("3 processes over gloo, dp=3, zero 2"), std::string::npos) << results[0].err;
  for (const int rank : {1, 2}) EXPECT_EQ(results[rank].out + results[rank].err, "");
  expect_near(losses("three"), losses("alone"));
  const auto alone = last_step("alone"), three = last_step("three");
  EXPECT_EQ(three["sample_hash"], alone["sample_hash"]) << "the samples of all ranks are those of one";
  EXPECT_EQ(three["samples"], alone["samples"]);
  EXPECT_GT(three["comm_total_ms"].get<double>(), 0);
  EXPECT_TRUE(alone["comm_ms"].is_null());
  for (const char* file : {"metrics.rank-1.csv", "metrics.rank-2.csv", "logs/rank-2.log",
                           "checkpoints/step-12/shard-2.safetensors", "checkpoints/step-12/manifest.json"})
    EXPECT_TRUE(fs::exists(run("three") / file)) << file;
  // What was saved in pieces is a model like any other.
  const auto answers = Ranks(1, {HYPERION_PROGRAM, "eval", "three", "--device", "cpu"}, environment()).wait();
  EXPECT_EQ(answers[0].code, 0) << answers[0].err;
}

TEST_F(Program, resumes_after_a_kill_in_every_mode_and_on_another_number_of_processes) {
  expect_fine(1, train("alone", {"--train.accumulate=2"}));
  for (const std::string zero : {"0", "1", "2", "3"}) {
    SCOPED_TRACE("zero " + zero);
    const std::string name = "killed-" + zero;
    const auto results =
        Ranks(2, train(name, {"--zero", zero}), environment(), {{1, {{"HYPERION_FAULTS", "train.step=kill@7"}}}})
            .wait();
    EXPECT_EQ(results[1].code, 128 + SIGKILL);
    EXPECT_EQ(results[0].code, 1);
    EXPECT_NE(results[0].err.find("no word from rank 1"), std::string::npos) << results[0].err;
    const int ranks = zero == "3" ? 4 : zero == "1" ? 1 : 2;
    expect_fine(ranks, resume(name));
    expect_near(losses(name), losses("alone"));
  }
}

TEST_F(Program, damage_that_one_rank_finds_sends_all_back_to_the_checkpoint_before) {
  expect_fine(1, train("alone", {"--train.accumulate=2"}));
  for (const std::string zero : {"0", "3"}) {
    SCOPED_TRACE("zero " + zero);
    const std::string name = "damaged-" + zero;
    const Environment killed{{"HYPERION_FAULTS", "train.step=kill@10"}};
    Ranks(2, train(name, {"--zero", zero, "--checkpoint.keep=3"}), environment(), {{1, killed}}).wait();
    const fs::path shard =
        run(name) / "checkpoints/step-8" / (zero == "3" ? "shard-1.safetensors" : "shard-0.safetensors");
    std::string content = read(shard);
    content[content.size() - 1] ^= 1;
    std::ofstream(shard, std::ios::binary) << content;
    const auto results = Ranks(2, resume(name), environment()).wait();
    for (const auto& result : results) EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(results[0].err.find("checkpoint of step 8 is bad, falling back to step 6: " + shard.string()),
              std::string::npos)
        << results[0].err;
    EXPECT_EQ(results[1].err, "");
    expect_near(losses(name), losses("alone"));
  }
}

TEST_F(Program, begins_with_the_pieces_of_other_weights_that_each_rank_holds) {
  expect_fine(2, train("base", {"--zero", "3"}));
  expect_fine(1, {HYPERION_PROGRAM, "export", "base", "--to", folder_ / "exported"});
  const std::string all = read(recipe());  // with a model of its own no longer
  std::ofstream(recipe()) << all.substr(0, all.find("[model]")) << all.substr(all.find("[data]"));
  for (const std::string from : {folder_ / "exported", run("base")}) {
    const std::string name = fs::path(from).filename();
    expect_fine(1, train(name + "-alone", {"--train.accumulate=3", "--model.from=" + from}));
    expect_fine(3, train(name + "-cut", {"--zero", "3", "--model.from=" + from}));
    expect_near(losses(name + "-cut"), losses(name + "-alone"));
    ASSERT_FALSE(losses(name + "-cut").empty());
    EXPECT_LT(losses(name + "-cut").front(), losses("base").front() - 0.1) << "it began where the other ended";
  }
  for (const std::string form : {"none", "nf4"}) {
    SCOPED_TRACE(form);
    const Words adapter{"--model.from=base", "--lora.rank=4", "--model.quantize=" + form};
    Words alone = adapter, cut = adapter;
    alone.push_back("--train.accumulate=3"), cut.push_back("--zero=3");
    expect_fine(1, train(form + "-alone", alone));
    expect_fine(3, train(form + "-cut", cut));
    expect_near(losses(form + "-cut"), losses(form + "-alone"));
  }
}

TEST_F(Program, a_stop_asked_of_one_rank_stops_all_after_a_checkpoint) {
  expect_fine(1, train("alone", {"--train.accumulate=3"}));
  Ranks ranks(3, train("stopped", {"--zero", "3"}), environment(),
              {{2, {{"HYPERION_FAULTS", "train.step=interrupt@6"}}}});
  for (const auto& result : ranks.wait()) EXPECT_EQ(result.code, 130) << result.err;
  EXPECT_TRUE(fs::exists(run("stopped") / "checkpoints/step-6/manifest.json"));
  expect_fine(3, resume("stopped"));
  expect_near(losses("stopped"), losses("alone"));
}

TEST_F(Program, a_frozen_rank_is_named_by_the_others_within_the_timeout) {
  Ranks ranks(3, train("frozen", {"--train.steps=100000", "--parallel.timeout=3", "--eval.every=0"}), environment());
  ASSERT_TRUE(ranks.wait_for_text(0, "step 3/"));
  ranks.signal(2, SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  for (int rank : {0, 1}) ranks.wait_for_text(rank, "no word from rank");  // or until it has ended
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ranks.signal(2, SIGKILL);
  const auto results = ranks.wait();
  // On a busy machine one of the two may come to its timeout late: it is then silent too, and finds the other gone.
  const std::regex named("no word from rank ((0|1), )?2");
  EXPECT_TRUE(std::regex_search(results[0].err, named) || std::regex_search(results[1].err, named))
      << results[0].err << results[1].err;
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[rank].code, 1);
  }
}

TEST_F(Program, a_disk_that_is_full_on_one_rank_leaves_the_earlier_checkpoint_and_the_run_goes_on_to_its_end) {
  const auto results = Ranks(3, train("full", {"--zero", "1", "--eval.every=0"}), environment(),
                             {{1, {{"HYPERION_FAULTS", "checkpoint.before_shard=enospc@2/1"}}}})
                           .wait();
  for (const auto& result : results) EXPECT_EQ(result.code, 1);
  EXPECT_EQ(losses("full").size(), 12u);
  EXPECT_NE(results[0].err.find("the run goes on, and the checkpoint of step 4 stays"), std::string::npos)
      << results[0].err;
  EXPECT_NE(results[0].err.find("could not be written by rank 1"), std::string::npos) << results[0].err;
  EXPECT_NE(results[1].err.find("No space left"), std::string::npos) << results[1].err;
  EXPECT_TRUE(fs::exists(run("full") / "checkpoints/step-4/manifest.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(run("full") / "checkpoints"), {}), 1);
  expect_fine(3, resume("full"));
  expect_fine(1, train("alone", {"--eval.every=0"}));
  expect_near(losses("full"), losses("alone"));
}

TEST_F(Program, checkpoints_written_in_the_background_are_those_written_at_once) {
  const Words more{"--zero", "2", "--checkpoint.keep=9", "--eval.every=0"};
  const auto with = [&](const char* word) {
    Words all = more;
    all.push_back(std::string("--checkpoint.async=") + word);
    return all;
  };
  expect_fine(3, train("waits", with("off")));
  const auto faulty = Ranks(3, train("goes-on", with("on")), environment(),
                            {{2, {{"HYPERION_FAULTS", "checkpoint.before_shard=enospc@1/2"}}}})
                          .wait();
  EXPECT_EQ(faulty[0].code, 0) << faulty[0].err;
  EXPECT_NE(faulty[0].err.find("trying again"), std::string::npos) << faulty[0].err;
  for (const char* step : {"step-4", "step-8", "step-12"})
    for (int rank = 0; rank < 3; ++rank) {
      const auto shard = fs::path("checkpoints") / step / ("shard-" + std::to_string(rank) + ".safetensors");
      EXPECT_EQ(read(run("goes-on") / shard), read(run("waits") / shard)) << shard;
    }
}

TEST_F(Program, shares_of_a_batch_need_not_be_equal_also_where_ranks_come_and_go) {
  expect_fine(1, train("alone", {"--train.batch=8"}));
  expect_fine(3, train("three", {"--train.batch=8", "--zero", "3"}));
  expect_near(losses("three"), losses("alone"));
  expect_near(losses("three", true), losses("alone", true));
  expect_fine(5, train("five", {"--train.batch=8", "--train.steps=8", "--zero", "1"}));
  expect_fine(3, resume("five", {"--train.steps=12"}));
  for (const auto* name : {"three", "five"}) {
    EXPECT_EQ(last_step(name)["sample_hash"], last_step("alone")["sample_hash"]) << name;
    EXPECT_EQ(last_step(name)["samples"], last_step("alone")["samples"]) << name;
  }
}

// A run whose experts four processes share out in pairs is stopped, and goes on with other shares, and alone.
TEST_F(Program, experts_shared_out_validate_resume_and_answer_as_in_one_process) {
  const auto mixture = [](Words more) {
    more.insert(more.begin(), {"--model.preset=qwen-moe-tiny", "--model.key_value_heads=2"});
    return more;
  };
  expect_fine(1, train("alone", mixture({"--train.accumulate=4"})));
  expect_fine(4, train("spread", mixture({"--train.steps=6", "--optim.decay_steps=12", "--parallel", "dp=4,ep=2",
                                          "--zero", "1"})));
  expect_fine(2,
              resume("spread", {"--train.steps=9", "--train.accumulate=2", "--parallel", "dp=2,ep=2", "--zero", "3"}));
  expect_fine(1, resume("spread", {"--train.steps=12", "--train.accumulate=4", "--parallel", "dp=1", "--zero", "0"}));
  expect_near(losses("spread"), losses("alone"));
  EXPECT_NEAR(losses("spread", true).back(), losses("alone", true).back(), 1e-5);
}

TEST_F(Program, what_cannot_be_shared_is_refused_by_all_before_anything_is_made) {
  const std::vector<std::pair<Words, std::string>> refused{
      {{"--train.batch=2"}, "cannot share train.batch = 2: each computes 1 part"},
      {{"--train.batch=10", "--parallel.sync_batch_norm=true"}, "evenly, as parallel.sync_batch_norm needs it"},
      {{"--parallel", "dp=4"}, "needs 4 processes, and there are 3"},
      {{"--parallel", "dp=2x2", "--zero", "3", "--zeropp", "grads"},
       "needs 4 processes, and there are 3\nhint: start 4 of them (hyperion launch -n 4), or write --parallel dp=3"},
      {{"--zero", "2", "--zeropp", "grads"}, "hint: add --zero 3, or go without it: --parallel.zeropp="},
      {{"--parallel", "ep=3"}, "hint: use dp=3,ep=3"},
      {{"--parallel", "tp=3", "--deterministic=layout"}, "cannot be had with parallel.same_bits"},
      {{"--deterministic=layout"}, "needs 1, 2, 4, 8, ... processes"},
      {{"--memory.on_oom=adapt"}, "would change the parts of one process"},
      {{"--zero", "4"}, "parallel.zero"}};
  for (const auto& [flags, words] : refused) {
    for (const auto& result : Ranks(3, train("refused", flags), environment()).wait()) {
      EXPECT_EQ(result.code, 2) << words;
      EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    }
    EXPECT_FALSE(fs::exists(run("refused")));
  }
  expect_fine(2, train("taken"));
  for (const auto& result : Ranks(2, train("taken"), environment()).wait()) EXPECT_EQ(result.code, 2) << result.err;
}

TEST_F(Program, the_same_command_begins_a_run_and_goes_on_with_it) {
  const Words same = train("again", {"--or-resume"});
  const auto killed = Ranks(2, same, environment(), {{1, {{"HYPERION_FAULTS", "train.step=kill@7"}}}}).wait();
  EXPECT_EQ(killed[1].code, 128 + SIGKILL);
  const auto results = Ranks(2, same, environment()).wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  EXPECT_NE(results[0].err.find("resuming after step 6 from"), std::string::npos) << results[0].err;
  expect_fine(2, train("whole"));
  expect_near(losses("again"), losses("whole"));

  const auto longer = Ranks(2, train("again", {"--or-resume", "--steps", "14"}), environment()).wait();
  ASSERT_EQ(longer[0].code, 0) << longer[0].err;
  EXPECT_NE(longer[0].err.find("run again goes on with train.steps = 14; it was 12"), std::string::npos)
      << longer[0].err;
  EXPECT_EQ(losses("again").size(), 14u);
  for (const auto& other : Ranks(2, train("again", {"--or-resume", "--model.layers=3"}), environment()).wait()) {
    EXPECT_EQ(other.code, 2);
    EXPECT_NE(other.err.find("was begun with model.layers = 2 ("), std::string::npos) << other.err;
    EXPECT_NE(other.err.find("and --model.layers says 3"), std::string::npos) << other.err;
  }
}

TEST_F(Program, a_rank_that_does_not_see_the_run_is_named) {
  expect_fine(1, train("seen", {"--steps", "8"}));
  const auto results =
      Ranks(2, train("seen", {"--or-resume"}), environment(), {{1, {{"HYPERION_RUNS", folder_ / "elsewhere"}}}}).wait();
  EXPECT_EQ(results[1].code, 2);
  EXPECT_NE(results[1].err.find("rank 1 begins anew, and rank 0 goes on from step 8"), std::string::npos)
      << results[1].err;
}

TEST_F(Program, a_zeropp_run_goes_on_with_another_zero) {
  expect_fine(2, train("plus", {"--zero", "3", "--zeropp", "weights,grads"}));
  const auto results = Ranks(2, resume("plus", {"--zero", "2", "--steps", "14"}), environment()).wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  EXPECT_NE(results[0].err.find("zeropp = weights,grads is left out: zero 2 has none"), std::string::npos)
      << results[0].err;
  EXPECT_EQ(losses("plus").size(), 14u);
}

TEST_F(Program, gives_the_same_bits_on_one_two_and_four_processes) {
  expect_fine(1, train("bits-1", {"--deterministic=layout", "--train.batch=16", "--train.accumulate=4"}));
  expect_fine(2,
              train("bits-2", {"--deterministic=layout", "--train.batch=16", "--train.accumulate=2", "--zero", "3"}));
  expect_fine(4, train("bits-4", {"--deterministic=layout", "--train.batch=16", "--zero", "1"}));
  EXPECT_EQ(losses("bits-2"), losses("bits-1"));
  EXPECT_EQ(losses("bits-4"), losses("bits-1"));
  EXPECT_EQ(losses("bits-1", true).size(), 2u);
  EXPECT_EQ(losses("bits-2", true), losses("bits-1", true));
  EXPECT_EQ(losses("bits-4", true), losses("bits-1", true));
}

// The first stage holds two micro-batches at once, the last one; each has the weights of its own blocks. Nothing of the
// run changes by it.
TEST_F(Program, tells_the_memory_of_each_stage) {
  const Words layout{"--parallel", "pp=2", "--train.accumulate=4"};
  expect_fine(2, train("plain", layout));
  Words flags = layout;
  flags.push_back("--memory.report=true");
  const auto results = Ranks(2, train("told", flags), environment()).wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  for (const char* words : {"memory of a step, rank 0:", "memory of a step, rank 1:"})
    EXPECT_NE(results[0].err.find(words), std::string::npos) << results[0].err;
  EXPECT_EQ(losses("told"), losses("plain"));
  const auto first = nlohmann::json::parse(read(run("told") / "memory.json")),
             last = nlohmann::json::parse(read(run("told") / "memory.rank-1.json"));
  const auto bytes = [](const nlohmann::json& report, const char* what) { return report.at(what).get<double>(); };
  EXPECT_EQ(bytes(first, "weights"), 4 * bytes(first, "optimizer") / 8) << "fp32, and two moments";
  // 256 + 32 rows of tables before the block, a norm and the same table behind it.
  EXPECT_EQ(bytes(first, "weights") - bytes(last, "weights"), 4 * (32 * 32 - 2 * 32));
  EXPECT_GT(bytes(first, "activations"), bytes(last, "activations"));
  EXPECT_GT(bytes(last, "activations"), 0);
}

// Killed on two pipelines of two stages, it goes on as one pipeline; weights are compared on the way.
TEST_F(Program, keeps_its_bits_where_it_goes_on_with_other_stages) {
  const Words same{"--deterministic=layout", "--train.batch=16", "--parallel.check_every=2"};
  const auto flags = [&](const Words& more) {
    Words all = same;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_fine(1, train("bits-1", flags({"--train.accumulate=4"})));
  const auto killed =
      Ranks(4, train("moved", flags({"--parallel", "pp=2,dp=2", "--zero", "2", "--train.accumulate=2"})), environment(),
            {{3, {{"HYPERION_FAULTS", "train.step=kill@7"}}}})
          .wait();
  EXPECT_EQ(killed[3].code, 128 + SIGKILL);
  const auto results =
      Ranks(2, resume("moved", {"--parallel", "pp=2", "--zero", "0", "--train.accumulate=4"}), environment()).wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  EXPECT_NE(results[0].err.find("resuming after step"), std::string::npos) << results[0].err;
  EXPECT_EQ(losses("moved"), losses("bits-1"));
  EXPECT_EQ(losses("moved", true), losses("bits-1", true));
}

}  // namespace
}  // namespace hyperion::testing
