// The account of a run: one stream, lines that stay on a terminal, what it says at the start.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Account : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  nlohmann::json record(const std::string& name) {
    return nlohmann::json::parse(testing::read_file(scratch_.runs() / name / "run.json"));
  }
  // What a step of the run counted for a token, from its own metrics.
  double flops_token(const std::string& name) {
    std::istringstream lines(testing::read_file(scratch_.runs() / name / "metrics.jsonl"));
    std::string line;
    std::getline(lines, line);
    const auto step = nlohmann::json::parse(line);
    return step.at("tflops").get<double>() * 1e12 / step.at("tokens_per_s").get<double>();
  }
  Scratch scratch_;
};

TEST_F(Account, is_one_stream) {
  const Finished whole = run(scratch_, train("whole", {"--memory.report=true"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(whole.out, "");
  for (const char* part : {"run whole: ", "memory of a step:", "step 1/24  loss ", "step 6  validation loss ",
                           "step 24/24  loss ", "unseen questions", "right: ", "report: "})
    EXPECT_TRUE(says(whole.err, part)) << part << "\n" << whole.err;
  const Finished again = run(scratch_, {"resume", "whole"});
  EXPECT_EQ(again.out, "");
  EXPECT_TRUE(says(again.err, "nothing to do")) << again.err;
  const Finished stopped = run(scratch_, train("part"), {{"HYPERION_FAULTS", "train.step=interrupt@9"}});
  EXPECT_EQ(stopped.code, 130);
  EXPECT_EQ(stopped.out, "");
  EXPECT_TRUE(says(stopped.err, "step 9/24  loss ") && says(stopped.err, "stopped after step 9")) << stopped.err;
  const Finished resumed = run(scratch_, {"resume", "part", "--steps", "12"});
  EXPECT_EQ(resumed.out, "");
  EXPECT_TRUE(says(resumed.err, "resuming after step 9") && says(resumed.err, "step 12/12  loss ")) << resumed.err;
}

TEST_F(Account, of_ranks_is_one_stream_too) {
  const Finished done = run(scratch_, Words{"launch", "-n", "2", "--"} + train("two", {"--steps", "4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "");
  EXPECT_TRUE(says(done.err, "run two: ") && says(done.err, "step 4/4  loss ")) << done.err;
}

TEST_F(Account, a_measurement_alone_is_on_stdout) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  const Finished judged = run(scratch_, {"eval", "a", "--json", "--device", "cpu"});
  EXPECT_TRUE(nlohmann::json::accept(judged.out)) << judged.out;
  EXPECT_EQ(judged.err, "");
}

// What is left of each line once it was drawn over.
Words kept_lines(const std::string& seen) {
  Words kept;
  std::istringstream lines(seen);
  for (std::string line; std::getline(lines, line);) {
    const std::string over = "\r\033[K";
    const size_t last = line.rfind(over);
    kept.push_back(last == line.npos ? line : line.substr(last + over.size()));
  }
  return kept;
}

std::string on_terminal(const Scratch& scratch, const Words& words) {
  winsize window{.ws_row = 40, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const std::string program = testing::program(), runs = scratch.runs();
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &window);
  if (child == 0) {
    ::setenv("HYPERION_RUNS", runs.c_str(), 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  std::string seen, piece(4096, '\0');
  for (ssize_t got; (got = ::read(terminal, piece.data(), piece.size())) > 0;) seen.append(piece, 0, got);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_EQ(WEXITSTATUS(status), 0) << seen;
  return seen;
}

TEST_F(Account, on_a_terminal_keeps_a_line_every_log_every_and_the_last) {
  const auto kept = kept_lines(on_terminal(scratch_, train("seen", {"--train.log_every=10", "--eval.every=0"})));
  const auto stays = [&](const std::string& step) {
    return std::any_of(kept.begin(), kept.end(), [&](const auto& line) { return line.starts_with(step + "  loss "); });
  };
  for (const char* step : {"step 1/24", "step 10/24", "step 20/24", "step 24/24"}) EXPECT_TRUE(stays(step)) << step;
  for (const char* step : {"step 2/24", "step 11/24", "step 23/24"}) EXPECT_FALSE(stays(step)) << step;
}

TEST_F(Account, a_warm_up_longer_than_the_run_is_shortened_aloud) {
  const Finished done = run(scratch_, train("smoke", {"--steps", "2"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.err, "warn: optim.warmup = 0 (")) << done.err;
  EXPECT_TRUE(says(done.err, "shortened from 4: train.steps = 2")) << done.err;
  EXPECT_TRUE(says(testing::read_file(scratch_.runs() / "smoke/config.resolved.toml"), "warmup = 0\n"));
  EXPECT_FALSE(says(run(scratch_, train("long")).err, "shortened"));
}

TEST_F(Account, says_that_one_process_shards_nothing) {
  const Finished alone = run(scratch_, train("alone", {"--steps", "4", "--zero", "2"}));
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_TRUE(says(alone.err, "zero 2: one process holds everything, so nothing is sharded")) << alone.err;
  const Finished two = run(scratch_, Words{"launch", "-n", "2", "--"} + train("two", {"--steps", "4", "--zero", "2"}));
  EXPECT_FALSE(says(two.err, "nothing is sharded")) << two.err;
}

// By hand: 2 layers of width 32, a vocabulary of 256 tied, length 24. Weights that every token is multiplied with: the
// table 256*32; a block's 4*32*32 + 2*32*128 with 4*32 + 128 + 32 of biases and 4*32 of norms, twice; the last norm's
// 2*32. Attention: 2 layers of 2 products of 2*32*24, half of it masked. An adapter of rank 4 beside c_attn (32 to 96),
// c_proj (32 to 32), c_fc (32 to 128) and the other c_proj (128 to 32) holds 4 * (128 + 64 + 160 + 160) a layer.
TEST_F(Account, counts_no_gradients_of_frozen_weights) {
  ASSERT_EQ(run(scratch_, train("base", {"--steps", "4"})).code, 0);
  testing::write_file(scratch_.path() / "lora.toml",
                      "[train]\nsteps = 4\nbatch = 8\nlength = 24\n[data]\ndigits = 2\n[model]\nfrom = \"base\"\n"
                      "[lora]\nrank = 4\n[optim]\nwarmup = 0\n[checkpoint]\nevery = 2\n");
  const Finished done =
      run(scratch_, Words{"train", scratch_.path() / "lora.toml", "--run", "lora"} + testing::device_flags());
  ASSERT_EQ(done.code, 0) << done.err;
  const double weights = 256 * 32 + 2 * (4 * 32 * 32 + 2 * 32 * 128 + 4 * 32 + 128 + 32 + 4 * 32) + 2 * 32;
  const double attention = 0.5 * 2 * 2 * 2 * 32 * 24, adapter = 2 * 4 * (128 + 64 + 160 + 160);
  EXPECT_NEAR(flops_token("base"), 3 * (2 * weights + attention), 1);
  EXPECT_NEAR(flops_token("lora"), 2 * (2 * weights) + 3 * attention + 6 * adapter, 1);

  EXPECT_EQ(adapter, 4096);
  const auto all = static_cast<int64_t>(weights + 48 * 32 + adapter);  // and the places that are looked up
  EXPECT_EQ(all, 39296);
  EXPECT_TRUE(says(done.err, "run lora: 4,096 of 39,296 parameters trained, ")) << done.err;
  EXPECT_TRUE(says(done.err, "LoRA of rank 4, alpha 16, beside all-linear")) << done.err;
  EXPECT_EQ(record("lora")["trained_parameters"], 4096);
  EXPECT_EQ(record("base")["trained_parameters"], record("base")["parameters"]);
  const std::string page = testing::read_file(scratch_.runs() / "lora/report.html");
  EXPECT_TRUE(says(page, "LoRA of rank 4, alpha 16, beside all-linear: 4,096 of 39,296 parameters trained."));
  const std::string lead = page.substr(page.find("<p class=\"lead\">"));
  EXPECT_FALSE(says(lead.substr(0, lead.find("</p>")), scratch_.path())) << lead.substr(0, 300);
}

}  // namespace
}  // namespace hyperion
