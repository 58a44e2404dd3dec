// What two steps of training, their feed and a checkpoint tell to a recorder of spans.
#include <gtest/gtest.h>

#include <map>

#include "hyperion/base/files.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/save.h"
#include "hyperion/models/registry.h"
#include "hyperion/profile/span.h"
#include "hyperion/train/stepper.h"
#include "tests/base/support_child.h"

namespace hyperion::train {
namespace {

using profile::RecordedSpan;

bool within(const RecordedSpan& inner, const RecordedSpan& outer) {
  return inner.thread == outer.thread && inner.begin >= outer.begin && inner.end <= outer.end;
}

class TrainingSpans : public ::testing::Test {
 protected:
  TrainingSpans() {
    config_.train.batch = 4, config_.train.length = 16, config_.train.device = device::DeviceChoice::cpu,
    config_.train.accumulate = 2;
    config_.model.preset = "gpt2-tiny";
    config_.model.width = 32, config_.model.layers = 2, config_.model.heads = 2, config_.model.context = 16;
  }

  // Two steps of the run and a checkpoint that is opened again.
  void train() {
    const auto text = models::config_json(config_.model);
    const auto split = open_split(config_, models::config_shape(text, "test", config_.train.length));
    const auto model = models::make_model(text, "test");
    model->initialise(5);
    Stepper stepper(*model, config_, at::kCPU);
    Feed feed(split, config_, {});
    for (const int64_t step : {1, 2}) {
      const auto timer = profile::make_step_timer(false);
      stepper.run(feed.next(), step, 1e-3, *timer);
    }
    checkpoint::Snapshot snapshot;
    snapshot.step = 2, snapshot.tensors = model->parameters();
    checkpoint::open_checkpoint(base::real_files(),
                                checkpoint::save_checkpoint(base::real_files(), folder_.path(), snapshot, 1));
  }

  std::map<std::string, std::vector<RecordedSpan>> recorded() {
    profile::SpanRecorder recorder;
    train();
    std::map<std::string, std::vector<RecordedSpan>> found;
    for (auto& span : recorder.take().spans) found[span.name].push_back(span);
    return found;
  }

  RunConfig config_;
  base::test::TestFolder folder_;
};

TEST_F(TrainingSpans, are_those_of_steps_phases_blocks_feed_and_checkpoint_each_within_its_own) {
  auto found = recorded();
  std::map<std::string, size_t> counts;
  for (const auto& [name, spans] : found) counts[name] = spans.size();
  EXPECT_GE(counts["feed read"], 8u) << "and batches ahead";
  counts.erase("feed read");
  EXPECT_EQ(counts, (std::map<std::string, size_t>{{"step", 2},
                                                   {"data", 2},
                                                   {"forward", 4},
                                                   {"backward", 4},
                                                   {"update", 2},
                                                   {"block transformer.h.0", 4},
                                                   {"block transformer.h.1", 4},
                                                   {"feed wait", 2},
                                                   {"checkpoint save", 1},
                                                   {"checkpoint open", 2}}));
  const auto& steps = found["step"];
  for (const std::string name : {"data", "forward", "backward", "update"})
    for (size_t i = 0; i < found[name].size(); ++i) {
      const auto& span = found[name][i];
      const size_t step = i * 2 / found[name].size();
      EXPECT_TRUE(within(span, steps[step])) << name << " " << i;
      EXPECT_EQ(span.step, static_cast<int64_t>(step) + 1) << name;
      EXPECT_EQ(span.rank, 0);
    }
  for (size_t i = 0; i < 4; ++i) {
    const auto &first = found["block transformer.h.0"][i], &second = found["block transformer.h.1"][i];
    EXPECT_TRUE(within(first, found["forward"][i]) && within(second, found["forward"][i]));
    EXPECT_LE(first.end, second.begin);
    EXPECT_LE(found["forward"][i].end, found["backward"][i].begin);
  }
  EXPECT_LE(found["data"][0].end, found["forward"][0].begin);
  EXPECT_LE(found["backward"][1].end, found["update"][0].begin);
  EXPECT_NE(found["feed read"][0].thread, steps[0].thread);
  EXPECT_LE(found["feed wait"][0].end, steps[0].begin);
  EXPECT_GT(found["checkpoint save"][0].bytes, 32 * 16 * 4);
  EXPECT_TRUE(within(found["checkpoint open"][0], found["checkpoint save"][0])) << "read back before it is kept";
}

TEST_F(TrainingSpans, tell_what_is_computed_again_within_the_backward) {
  config_.memory.recompute = nn::Recompute::blocks;
  auto found = recorded();
  ASSERT_EQ(found["recompute transformer.h.1"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(within(found["recompute transformer.h.1"][i], found["backward"][i])) << i;
}

TEST_F(TrainingSpans, are_none_of_a_run_that_nobody_records) {
  train();
  profile::SpanRecorder recorder;
  const auto nothing = recorder.take();
  EXPECT_TRUE(nothing.spans.empty());
  EXPECT_EQ(nothing.dropped, 0);
}

}  // namespace
}  // namespace hyperion::train
