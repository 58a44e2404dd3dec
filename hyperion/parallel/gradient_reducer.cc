#include "hyperion/parallel/gradient_reducer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/parallel/quantized.h"

// A bucket's life in one backward: its gradients come in the order that autograd finds them, each copied (the first
// micro-batch) or added to its place; it is closed when none is missing, or its block is over. Closed buckets go to the
// wires from the last to the first and never past one that is still open: ranks may find gradients in another order, or
// not at all where a weight was not used, and would else sum different buckets with each other. So the sum of a layer's
// gradients runs beside the backward of the layers before it, and what is not hidden is the first layers' alone.
//
// Without `each` (stages 0 and 1) only the last micro-batch's backward sends, the earlier ones add up here in fp32;
// with it every one sends and the pieces are added up, since no process has room for a whole sum.
namespace hyperion::parallel {
namespace {

constexpr const char* kGradients = "gradients";

}  // namespace

// Fires once a backward, when a weight's gradient is whole.
class GradientReducer::ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(GradientReducer& owner, size_t weight) : owner_(owner), weight_(weight) {}
  void operator()(const at::Tensor&) override { owner_.ready(weight_); }

 private:
  GradientReducer& owner_;
  size_t weight_;
};

GradientReducer::GradientReducer(FlatWeights& weights, comm::Group& group, const ReduceOptions& options)
    : weights_(weights), group_(group), options_(options), buckets_(weights.buffers().size()) {
  for (size_t i = 0; i < weights.weights().size(); ++i)
    if (const auto& tensor = weights.weights()[i].tensor; tensor.requires_grad())
      torch::autograd::impl::set_post_acc_grad_hooks(tensor, std::make_unique<ReadyHook>(*this, i));
  if (options_.ends == nullptr || options_.ends->size() == 1) return;
  for (size_t i = 0; i < weights.weights().size(); ++i)
    if (const auto& weight = weights.weights()[i]; weight.name == options_.tied && weight.tensor.requires_grad())
      tied_ = weights.place_of(i).first;
}

GradientReducer::~GradientReducer() {
  for (const auto& weight : weights_.weights())
    if (weight.tensor.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(weight.tensor, nullptr);
}

void GradientReducer::begin(int64_t index, int64_t count, int64_t part) {
  backward_ = {index, count, part, buckets_.size(), {}};
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const auto& plan = weights_.buffers()[i].plan;
    backward_.progress.push_back({std::vector<char>(plan.places.size()), plan.places.size(), !plan.trained});
    // Also where no weight of it is used: a tree of fewer parts has another shape.
    auto& parts = buckets_[i].parts;
    parts.resize(std::max(parts.size(), options_.same_bits ? static_cast<size_t>(part) + 1 : 1));
  }
}

bool GradientReducer::reduces_now() const {
  return backward_.index + 1 == backward_.count || (options_.each && !options_.same_bits);
}

GradientReducer::Flat& GradientReducer::begun(size_t bucket, size_t part) {
  Flat& flat = buckets_[bucket].parts[part];
  if (!flat.values.defined()) {
    const auto& plan = weights_.buffers()[bucket].plan;
    const bool wide = options_.same_bits || (backward_.count > 1 && !options_.each);
    const auto like = weights_.weights()[plan.places.front().weight].tensor.options().requires_grad(false);
    flat = {at::empty({plan.length}, wide ? like.dtype(at::kFloat) : like), std::vector<char>(plan.places.size())};
  }
  return flat;
}

// Weights without a gradient count as zero, and so does what lies between them.
at::Tensor GradientReducer::filled(size_t bucket, size_t part) {
  const Flat& flat = begun(bucket, part);
  const auto& plan = weights_.buffers()[bucket].plan;
  int64_t end = 0;
  for (size_t place = 0; place < plan.places.size(); ++place) {
    if (flat.filled[place] == 0) continue;
    const int64_t begin = plan.places[place].begin;
    if (begin > end) flat.values.narrow(0, end, begin - end).zero_();
    end = begin + weights_.weights()[plan.places[place].weight].tensor.numel();
  }
  if (plan.length > end) flat.values.narrow(0, end, plan.length - end).zero_();
  return flat.values;
}

void GradientReducer::ready(size_t weight) {
  const at::NoGradGuard no_grad;
  if (!weights_.weights()[weight].tensor.grad().defined()) return;  // it was left for later
  const auto [bucket, place] = weights_.place_of(weight);
  Progress& progress = backward_.progress.at(bucket);
  HYPERION_CHECK(!progress.closed || progress.taken[place] == 0, "a weight has one gradient a backward");
  HYPERION_CHECK(!progress.closed,
                 "a gradient came after its block's backward was over: " + weights_.weights()[weight].name);
  take(bucket, place);
  if (progress.missing > 0) return;
  progress.closed = true;
  reduce_ready();
}

void GradientReducer::take(size_t bucket, size_t place) {
  const Place& where = weights_.buffers()[bucket].plan.places[place];
  at::Tensor& gradient = weights_.weights()[where.weight].tensor.mutable_grad();
  Progress& progress = backward_.progress[bucket];
  Flat& flat = begun(bucket, options_.same_bits ? static_cast<size_t>(backward_.part) : 0);
  const auto room = flat.values.narrow(0, where.begin, gradient.numel()).view(gradient.sizes());
  flat.filled[place] == 0 ? room.copy_(gradient) : room.add_(gradient);
  flat.filled[place] = 1;
  gradient.reset();
  progress.missing -= progress.taken[place] == 0 ? 1 : 0;
  progress.taken[place] = 1;
}

