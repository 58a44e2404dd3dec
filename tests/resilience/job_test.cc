// Who is blamed, who is stopped and when: the launcher's judgement, over ranks that only exist here.
#include "hyperion/resilience/job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>

#include "hyperion/base/clock.h"

namespace hyperion::resilience {
namespace {

// Ranks that end when the script says so, or as `mortal` says when signalled.
class MadeUpRanks final : public Ranks {
 public:
  struct Event {
    int rank;
    Ending ending;
    double at;  // seconds from the start
  };
  struct Story {
    std::deque<Event> events;           // in the order they are told
    std::map<int, Ending> mortal = {};  // how a rank ends at SIGTERM or SIGINT; others only at SIGKILL
    std::vector<int> stopped = {};
  };
  MadeUpRanks(int world, Story story, std::vector<int>& signals) : story_(std::move(story)), signals_(signals) {
    for (int rank = 0; rank < world; ++rank) running_.insert(rank);
  }

  std::vector<pollfd> descriptors() const override { return {}; }
  void handle(RankEvents& events) override {
    while (!story_.events.empty() && base::real_clock().seconds() - start_ >= story_.events.front().at) {
      const Event event = story_.events.front();
      story_.events.pop_front();
      if (running_.erase(event.rank) != 0) events.ended(event.rank, event.ending);
    }
  }
  void signal(int number) override {
    signals_.push_back(number);
    const double now = base::real_clock().seconds() - start_;
    for (const int rank : running_) {
      const auto mortal = story_.mortal.find(rank);
      if (number == SIGKILL)
        story_.events.push_front({rank, {true, SIGKILL}, now});
      else if (mortal != story_.mortal.end())
        story_.events.push_front({rank, mortal->second, now});
    }
  }
  bool all_ended() const override { return running_.empty(); }
  std::vector<int> stopped() const override { return story_.stopped; }
  std::string place_of(int) const override { return "made up"; }

 private:
  double start_ = base::real_clock().seconds();
  Story story_;
  std::vector<int>& signals_;
  std::set<int> running_;
};

class JobTest : public ::testing::Test {
 protected:
  JobTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    limits_.kill_seconds = 0.3, limits_.orderly_seconds = 0.5, limits_.frozen_seconds = 0.5;
  }
  ~JobTest() override { std::filesystem::remove_all(folder_); }

