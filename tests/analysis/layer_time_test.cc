#include "hyperion/analysis/layer_time.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

constexpr int64_t kOperation = 100'000;  // nanoseconds

// A step of a model of some blocks: each an operation forward, each a node backward, the last first; an update. The
// first block is recomputed. On a device each operation launches a kernel that runs as long, later.
class MadeStep {
 public:
  explicit MadeStep(bool device) : device_(device) {}

  trace::Trace make(int blocks) && {
    const int64_t begin = now_;
    std::vector<int64_t> nodes;  // the last of each block
    span("forward", [&] {
      operation("aten::embedding");
      for (int i = 0; i < blocks; ++i) nodes.push_back(block("block", i));
      operation("aten::cross_entropy");
    });
    span("backward", [&] {
      node("LossBackward", made_++, "aten::cross_entropy_backward");
      for (int i = blocks; --i >= 0;) node("MmBackward0", i == 0 ? block("recompute", i) : nodes[i], "aten::mm");
    });
    span("update", [&] { operation("aten::_fused_adam_"); });
    now_ += kOperation;  // in which nothing is recorded
    small_.step(3, begin, now_);
    return small_.take();
  }

 private:
  template <class Work>
  void span(const std::string& name, const Work& work, const std::string& args = "") {
    const int64_t begin = now_;
    work();
    small_.add("user_annotation", name, "\"hyperion\"", "0", begin, now_, args);
  }
  void operation(const std::string& name) {
    const int64_t begin = now_;
    now_ += kOperation;
    small_.op(name, begin, now_, 7);
    if (!device_) return;
    small_.launch(begin + 1000, begin + 2000, ++correlation_);
    free_ = std::max(free_, begin);
    small_.kernel("kernel of " + name, free_, free_ + kOperation, 7, correlation_);
    free_ += kOperation;
  }
  int64_t block(const std::string& word, int number) {
    const int64_t first = made_;
    made_ += 3;
    span(
        base::format("{} h.{}", word, number), [&] { operation("aten::mm"); },
        base::format(R"("args": {{"first_node": {}, "end_node": {}}})", first, made_));
    return made_ - 1;
  }
  void node(const std::string& name, int64_t number, const std::string& works) {
    const int64_t begin = now_;
    operation(works);
    small_.add("cpu_op", "autograd::engine::evaluate_function: " + name, "70", "70", begin, now_,
               base::format(R"("args": {{"Sequence number": {}, "Fwd thread id": 1}})", number));
  }

  bool device_;
  SmallTrace small_;
  int64_t now_ = 1'000'000'000, free_ = 0, made_ = 0, correlation_ = 0;
};

TEST(LayerTimes, of_forward_and_backward_are_those_of_their_blocks) {
  for (const bool device : {false, true}) {
    const auto times = layer_times(timeline_of(MadeStep(device).make(3)));
    EXPECT_EQ(times.on_device, device);
    std::map<std::string, LayerRow> rows;
    for (const auto& row : times.rows) rows[row.name] = row;
    const auto time = [&](const std::string& name, Phase phase) {
      return rows[name].times[static_cast<size_t>(phase)];
    };
    for (const std::string block : {"h.0", "h.1", "h.2"}) {
      EXPECT_EQ(time(block, Phase::forward), kOperation) << block << device;
      EXPECT_EQ(time(block, Phase::backward), kOperation) << block << device;
      EXPECT_EQ(time(block, Phase::recompute), block == "h.0" ? kOperation : 0) << block << device;
    }
    EXPECT_EQ(time("outside blocks", Phase::forward), 2 * kOperation);
    EXPECT_EQ(time("outside blocks", Phase::backward), kOperation);
    EXPECT_EQ(time("outside blocks", Phase::update), kOperation);
    // All parts together are the step.
    EXPECT_EQ(times.step(), 12 * kOperation);
    EXPECT_EQ(times.idle, kOperation);
    EXPECT_EQ(times.at_once, 0);
    ASSERT_FALSE(times.rows.empty());
    EXPECT_EQ(times.rows[0].name, "h.0");
  }
}

TEST(LayerTimes, of_traces_without_blocks_are_none) {
  SmallTrace small;
  small.op("aten::mm", 0, 1000);
  auto trace = small.take();
  EXPECT_FALSE(has_own_spans(trace));
  EXPECT_TRUE(layer_times(timeline_of(std::move(trace))).rows.empty());
  EXPECT_TRUE(layer_tables({LayerTimes{}}, 20).empty());
}

TEST(LayerTables, put_many_blocks_together) {
  LayerTimes times;
  for (int i = 0; i < 40; ++i) {
    LayerRow row{base::format("h.{}", i), true, {}};
    row.times[1] = 1'000'000 + i * 10'000;
    times.rows.push_back(row);
  }
  times.rows.push_back({"outside blocks", false, {0, 500'000}});
  times.idle = 1'000'000;
  const auto tables = layer_tables({times}, 8);
  ASSERT_EQ(tables.size(), 1U);
  const auto& rows = tables[0].rows;
  ASSERT_EQ(rows.size(), 1U + 8 + 1 + 1 + 1) << "head, blocks, the other blocks, what is outside, idle";
  EXPECT_EQ(rows[1][0], "h.32");
  EXPECT_EQ(rows[9][0], "32 other blocks");
  double percent = 0;
  for (size_t i = 1; i < rows.size(); ++i) percent += std::stod(rows[i].back());
  EXPECT_NEAR(percent, 100, 0.7);
}

}  // namespace
}  // namespace hyperion::analysis
