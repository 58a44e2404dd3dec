#include "hyperion/parallel/stage_graphs.h"

#include <ATen/ops/empty_like.h>

#include <set>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/device/graph.h"

// Graphs of a shape share their memory, as they are always replayed in the order of the list in which they were
// recorded. So nothing that comes out of one may be kept where it lies: what the runner sends, or hands to another
// stage, is a copy.
namespace hyperion::parallel {
namespace {

using strategy::Does;
using Piece = std::pair<int64_t, int64_t>;  // stage, micro-batch

constexpr int kWarmUp = 2;  // the libraries choose and set up what they need, which cannot be recorded

template <class Change>
StageTensors each(const StageTensors& tensors, Change change) {
  return {tensors.states.defined() ? change(tensors.states) : at::Tensor(),
          tensors.beside.defined() ? change(tensors.beside) : at::Tensor()};
}

StageTensors copy_of(const StageTensors& tensors) {
  return each(tensors, [](const at::Tensor& tensor) { return tensor.detach().clone(); });
}

// A forward that is recorded has saved `to` for its backward, and would call it changed.
void fill(const StageTensors& to, const StageTensors& from) {
  if (to.states.defined()) to.states.variable_data().copy_(from.states);
  if (to.beside.defined()) to.beside.variable_data().copy_(from.beside);
}

StageTensors gradients_of(const StageTensors& tensors) {
  return each(tensors, [](const at::Tensor& tensor) { return std::exchange(tensor.mutable_grad(), {}); });
}

void put_gradients(const StageTensors& tensors, const StageTensors& gradients) {
  if (tensors.states.defined()) tensors.states.mutable_grad() = gradients.states;
  if (tensors.beside.defined()) tensors.beside.mutable_grad() = gradients.beside;
}

}  // namespace

struct StageGraphs::Recorded {
  struct Work {
    std::unique_ptr<device::Graph> graph;
    StageTensors in, out;  // where it reads and writes
    Replayed replayed;
  };
  int warm = 0;
  bool done = false, refused = false;
  std::map<Piece, Work> forwards, backwards;
  std::map<Piece, StageTensors> given;  // while it is recorded: with their graphs, from a forward to its backward
  SumsSoFar sums;
};

// Stands between the runner and the stages that compute.
class StageGraphs::Stages final : public PipelineStages {
 public:
  Stages(StageGraphs& owner, Recorded& recorded, const std::vector<strategy::Instruction>& list, PipelineStages& stages)
      : owner_(owner), recorded_(recorded), stages_(stages) {
    std::vector<Piece> backwards;
    for (const auto& instruction : list)
      if (instruction.does == Does::backward) backwards.emplace_back(instruction.stage, instruction.micro_batch);
    if (owner.weights_->travel() && !backwards.empty()) backwards.pop_back();  // other processes wait for its gradients
    pieces_ = {backwards.begin(), backwards.end()};
    if (!backwards.empty()) last_ = backwards.back();
  }

  StageTensors forward(int64_t stage, int64_t micro_batch, const StageTensors& hidden) override {
    const Piece piece{stage, micro_batch};
    if (!pieces_.contains(piece)) return stages_.forward(stage, micro_batch, hidden);
    if (!recorded_.done && !record_forward(piece, hidden)) {
      pieces_.erase(piece);
      return stages_.forward(stage, micro_batch, hidden);
    }
    hidden_[piece] = hidden;
    const auto& work = recorded_.forwards.at(piece);
    replay(work, hidden);
    return copy_of(work.out);
  }

  void backward(int64_t stage, int64_t micro_batch, const StageTensors& given, const StageTensors& gradient) override {
    const Piece piece{stage, micro_batch};
    if (!pieces_.contains(piece)) return stages_.backward(stage, micro_batch, given, gradient);
    auto& work = recorded_.backwards[piece];
    if (!recorded_.done) {
      const auto made = recorded_.given.extract(piece);
      HYPERION_CHECK(!made.empty(), "a backward comes after its forward");
      record(work, [&] {
        work.in = each(gradient, [](const at::Tensor& tensor) { return at::empty_like(tensor); });
        stages_.backward(stage, micro_batch, made.mapped(), work.in);
        work.out = gradients_of(recorded_.forwards[piece].in);
      });
      if (piece == last_) recorded_.sums = owner_.weights_->sums_so_far();
    }
    replay(work, gradient);
    put_gradients(hidden_.extract(piece).mapped(), copy_of(work.out));
    if (recorded_.done && piece == last_) owner_.weights_->go_on_from(recorded_.sums);
  }

