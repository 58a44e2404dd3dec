// Ranks behind a remote shell that is only a script here.
#include "hyperion/resilience/remote_ranks.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "hyperion/resilience/guardian.h"

namespace hyperion::resilience {
namespace {

struct Heard final : RankEvents {
  void output(int rank, Stream, std::string_view bytes) override { said[rank] += bytes; }
  void ended(int rank, Ending ending) override { endings[rank] = ending.text(); }
  std::map<int, std::string> said, endings;
};

class RemoteRanksTest : public ::testing::Test {
 protected:
  RemoteRanksTest() { std::signal(SIGPIPE, SIG_IGN); }  // as the program does
  std::unique_ptr<Ranks> start(const std::string& script, double greeting_seconds = 60) {
    NodePlan plan;
    plan.ranks = plan.world = 2;
    RemoteNode node{"far", {"sh", "-c", script}, "hyperion", "/"};
    node.greeting_seconds = greeting_seconds;
    return start_remote_ranks(node, plan, guardian_);
  }
  // Until `done` or a few seconds are over.
  template <class Done>
  void follow(Ranks& ranks, Done done) {
    for (int i = 0; i < 500 && !done(); ++i) {
      auto watched = ranks.descriptors();
      ::poll(watched.data(), watched.size(), 10);
      ranks.handle(heard_);
    }
  }
  Guardian guardian_;
  Heard heard_;
};

TEST_F(RemoteRanksTest, fail_where_their_node_does_not_answer_in_time) {
  const auto ranks = start("sleep 60", 0.1);
  follow(*ranks, [&] { return ranks->all_ended(); });
  EXPECT_EQ(heard_.endings, (std::map<int, std::string>{{0, "exit code 255"}, {1, "exit code 255"}}));
  EXPECT_NE(heard_.said[0].find("error: node far has not answered for"), std::string::npos) << heard_.said[0];
}

TEST_F(RemoteRanksTest, are_told_of_only_as_far_as_they_are_of_this_node) {
  const auto ranks = start(
      "printf 'hyperion agent 2\\nstopped -1 7 99999999999 4294967297 1\\nexit 4294967296 0\\nexit 0 "
      "99999999999\\nexit 5 0\\nout 0 3\\nend'; cat > /dev/null");
  follow(*ranks, [&] { return heard_.said[0] == "end"; });
  EXPECT_EQ(ranks->stopped(), (std::vector<int>{1}));
  EXPECT_EQ(heard_.said[0], "end");
  EXPECT_TRUE(heard_.endings.empty());
}

TEST_F(RemoteRanksTest, are_given_up_at_the_first_request_to_stop_where_their_node_has_not_answered) {
  const auto ranks = start("sleep 60");
  ranks->signal(SIGTERM);
  ranks->handle(heard_);
  EXPECT_TRUE(ranks->all_ended());
  EXPECT_EQ(heard_.endings[0], (Ending{true, SIGTERM}.text()));
  EXPECT_EQ(heard_.said[0], "") << "nobody did anything wrong";
}

TEST_F(RemoteRanksTest, have_failed_where_the_shell_is_gone_though_a_child_of_it_holds_the_pipe) {
  const auto ranks = start("printf 'hyperion agent 2\\n'; sleep 60 & exit 0");
  follow(*ranks, [&] { return ranks->all_ended(); });
  EXPECT_EQ(heard_.endings, (std::map<int, std::string>{{0, "exit code 255"}, {1, "exit code 255"}}));
  EXPECT_NE(heard_.said[0].find("error: the connection to node far was lost"), std::string::npos) << heard_.said[0];
}

}  // namespace
}  // namespace hyperion::resilience
