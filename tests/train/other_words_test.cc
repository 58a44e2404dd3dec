// What the tables of other trainers' words point at must exist.
#include "hyperion/base/other_words.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/train/config.h"

namespace hyperion::train {
namespace {

TEST(OtherWords, point_at_settings_that_exist_and_take_the_value_named) {
  RunConfig config;
  auto settings = bind(config);
  for (const auto& here : base::settings_named_for_other_words()) {
    const size_t equals = here.find('=');
    if (equals == here.npos) {
      EXPECT_NO_THROW(settings.at(here)) << here;
    } else {
      EXPECT_NO_THROW(settings.set(here.substr(0, equals), here.substr(equals + 1), "test")) << here;
    }
  }
}

}  // namespace
}  // namespace hyperion::train