  void backward_weights(int64_t stage, int64_t micro_batch) override { stages_.backward_weights(stage, micro_batch); }

 private:
  // False: it is not to be had, and neither is any after it.
  bool record_forward(const Piece& piece, const StageTensors& hidden) {
    if (recorded_.refused) return false;
    Recorded::Work work;
    StageTensors given;
    try {
      record(work, [&] {
        work.in = each(hidden, [](const at::Tensor& tensor) { return at::empty_like(tensor).requires_grad_(); });
        given = stages_.forward(piece.first, piece.second, work.in);
      });
    } catch (const std::exception& error) {
      recorded_.refused = true;
      base::log_warn(
          base::format("the stages cannot be recorded as graphs, and run one operation at a time: {}", error.what()));
      return false;
    }
    work.out = each(given, [](const at::Tensor& tensor) { return tensor.detach(); });
    recorded_.given[piece] = given;
    recorded_.forwards[piece] = std::move(work);
    return true;
  }

  void record(Recorded::Work& work, const std::function<void()>& compute) {
    auto graph = std::make_unique<device::Graph>(first_);
    owner_.begin_();
    try {
      graph->record(compute);
    } catch (...) {
      owner_.end_();
      throw;
    }
    work.replayed = owner_.end_();
    work.graph = std::move(graph);
    if (first_ == nullptr) first_ = work.graph.get();
  }

  static void replay(const Recorded::Work& work, const StageTensors& in) {
    fill(work.in, in);
    work.graph->replay();
    work.replayed();
  }

  StageGraphs& owner_;
  Recorded& recorded_;
  PipelineStages& stages_;
  std::set<Piece> pieces_;  // which are recorded
  Piece last_{-1, -1};      // of them, in the order of the backwards
  std::map<Piece, StageTensors> hidden_;
  const device::Graph* first_ = nullptr;
};

StageGraphs::StageGraphs(TrainedWeights& weights, std::function<void()> begin, std::function<Replayed()> end)
    : weights_(&weights), begin_(std::move(begin)), end_(std::move(end)), recorded_(std::make_unique<Recorded>()) {}
StageGraphs::StageGraphs(StageGraphs&&) noexcept = default;
StageGraphs::~StageGraphs() = default;

void StageGraphs::forget() {
  recorded_ = std::make_unique<Recorded>();
  recorded_->refused = true;
}

bool StageGraphs::refused() const { return recorded_->refused; }
bool StageGraphs::fixed() const { return recorded_->warm >= kWarmUp && !refused(); }

std::vector<at::Tensor> StageGraphs::run(const std::vector<strategy::Instruction>& list, const Compute& compute) {
  if (refused()) return compute(as_they_are);
  std::vector<at::Tensor> losses;
  if (!fixed()) {
    ++recorded_->warm;
    device::on_side_stream([&] { losses = compute(as_they_are); });
    return losses;
  }
  std::unique_ptr<Stages> stages;
  const auto by_graphs = [&](PipelineStages& computing) -> PipelineStages& {
    stages = std::make_unique<Stages>(*this, *recorded_, list, computing);
    return *stages;
  };
  weights_->settle();  // a replay waits for nothing
  if (recorded_->done) return compute(by_graphs);
  try {
    // All of the step, so that no weight's gradient is made on two streams.
    device::on_side_stream([&] { losses = compute(by_graphs); });
  } catch (...) {
    forget();
    throw;
  }
  recorded_->done = true;
  if (refused()) forget();
  return losses;
}

}  // namespace hyperion::parallel