  int run(int world, MadeUpRanks::Story story, const Liveness& pulse = {}, const PeerLaunchers& neighbours = {}) {
    StopSignals stops;
    RankOutput output(base::real_files(), folder_, world, Show::none);
    std::vector<std::unique_ptr<Ranks>> machines;
    machines.push_back(std::make_unique<MadeUpRanks>(world, std::move(story), signals_));
    for (const int signal : {asked_, asked_again_})
      if (signal != 0) ::kill(::getpid(), signal);
    ::testing::internal::CaptureStderr();
    const int code =
        Job(std::move(machines), output, stops, {world, limits_, pulse, neighbours, slow_step_, resumable_}).run();
    said_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  bool said(const std::string& text) const { return said_.find(text) != std::string::npos; }

  base::Path folder_;
  JobLimits limits_;
  std::vector<int> signals_;  // that the ranks were sent
  std::function<double()> slow_step_;
  bool resumable_ = false;
  int asked_ = 0;        // a signal that the launcher gets at the start
  int asked_again_ = 0;  // and another
  std::string said_;
};

TEST_F(JobTest, that_goes_well_says_nothing) {
  EXPECT_EQ(run(2, {{{0, {false, 0}, 0}, {1, {false, 0}, 0.3}}}), 0);
  EXPECT_EQ(said_, "");
  EXPECT_TRUE(signals_.empty()) << "a rank that is done early ends nobody";
}

TEST_F(JobTest, blames_the_first_failure_and_stops_the_rest_gently_then_not) {
  EXPECT_EQ(run(3, {{{1, {false, 7}, 0}}, {{0, {false, 75}}}}), 7);
  EXPECT_EQ(signals_, (std::vector<int>{SIGTERM, SIGKILL}));
  EXPECT_TRUE(said("rank 1 of 3 (made up) ended with exit code 7; ranks 0 and 2 ended after it")) << said_;
}

TEST_F(JobTest, says_who_was_frozen_when_another_gave_up) {
  limits_.frozen_seconds = 30;
  std::string told;
  Liveness pulse;
  pulse.end = [&](const std::string& why) { told = why; };
  MadeUpRanks::Story story{{{0, {false, 1}, 0.5}}};
  story.stopped = {2};
  EXPECT_EQ(run(3, story, pulse), 1);
  EXPECT_TRUE(said("rank 0 of 3 (made up) ended with exit code 1, while rank 2 was frozen; ")) << said_;
  EXPECT_EQ(told, "rank 0 ended with exit code 1, while rank 2 was frozen") << "what the other ranks are told";
}

TEST_F(JobTest, blames_a_crash_above_an_exit_of_the_same_moment) {
  // Rank 0 is looked at first, but left only because rank 1 was gone.
  EXPECT_EQ(run(2, {{{0, {false, 1}, 0}, {1, {true, SIGKILL}, 0}}}), 128 + SIGKILL);
  EXPECT_TRUE(said("rank 1 of 2")) << said_;
  EXPECT_TRUE(said("exhausts the memory")) << said_;
}

TEST_F(JobTest, does_not_blame_ranks_for_the_signals_it_sent) {
  EXPECT_EQ(run(3, {{{2, {false, 9}, 0}}, {{0, {true, SIGTERM}}}}), 9);
  EXPECT_TRUE(said("rank 2 of 3")) << said_;
}

TEST_F(JobTest, that_was_asked_to_stop_waits_for_everyone) {
  asked_ = SIGTERM;
  EXPECT_EQ(run(2, {{{0, {false, 75}, 0.1}, {1, {false, 75}, 1.2}}}), 75);
  EXPECT_EQ(signals_, (std::vector<int>{SIGTERM})) << "passed on once, and nobody was hurried";
  EXPECT_TRUE(said("stopped in good order")) << said_;
}

TEST_F(JobTest, that_was_stopped_at_once_does_not_claim_good_order) {
  asked_ = SIGUSR1, asked_again_ = SIGINT;
  EXPECT_EQ(run(1, {{{0, {false, 130}, 0.3}}}), 130);
  EXPECT_TRUE(said("was stopped at once, with exit code 130")) << said_;
}

TEST_F(JobTest, that_was_asked_to_stop_still_tells_a_failure) {
  asked_ = SIGINT;
  EXPECT_EQ(run(2, {{{0, {false, 130}, 0.1}, {1, {false, 1}, 0.3}}}), 1);
  EXPECT_TRUE(said("rank 1 of 2 (made up) ended with exit code 1")) << said_;
}

TEST_F(JobTest, of_a_training_run_is_saved_once_one_rank_says_so_after_a_stop) {
  asked_ = SIGTERM, resumable_ = true;
  EXPECT_EQ(run(2, {{{0, {false, 75}, 0.1}, {1, {false, 1}, 0.3}}}), 75);
  EXPECT_EQ(run(2, {{{1, {false, 1}, 0.1}, {0, {false, 75}, 0.2}}}), 75) << "whoever is seen to end first";
  EXPECT_EQ(run(1, {{{0, {true, SIGTERM}, 0.1}}}), 75) << "stopped before it could answer: it had nothing to save";
}

TEST_F(JobTest, ranks_that_must_be_killed_after_a_stop_end_by_that_stop) {
  asked_ = SIGINT;
  EXPECT_EQ(run(1, {{}, {{0, {true, SIGINT}}}}), 130);
  EXPECT_TRUE(said("rank 0 of 1 (made up) was stopped by signal 2")) << said_;
}

TEST_F(JobTest, a_rank_that_left_in_good_order_unasked_gives_the_others_time) {
  EXPECT_EQ(run(2, {{{0, {false, 75}, 0}, {1, {false, 75}, 0.3}}}), 75);
  EXPECT_TRUE(signals_.empty());
  signals_.clear();
  EXPECT_EQ(run(2, {{{0, {false, 75}, 0}}}), 75) << "but not for ever";
  EXPECT_EQ(signals_, (std::vector<int>{SIGTERM, SIGKILL}));
}

TEST_F(JobTest, names_a_frozen_rank_by_either_sign) {
  EXPECT_EQ(run(2, {{}, {}, {1}}), 1);
  EXPECT_TRUE(said("rank 1 (made up) is frozen: stopped by a signal")) << said_;
  EXPECT_EQ(run(2, {}, {{}, [](double) { return std::vector<int>{0}; }}), 1);
  EXPECT_TRUE(said("rank 0 (made up) is frozen: sends no heartbeat")) << said_;
}

TEST_F(JobTest, waits_for_a_stopped_rank_as_long_as_three_of_its_slowest_steps) {
  limits_.frozen_seconds = 30;
  slow_step_ = [] { return 0.8; };
  EXPECT_EQ(run(2, {{}, {}, {1}}), 1);
  EXPECT_TRUE(said("is frozen: stopped by a signal; the job ends in 2.4 s unless it goes on")) << said_;
  slow_step_ = [] { return 0.001; };
  EXPECT_EQ(run(2, {{}, {}, {1}}), 1);
  EXPECT_TRUE(said("the job ends in 1.5 s unless it goes on")) << said_;
}

TEST_F(JobTest, tells_who_is_late) {
  limits_.late_seconds = 0.5;
  EXPECT_EQ(
      run(3, {{{0, {false, 0}, 2}, {1, {false, 0}, 2}, {2, {false, 0}, 2}}}, {[] { return std::vector<int>{1}; }, {}}),
      0);
  EXPECT_TRUE(said("ranks 0 and 2 have not come to the meeting")) << said_;
}

TEST_F(JobTest, ends_with_a_failure_elsewhere_and_tells_its_own) {
  std::string told;
  const PeerLaunchers quiet{[] { return std::string(); }, [&](const std::string& why) { told = why; }};
  EXPECT_EQ(run(1, {{{0, {false, 3}, 0}}}, {}, quiet), 3);
  EXPECT_EQ(told, "rank 0 ended with exit code 3");
  told.clear();
  const PeerLaunchers failed{[] { return std::string("node 4: rank 9 broke"); },
                             [&](const std::string& why) { told = why; }};
  EXPECT_EQ(run(1, {{}, {{0, {false, 75}}}}, {}, failed), 1);
  EXPECT_TRUE(said("the job ended elsewhere: node 4: rank 9 broke")) << said_;
  EXPECT_EQ(told, "");
}

}  // namespace
}  // namespace hyperion::resilience