// Weights that got no gradient in this backward count as zero, whatever other ranks found.
void GradientReducer::block_is_over(int unit) {
  for (size_t i = 0; i < buckets_.size(); ++i)
    if (weights_.buffers()[i].plan.unit == unit) backward_.progress[i].closed = true;
  reduce_ready();
}

void GradientReducer::reduce_ready() {
  if (!reduces_now()) return;
  while (backward_.left > 0 && backward_.progress[backward_.left - 1].closed) {
    --backward_.left;
    if (weights_.buffers()[backward_.left].plan.trained && tied_ != backward_.left) reduce(backward_.left);
  }
}

void GradientReducer::reduce(size_t index) {
  Bucket& bucket = buckets_[index];
  std::vector<at::Tensor> parts;
  for (size_t part = 0; part < bucket.parts.size(); ++part) parts.push_back(filled(index, part));
  const at::Tensor flat = comm::tree_sum(parts);
  bucket.parts.assign(1, {});
  const at::Tensor sent = options_.wire == at::ScalarType::Undefined ? flat : flat.to(options_.wire);
  if (!options_.scatter) {
    bucket.sum = sent;
    bucket.reductions.push_back(group_.all_reduce(sent, kGradients));
    return;
  }
  const bool add = backward_.index > 0 && options_.each && !options_.same_bits;
  if (!add) bucket.sum = at::empty({weights_.buffers()[index].plan.piece}, flat.options().dtype(at::kFloat));
  if (options_.node != nullptr) {
    const NodeGroups nodes{*options_.node, *options_.across_nodes};
    bucket.reductions.push_back(reduce_quantized(nodes, bucket.sum, sent, kGradients, add));
  } else {
    bucket.reductions.push_back(group_.reduce_scatter(bucket.sum, sent, kGradients, add));
  }
  if (options_.replicas == nullptr || backward_.index + 1 < backward_.count) return;
  // In the replicas' own thread, which first waits for our piece.
  options_.replicas->then(bucket.sum, kGradients, [piece = bucket.reductions.back()]() mutable { piece.wait(); });
  bucket.reductions.push_back(options_.replicas->all_reduce(bucket.sum, kGradients));
}

void GradientReducer::end() {
  const at::NoGradGuard no_grad;
  for (auto& progress : backward_.progress) progress.closed = true;
  reduce_ready();
}

// In one process the two gradients of a micro-batch meet before any other sum, in the weight's own type.
void GradientReducer::add_ends() {
  const auto type = weights_.buffers()[*tied_].plan.type;
  auto& parts = buckets_[*tied_].parts;
  std::vector<at::Tensor> sums;
  std::vector<comm::Pending> pending;
  for (size_t part = 0; part < parts.size(); ++part) {
    sums.push_back(filled(*tied_, part).to(type));
    pending.push_back(options_.ends->all_reduce(sums.back(), "tied weights"));
  }
  for (size_t part = 0; part < parts.size(); ++part) {
    pending[part].wait();
    parts[part] = {sums[part].to(at::kFloat), std::vector<char>(parts[part].filled.size(), 1)};
  }
}

std::vector<at::Tensor> GradientReducer::sums() {
  if (tied_) add_ends(), reduce(*tied_);
  std::vector<at::Tensor> list;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    for (auto& reduction : bucket.reductions) reduction.wait();
    bucket.reductions.clear();
    if (!options_.scatter && options_.wire != at::ScalarType::Undefined && bucket.sum.defined())
      bucket.sum =
          bucket.sum.to(backward_.count > 1 || options_.same_bits ? at::kFloat : weights_.buffers()[i].plan.type);
    list.push_back(bucket.sum);
  }
  return list;
}

std::vector<at::Tensor> GradientReducer::whole_sums() {
  std::vector<at::Tensor> list(buckets_.size());
  for (size_t i = 0; i < buckets_.size(); ++i) {
    if (!buckets_[i].sum.defined()) continue;
    list[i] = at::empty({weights_.buffers()[i].plan.length}, buckets_[i].sum.options());
    group_.all_gather(list[i], buckets_[i].sum, kGradients).wait();
  }
  return list;
}

SumsSoFar GradientReducer::so_far() const {
  SumsSoFar so_far;
  for (const auto& bucket : buckets_) {
    const auto flat = bucket.parts.empty() ? Flat{} : bucket.parts.front();
    so_far.sums.push_back(flat.values), so_far.filled.push_back(flat.filled);
  }
  return so_far;
}

void GradientReducer::go_on_from(const SumsSoFar& before) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i].parts.assign(1, {before.sums[i], before.filled[i]});
}

void GradientReducer::drop() {
  for (const auto& weight : weights_.weights()) weight.tensor.mutable_grad().reset();
  for (auto& bucket : buckets_) {
    bucket.parts.clear();
    bucket.sum.reset();
  }
}

int64_t GradientReducer::bytes(int64_t micro_batches) const {
  const bool wide = micro_batches > 1 || options_.same_bits;
  int64_t sum = 0;
  for (const auto& [plan, full, piece] : weights_.buffers()) {
    if (!plan.trained) continue;
    const auto own = static_cast<int64_t>(c10::elementSize(plan.type));
    sum += options_.each ? 4 * plan.piece : (wide ? 4 : own) * plan.length;
  }
  return sum;
}

}  // namespace hyperion::parallel
