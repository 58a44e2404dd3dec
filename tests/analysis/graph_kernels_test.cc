#include "hyperion/analysis/graph_kernels.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "hyperion/analysis/layer_time.h"
#include "hyperion/base/format.h"
#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;
using Numbers = std::vector<uint32_t>;

// What a matched number stands beside is itself, places never go back, and all but what differs is matched.
TEST(Align, matches_what_is_alike_in_the_order_of_both) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const uint32_t values = 1 + random() % 9;
    Numbers known(1 + random() % 60), other;
    for (auto& value : known) value = random() % values;
    size_t changes = 0;
    for (const auto value : known) {
      const auto chance = random() % 12;
      changes += chance < 2 ? 1 : 0;
      if (chance == 0) continue;
      if (chance == 1) other.push_back(100 + random() % 3);
      other.push_back(value);
    }
    const auto found = align(known, other);
    ASSERT_EQ(found.places.size(), other.size());
    size_t alike = 0;
    for (size_t i = 0; i < other.size(); ++i) {
      ASSERT_LT(found.places[i], known.size());
      if (i > 0) {
        ASSERT_GE(found.places[i], found.places[i - 1]);
      }
      alike += known[found.places[i]] == other[i] ? 1 : 0;
    }
    EXPECT_GE(alike, found.alike);
    EXPECT_GE(found.alike + changes, std::max(known.size(), other.size())) << "fewest differences, trial " << trial;
  }
}

