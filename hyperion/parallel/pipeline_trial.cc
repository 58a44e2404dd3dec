#include "hyperion/parallel/pipeline_trial.h"

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "hyperion/base/signals.h"

namespace hyperion::parallel {
namespace {

using strategy::Does;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// So many seconds of work. Products are counted out beforehand, so that a core that is shared shows.
class Work {
 public:
  explicit Work(const TrialWork& work) : computes_(work.computes) {
    if (!computes_) return;
    matrix_ = at::full({kWidth, kWidth}, 1e-3f);
    compute(20);
    const auto start = Clock::now();
    compute(kTried);
    product_ = seconds_since(start) / kTried;
  }
  void last(double seconds) const {
    if (computes_)
      compute(static_cast<int>(std::lround(seconds / product_)));
    else
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

 private:
  static constexpr int64_t kWidth = 192;
  static constexpr int kTried = 200;
  void compute(int times) const {
    for (int i = 0; i < times; ++i) at::matmul(matrix_, matrix_);
  }
  bool computes_;
  at::Tensor matrix_;
  double product_ = 0;
};

class TrialStages : public PipelineStages {
 public:
  TrialStages(const std::vector<strategy::Instruction>& list, const TrialWork& lengths, const Work& work)
      : lengths_(lengths), work_(work) {
    for (const auto& instruction : list) {
      if (instruction.does == Does::send || instruction.does == Does::receive) shape_ = instruction.shape;
      splits_ = splits_ || instruction.does == Does::backward_weights;
    }
  }

  // Something that depends on what came in, so that there is a gradient of it.
  StageTensors forward(int64_t, int64_t, const StageTensors& hidden) override {
    last(lengths_.forward);
    return {hidden.states.defined() ? hidden.states.mul(1) : at::zeros(shape_).requires_grad_().mul(1)};
  }
  void backward(int64_t, int64_t, const StageTensors& given, const StageTensors& gradient) override {
    last(splits_ ? lengths_.backward / 2 : lengths_.backward);
    (gradient.states.defined() ? given.states : given.states.sum()).backward(gradient.states);
  }
  void backward_weights(int64_t, int64_t) override {
    if (splits_) last(lengths_.backward / 2);
  }

 private:
  void last(double seconds) {
    base::throw_if_stopped("bench pipeline");
    work_.last(seconds);
  }

  TrialWork lengths_;
  const Work& work_;
  std::vector<int64_t> shape_ = {1};
  bool splits_ = false;
};

}  // namespace

std::vector<strategy::TimedWork> run_trial(const std::vector<strategy::Instruction>& list, const TrialWork& work,
                                           const PipelineLinks& links, comm::Group& all) {
  const Work of_stages(work);
  TrialStages stages(list, work, of_stages);
  PipelineTimes times(at::kCPU);
  all.barrier("trial").wait();
  times.begin();
  run_pipeline(list, stages, links, at::kFloat, /*beside=*/0, &times);
  return times.read();
}

}  // namespace hyperion::parallel
