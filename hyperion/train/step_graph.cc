#include "hyperion/train/step_graph.h"

#include <ATen/ops/empty_like.h>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/device/graph.h"

namespace hyperion::train {
namespace {

constexpr int kWarmUp = 2;     // the libraries choose and set up what they need, which cannot be recorded
constexpr size_t kShapes = 8;  // each keeps its own memory

// The next replay writes to the same place.
StepFigures copy_of(const StepFigures& figures) {
  kernels::SmallWrites writes;
  const auto copy = [&](const at::Tensor& from) {
    if (!from.defined()) return from;
    auto to = at::empty_like(from);
    writes.copy(to, from);
    return to;
  };
  StepFigures mine{copy(figures.loss), copy(figures.grad_norm), copy(figures.scale_state), copy(figures.expert_load)};
  writes.queue();
  return mine;
}

}  // namespace

Batch fixed_copy(const Batch& batch) {
  const auto copy = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; };
  Batch mine{copy(batch.inputs),  copy(batch.targets), copy(batch.segment_starts),
             copy(batch.lengths), batch.counted,       batch.documents};
  mine.tokens = batch.tokens;
  return mine;
}

void fill(const Batch& fixed, const Batch& batch, kernels::SmallWrites& writes) {
  const auto fill_one = [&](const at::Tensor& to, const at::Tensor& from) {
    if (to.defined()) writes.copy(to, from);
  };
  fill_one(fixed.inputs, batch.inputs);
  fill_one(fixed.targets, batch.targets);
  fill_one(fixed.segment_starts, batch.segment_starts);
  fill_one(fixed.lengths, batch.lengths);
}

struct StepGraphs::Recorded {
  int warm = 0;
  Batch batch;
  std::unique_ptr<device::Graph> graph;
  StepFigures figures;
  Replayed replayed;
};

StepGraphs::StepGraphs(std::function<void()> begin, std::function<Replayed()> end)
    : begin_(std::move(begin)), end_(std::move(end)) {}
StepGraphs::~StepGraphs() = default;

void StepGraphs::forget() { recorded_.clear(); }

StepFigures StepGraphs::run(const std::string& shape, const Batch& batch, kernels::SmallWrites& writes,
                            const std::function<StepFigures(const Batch&)>& compute) {
  if (refused_ || (recorded_.size() >= kShapes && !recorded_.contains(shape))) {
    writes.queue();
    return compute(batch);
  }
  auto& entry = recorded_[shape];
  if (!entry) entry = std::make_unique<Recorded>();
  if (!entry->graph && entry->warm++ < kWarmUp) {
    writes.queue();
    StepFigures figures;
    const auto run = [&] { device::on_side_stream([&] { figures = compute(batch); }); };
    if (pattern_ && entry->warm == kWarmUp) {
      pattern_(run);
    } else {
      run();
    }
    return figures;
  }
  if (!entry->graph) {
    entry->batch = fixed_copy(batch);
    auto graph = std::make_unique<device::Graph>();
    begin_();
    try {
      graph->record([&] { entry->figures = compute(entry->batch); });
    } catch (const std::exception& error) {
      refused_ = true;
      entry.reset();
      end_();
      base::log_warn(
          base::format("the step cannot be recorded as a graph, and runs one operation at a time: {}", error.what()));
      writes.queue();
      return compute(batch);
    }
    entry->replayed = end_();
    entry->graph = std::move(graph);
  }
  fill(entry->batch, batch, writes);
  writes.queue();
  entry->graph->replay();
  entry->replayed();
  return copy_of(entry->figures);
}

}  // namespace hyperion::train
