#include "hyperion/profile/trace_plan.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::profile {
namespace {

// A letter a step from the first on: w warms up, t is traced; large where a part begins, ! where it ends.
std::string drawn(const std::string& text, int64_t steps) {
  const auto plan = TracePlan::parse(text, "train.profile");
  std::string drawn;
  for (int64_t step = 1; step <= steps; ++step) {
    const auto [part, begins, ends] = plan.at(step);
    const bool warms = part == TracePlan::Part::warm_up;
    drawn += part == TracePlan::Part::none ? '.' : begins ? (warms ? 'W' : 'T') : (warms ? 'w' : 't');
    if (ends) drawn += '!';
  }
  return drawn;
}

TEST(TracePlan, warms_up_and_traces_once_or_again_and_again) {
  EXPECT_EQ(drawn("", 3), "...");
  EXPECT_EQ(drawn("3", 5), "Ttt!..");
  EXPECT_EQ(drawn("1+3", 6), "W!Ttt!..");
  EXPECT_EQ(drawn("2+1@4", 8), "...Ww!T!..");
  EXPECT_EQ(drawn("0+1@2,every=3", 9), ".T!..T!..T!.");
  EXPECT_EQ(drawn("1+2@3,every=3", 9), "..W!Tt!W!Tt!W!");
}

TEST(TracePlan, takes_allocations_where_that_is_asked) {
  EXPECT_FALSE(TracePlan::parse("1+3@5,every=10", "train.profile").memory);
  for (const char* text : {"1+3@5,every=10,memory", "1+3@5,memory,every=10"}) {
    const auto plan = TracePlan::parse(text, "train.profile");
    EXPECT_TRUE(plan.memory) << text;
    EXPECT_EQ(plan.every, 10) << text;
  }
}

TEST(TracePlan, refuses_what_it_cannot_read_with_the_setting) {
  for (const char* text :
       {"x", "+3", "1+", "1+3@", "1+3@0", "-1+3", "1+0", "1+3@100,", "1+3@100,every=0", "1+3,each=5", "1+3@5 ",
        "1+3,memory,", "1+3,memory=1", "1+3,,memory", "1+3,every=3", "99999999999999999999", "1+3@2@3"}) {
    try {
      TracePlan::parse(text, "train.profile");
      ADD_FAILURE() << text;
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find("train.profile"), std::string::npos) << text;
    }
  }
}

// Held against looking at every step.
TEST(TracePlan, leaves_room_where_none_of_its_steps_are) {
  for (const char* text : {"", "3", "1+3@10", "2+5@4,every=10", "1+2@1,every=3", "1+8@7,every=12"}) {
    const auto plan = TracePlan::parse(text, "profile");
    for (int64_t length = 1; length < 8; ++length)
      for (int64_t from = 1; from < 40; ++from) {
        const auto free = [&](int64_t first) {
          for (int64_t step = first; step < first + length; ++step)
            if (plan.at(step).part != TracePlan::Part::none) return false;
          return true;
        };
        int64_t expected = from;
        while (expected < 100 && !free(expected)) ++expected;
        EXPECT_EQ(plan.next_free(from, length), expected == 100 ? 0 : expected) << text << " " << from << " " << length;
      }
  }
}

TEST(TracePlan, is_said_once) {
  EXPECT_THROW(TracePlan::parse("3,memory,memory", "profile"), base::ConfigError);
  EXPECT_THROW(TracePlan::parse("3,every=10,every=12", "profile"), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::profile