TEST(Align, lays_what_is_new_beside_what_it_replaced_or_what_follows) {
  EXPECT_EQ(align({1, 2, 3, 4}, {1, 9, 3, 4}).places, (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(align({1, 2, 3}, {1, 2, 8, 3}).places, (Numbers{0, 1, 2, 2}));
  EXPECT_EQ(align({1, 2}, {1, 2, 8}).places, (Numbers{0, 1, 1}));
  EXPECT_EQ(align({1, 2}, {8}).places, (Numbers{0}));
  EXPECT_TRUE(align({}, {1}).places.empty());
  EXPECT_TRUE(align({1, 2, 3}, {4, 5, 6}, 2).places.empty()) << "more differences than wanted";
}

// A step of two blocks on a device, one operation at a time: forward, backward, update.
class EagerStep {
 public:
  trace::Trace make() && {
    span("step", [&] {
      span("forward", [&] {
        kernel("embedding", "aten::embedding");
        block("h.0", 10);
        block("h.1", 20);
        kernel("cross_entropy", "hyperion::linear_cross_entropy");
      });
      span("backward", [&] {
        node(30, [&] { kernel("cross_entropy_backward", "aten::mm"); });
        node(21, [&] { kernel("gemm_dx", "aten::mm"), kernel("Memset (Device)", "aten::zero_", "gpu_memset"); });
        node(11, [&] { kernel("gemm_dx", "aten::mm"); });
      });
      span("update", [&] { kernel("update_kernel", "hyperion::adamw"); });
    });
    return small_.take();
  }

 private:
  template <class Work>
  void span(const std::string& name, const Work& work, const std::string& members = "") {
    const int64_t begin = now_;
    work();
    now_ += 100;
    small_.add("user_annotation", name, "\"hyperion\"", "0", begin, now_, members);
  }
  void block(const std::string& name, int64_t first_node) {
    span(
        "block " + name, [&] { kernel("norm", "hyperion::norm_linear"), kernel("gemm", "aten::addmm"); },
        base::format(R"("args": {{"first_node": {}, "end_node": {}}})", first_node, first_node + 10));
  }
  template <class Work>
  void node(int64_t number, const Work& work) {
    const int64_t begin = now_;
    work();
    now_ += 100;
    small_.add("cpu_op", "autograd::engine::evaluate_function: X", "70", "70", begin, now_,
               base::format(R"("args": {{"Sequence number": {}}})", number));
  }
  void kernel(const std::string& name, const std::string& operation, const std::string& category = "kernel") {
    const int64_t begin = now_;
    small_.op(operation, begin, begin + 900, ++number_);
    small_.launch(begin + 100, begin + 200, number_);
    small_.kernel(name, begin + 5000, begin + 5800, 7, number_, category, number_);
    now_ += 1000;
  }

  SmallTrace small_;
  int64_t now_ = 1000, number_ = 0;
};

struct Replayed {
  std::string name, category = "kernel";
};
const std::vector<Replayed> kReplay = {{"embedding"},
                                       {"norm"},
                                       {"gemm"},
                                       {"norm"},
                                       {"gemm_of_another_form"},
                                       {"cross_entropy"},
                                       {"cross_entropy_backward"},
                                       {"gemm_dx"},
                                       {"fill_kernel"},
                                       {"gemm_dx"},
                                       {"update_kernel"}};

trace::Trace replay(const std::vector<Replayed>& kernels, int launches = 2) {
  SmallTrace small;
  int64_t now = 1000;
  for (int launch = 1; launch <= launches; ++launch) {
    const int64_t begin = now;
    small.add("cuda_runtime", "cudaGraphLaunch", "70", "70", now, now + 50,
              base::format(R"("args": {{"correlation": {}}})", launch));
    for (const auto& kernel : kernels) {
      small.kernel(kernel.name, now + 100, now + 1100, 13, launch, kernel.category);
      now += 1000;
    }
    now += 500;
    small.step(launch, begin, now);
  }
  return small.take();
}

TEST(GraphKernels, of_replays_take_phase_layer_and_operation_of_the_step_before) {
  GraphKernels graph;
  graph.learn(EagerStep().make());
  const auto told = graph.tell(replay(kReplay));
  std::vector<std::string> phases, layers, operations;
  for (size_t i = 0; i < told.size(); ++i) {
    if (!is_device_work(told.category(i))) continue;
    const auto args = nlohmann::json::parse(told.args(i));
    EXPECT_EQ(args.at("stream"), 13) << "what it said before stays";
    phases.push_back(args.at("phase")), layers.push_back(args.at("layer")), operations.push_back(args.at("operation"));
  }
  ASSERT_EQ(phases.size(), 2 * kReplay.size());
  using Texts = std::vector<std::string>;
  const auto first = [](const Texts& texts) { return Texts(texts.begin(), texts.begin() + kReplay.size()); };
  EXPECT_EQ(first(phases), (Texts{"forward", "forward", "forward", "forward", "forward", "forward", "backward",
                                  "backward", "backward", "backward", "update"}));
  EXPECT_EQ(first(layers), (Texts{"outside blocks", "h.0", "h.0", "h.1", "h.1", "outside blocks", "outside blocks",
                                  "h.1", "h.1", "h.0", "outside blocks"}));
  EXPECT_EQ(operations[1], "hyperion::norm_linear");
  EXPECT_EQ(operations[4], "aten::addmm") << "a kernel of another form takes the place of the one it replaced";
  EXPECT_EQ(operations[8], "aten::zero_") << "so does a fill that became a kernel";
  EXPECT_TRUE(std::equal(layers.begin(), layers.begin() + kReplay.size(), layers.begin() + kReplay.size()));
}

TEST(GraphKernels, give_blocks_of_replayed_steps_their_time) {
  GraphKernels graph;
  graph.learn(EagerStep().make());
  const auto times = layer_times(timeline_of(graph.tell(replay(kReplay))));
  std::map<std::string, LayerRow> rows;
  for (const auto& row : times.rows) rows[row.name] = row;
  const auto time = [&](const std::string& name, Phase phase) { return rows[name].times[static_cast<size_t>(phase)]; };
  EXPECT_EQ(times.steps, 2);
  EXPECT_EQ(time("h.0", Phase::forward), 4000);
  EXPECT_EQ(time("h.0", Phase::backward), 2000);
  EXPECT_EQ(time("h.1", Phase::backward), 4000);
  EXPECT_EQ(time("outside blocks", Phase::forward), 4000);
  EXPECT_EQ(time("outside blocks", Phase::update), 2000);
  EXPECT_EQ(times.step() - times.idle, 2 * static_cast<int64_t>(kReplay.size()) * 1000);
}

TEST(GraphKernels, say_nothing_of_a_graph_that_is_like_no_step) {
  GraphKernels graph;
  graph.learn(EagerStep().make());
  const auto told = graph.tell(replay({{"embedding"}, {"conv"}, {"pool"}, {"relu"}, {"update_kernel"}}));
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told.arg(i, "phase"), "") << told.name_text(i);
  EXPECT_TRUE(layer_times(timeline_of(GraphKernels().tell(replay(kReplay)))).rows.empty()) << "nothing was learned";
}

// Of several shapes each replay takes the one that it is most like.
TEST(GraphKernels, of_several_graphs_are_those_of_the_step_they_are_most_like) {
  GraphKernels graph;
  SmallTrace other;
  other.add("user_annotation", "forward", "\"hyperion\"", "0", 0, 100'000, "");
  for (int i = 0; i < 10; ++i) {
    other.launch(1000 * i + 100, 1000 * i + 200, i + 1);
    other.kernel(i == 9 ? "embedding" : "conv", 1000 * i + 300, 1000 * i + 400, 7, i + 1);
  }
  graph.learn(other.take());
  graph.learn(EagerStep().make());
  const auto told = graph.tell(replay(kReplay, 1));
  size_t blocks = 0;
  for (size_t i = 0; i < told.size(); ++i) blocks += told.arg(i, "layer") == "\"h.0\"" ? 1 : 0;
  EXPECT_EQ(blocks, 3U);
}

}  // namespace
}  // namespace hyperion::analysis
