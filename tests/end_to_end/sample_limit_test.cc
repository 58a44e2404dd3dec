// data.limit of prepared sets.
#include "tests/end_to_end/support_prepare.h"

namespace hyperion {
namespace {

using testing::says;
using testing::Words;
using testing::operator+;

class SampleLimit : public testing::Prepare {};

TEST_F(SampleLimit, takes_the_first_samples_of_one_set_and_is_refused_for_several) {
  write_wikitext(20);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  const auto done = hyperion(train("wiki.toml", "few") + Words{"--data.limit=8"});
  expect_fine(done);
  EXPECT_TRUE(says(done.err, "8 samples an epoch")) << done.err;
  const auto all = hyperion(train("wiki.toml", "all") + Words{"--data.limit=1000000"});
  expect_fine(all);
  expect_fine(hyperion(train("wiki.toml", "unlimited")));
  EXPECT_EQ(testing::losses(scratch_.runs() / "all"), testing::losses(scratch_.runs() / "unlimited"));
  expect_fine(hyperion({"resume", "few", "--steps", "8", "--device", "cpu"}));
  const auto two =
      hyperion(train("wiki.toml", "two") + Words{"--data.limit=8", "--data.path=" + in("set") + "," + in("set")});
  EXPECT_EQ(two.code, 2);
  EXPECT_TRUE(says(two.err, "data.limit = 8 is of one set, and there are 2")) << two.err;
}

}  // namespace
}  // namespace hyperion
