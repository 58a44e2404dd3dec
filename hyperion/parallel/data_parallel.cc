#include "hyperion/parallel/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/kernels/update.h"
#include "hyperion/nn/module.h"
#include "hyperion/nn/projection.h"
#include "hyperion/nn/without_memory.h"
#include "hyperion/parallel/quantised.h"

namespace hyperion::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kGradients = "gradients";
constexpr const char* kWeights = "weights";

// Memory goes and comes back under the tensors that look at it.
void take_memory(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  if (storage->nbytes() > 0) return;
  const size_t bytes = tensor.nbytes();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void give_memory_back(const at::Tensor& tensor) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, tensor.device()));
  storage->set_nbytes(static_cast<size_t>(0));
}

}  // namespace

struct DataParallel::State {
  Bucket plan;
  at::Tensor full;       // the weights, of which the model's are views; undefined for zero = 0
  at::Tensor shard;      // our piece of them: a view of `full`, for zero = 3 memory of its own
  at::Tensor secondary;  // our part of the node's copy; undefined until this step's first gather is done with
  at::Tensor wide;       // until masters are made of it: our piece in fp32 of weights that came without memory
  bool present = true;
  comm::Pending gathering;

  at::Tensor gradient;           // flat, being filled by this micro-batch or several
  bool fresh = false;            // by this one first
  std::vector<at::Tensor> kept;  // same_bits: one a micro-batch
  std::vector<char> taken;       // by place
  size_t missing = 0;
  bool closed = false;
  at::Tensor sum;  // of all ranks: flat for zero = 0, else our piece in fp32
  std::vector<comm::Pending> reductions;
};

// Fires once a backward, when a weight's gradient is whole.
class DataParallel::ReadyHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  ReadyHook(DataParallel& owner, size_t weight) : owner_(owner), weight_(weight) {}
  void operator()(const at::Tensor&) override { owner_.ready(weight_); }

 private:
  DataParallel& owner_;
  size_t weight_;
};

// Passes a tensor on, and calls the owner when its gradient comes back.
template <void (DataParallel::*Then)(int)>
struct DataParallel::InBackward : torch::autograd::Function<InBackward<Then>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, int64_t owner, int64_t unit) {
    context->saved_data["owner"] = owner;
    context->saved_data["unit"] = unit;
    return tensor;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto* owner = reinterpret_cast<DataParallel*>(context->saved_data["owner"].toInt());
    (owner->*Then)(static_cast<int>(context->saved_data["unit"].toInt()));
    return {gradients[0], {}, {}};
  }
};

void number_units(std::vector<Weight>& weights, nn::Module* root, std::map<nn::Module*, int>& units) {
  if (root == nullptr) return;
  std::map<const void*, int> unit_of;
  const auto add = [&](nn::Module& block) {
    if (units.count(&block) != 0) return;
    const int unit = static_cast<int>(units.size()) + 1;
    units[&block] = unit;
    for (const auto& parameter : block.parameters()) unit_of[parameter.unsafeGetTensorImpl()] = unit;
    block.visit([&](const std::string&, nn::Module& module) {
      if (const auto* projection = dynamic_cast<nn::Projection*>(&module))
        for (const auto& piece : projection->packed()) unit_of[piece.unsafeGetTensorImpl()] = unit;
    });
  };
  root->visit([&](const std::string&, nn::Module& module) {
    if (module.unit() == nn::Unit::block) add(module);
    if (auto* stack = dynamic_cast<nn::Stack*>(&module))
      for (const auto& block : stack->blocks()) add(*block);
  });
  for (auto& weight : weights)
    if (const auto found = unit_of.find(weight.tensor.unsafeGetTensorImpl()); found != unit_of.end())
      weight.unit = found->second;
}

DataParallel::DataParallel(comm::Group& gradients, comm::Group& gathers, std::vector<Weight> weights, nn::Module* root,
                           const DataParallelOptions& options)
    : reductions_(gradients), gathers_(gathers), weights_(std::move(weights)), options_(options) {
  const at::NoGradGuard no_grad;
  number_units(weights_, root, units_);
  last_unit_ = static_cast<int>(units_.size());
  place_of_.resize(weights_.size());
  for (auto& bucket : plan_buckets(weights_, {reductions_.size(), options_.zero == 3, options_.bucket_bytes})) {
    auto state = std::make_unique<State>();
    state->plan = std::move(bucket);
    state->taken.resize(state->plan.places.size());
    for (size_t i = 0; i < state->plan.places.size(); ++i) place_of_[state->plan.places[i].weight] = {state.get(), i};
    if (options_.zero > 0) adopt(*state);
    states_.push_back(std::move(state));
  }
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!weights_[i].tensor.requires_grad()) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(weights_[i].tensor, std::make_unique<ReadyHook>(*this, i));
    if (options_.zero == 0)
      parts_.push_back(
          {{weights_[i].name, weights_[i].tensor, weights_[i].decay}, true, 0, weights_[i].tensor.sizes().vec()});
  }
  if (options_.zero == 0) return;
  for (const auto& state : states_) {
    if (!state->plan.trained) continue;
    for (const Slice& slice : slices_of(state->plan, weights_, reductions_.rank())) {
      const Weight& weight = weights_[slice.weight];
      parts_.push_back({{weight.name, state->shard.narrow(0, slice.at, slice.count), weight.decay},
                        false,
                        slice.begin,
                        weight.tensor.sizes().vec()});
      filled_.push_back(state->wide.defined() ? state->wide.narrow(0, slice.at, slice.count) : at::Tensor());
    }
    state->wide.reset();
  }
}

DataParallel::~DataParallel() {
  for (const auto& weight : weights_)
    if (weight.tensor.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(weight.tensor, nullptr);
}

void DataParallel::adopt(State& state) {
  const auto options = weights_[state.plan.places.front().weight].tensor.options().requires_grad(false);
  if (options_.zero == 3 && std::any_of(state.plan.places.begin(), state.plan.places.end(), [&](const Place& place) {
        return !nn::has_memory(weights_[place.weight].tensor);
      }))
    return fill(state);
  state.full = at::zeros({state.plan.length}, options);
  for (const Place& place : state.plan.places) {
    at::Tensor& weight = weights_[place.weight].tensor;
    const auto view = state.full.narrow(0, place.begin, weight.numel()).view(weight.sizes());
    view.copy_(weight.detach());
    weight.set_data(view);
  }
  state.shard = state.full.narrow(0, reductions_.rank() * state.plan.piece, state.plan.piece);
  if (options_.zero < 3) return;
  state.shard = state.shard.clone();
  release(state);
}

// Of a bucket whose weights, some or all, have no memory: only our own piece ever gets any.
void DataParallel::fill(State& state) {
  constexpr int64_t kAtOnce = 1 << 20;
  const auto options = weights_[state.plan.places.front().weight].tensor.options().requires_grad(false);
  state.shard = at::zeros({state.plan.piece}, options);
  if (state.plan.trained && state.plan.type != at::kFloat)
    state.wide = at::zeros({state.plan.piece}, options.dtype(at::kFloat));
  for (const Slice& slice : slices_of(state.plan, weights_, reductions_.rank())) {
    const Weight& weight = weights_[slice.weight];
    const bool there = nn::has_memory(weight.tensor);
    HYPERION_CHECK(there || options_.values, "nothing tells the values of " + weight.name);
    for (int64_t done = 0; done < slice.count; done += kAtOnce) {
      const int64_t count = std::min(kAtOnce, slice.count - done);
      const auto values = there ? weight.tensor.detach().reshape(-1).narrow(0, slice.begin + done, count)
                                : at::empty({count}, at::kFloat);
      if (!there) options_.values(weight.name, slice.begin + done, values);
      state.shard.narrow(0, slice.at + done, count).copy_(values);
      if (state.wide.defined()) state.wide.narrow(0, slice.at + done, count).copy_(values);
    }
  }
  state.full = at::empty({state.plan.length}, options);  // a view wants memory to be there, if never touched
  for (const Place& place : state.plan.places) {
    at::Tensor& weight = weights_[place.weight].tensor;
    weight.set_data(state.full.narrow(0, place.begin, weight.numel()).view(weight.sizes()));
  }
  release(state);
}

std::vector<at::Tensor> DataParallel::masters(const std::vector<at::Tensor>& wide) {
  std::map<std::string, at::Tensor> by_name;
  size_t next = 0;
  for (const auto& weight : weights_)
    if (weight.tensor.requires_grad()) by_name[weight.name] = wide.at(next++);
  std::vector<at::Tensor> list;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const at::Tensor& own = part.parameter.weight;
    const at::Tensor& values = by_name.at(part.parameter.name);
    if (own.scalar_type() == at::kFloat)
      list.push_back(own);
    else if (!filled_.empty() && filled_[i].defined())
      list.push_back(filled_[i]);
    else if (!part.whole)
      list.push_back(values.reshape(-1).narrow(0, part.begin, own.numel()).clone());
    else  // a model on a GPU may have laid its weights out anew
      list.push_back(kernels::laid_out_alike(own, values) ? values : own.detach().to(at::kFloat).copy_(values));
  }
  filled_.clear();
  return list;
}

void DataParallel::fetch(State& state) {
  if (state.present) return;
  take_memory(state.full);
  if (state.secondary.defined()) {
    state.gathering = options_.secondary->all_gather(state.full, state.secondary, kWeights);
  } else if (options_.quantised_weights && at::isFloatingType(state.plan.type)) {
    state.gathering = gather_quantised(gathers_, state.full, state.shard, kWeights);
  } else {
    state.gathering = gathers_.all_gather(state.full, state.shard, kWeights);
  }
  state.present = true;
}

void DataParallel::release(State& state) {
  if (!state.present || held_ > 0) return;
  state.gathering.wait();
  if (options_.secondary != nullptr && !state.secondary.defined() && at::GradMode::is_enabled()) {
    const int64_t part = state.plan.length / options_.secondary->size();
    state.secondary = state.full.narrow(0, options_.secondary->rank() * part, part).clone();
  }
  give_memory_back(state.full);
  state.present = false;
}

void DataParallel::need(int unit) {
  ahead(unit);
  for (const auto& state : states_)
    if (state->plan.unit == unit) state->gathering.wait();
}

void DataParallel::ahead(int unit) {
  for (const auto& state : states_)
    if (state->plan.unit == unit) fetch(*state);
}

void DataParallel::release(int unit) {
  for (const auto& state : states_)
    if (state->plan.unit == unit) release(*state);
}

void DataParallel::begin_pass() {
  if (options_.zero == 0) return;
  if (options_.zero < 3) {
    for (const auto& state : states_) state->gathering.wait();
    return;
  }
  ahead(0);
  for (int64_t i = 1; i <= options_.prefetch; ++i) ahead(static_cast<int>(i));
  need(0);
}

void DataParallel::end_pass() {
  if (options_.zero < 3) return;
  for (const auto& state : states_) release(*state);
}

at::Tensor DataParallel::run(nn::Module& block, const at::Tensor& input, const Forward& forward) {
  const auto found = units_.find(&block);
  if (options_.zero < 3 || found == units_.end()) return forward(input);
  const int unit = found->second;
  need(unit);
  for (int64_t i = 1; i <= options_.prefetch; ++i) ahead(unit + static_cast<int>(i));
  if (!at::GradMode::is_enabled()) {
    auto output = forward(input);
    release(unit);
    return output;
  }
  // The output's backward comes before any of the block's, the input's after all of them.
  using Enter = InBackward<&DataParallel::enter_backward>;
  using Leave = InBackward<&DataParallel::leave_backward>;
  const auto owner = reinterpret_cast<int64_t>(this);
  const auto output = forward(Leave::apply(input, owner, unit));
  if (unit != last_unit_) release(unit);  // the last is the backward's first
  return Enter::apply(output, owner, unit);
}

void DataParallel::enter_backward(int unit) {
  need(unit);
  for (int64_t i = 1; i <= options_.prefetch; ++i)
    if (unit - i > 0) ahead(unit - static_cast<int>(i));
}

void DataParallel::leave_backward(int unit) {
  for (const auto& state : states_)
    if (state->plan.unit == unit) close(*state);
  reduce_ready();
  release(unit);
}

void DataParallel::begin_micro_batch(int64_t index, int64_t count) {
  index_ = index, count_ = count;
  next_ = std::ssize(states_) - 1;
  for (const auto& state : states_) {
    std::fill(state->taken.begin(), state->taken.end(), 0);
    state->missing = state->taken.size();
    state->closed = !state->plan.trained;
    state->fresh = false;
  }
  begin_pass();
}

bool DataParallel::reduces_now() const { return index_ + 1 == count_ || (options_.zero >= 2 && !options_.same_bits); }

at::Tensor DataParallel::flat_gradient(State& state) {
  if (!state.gradient.defined()) {
    const bool wide = options_.same_bits || (count_ > 1 && options_.zero < 2);
    const auto like = weights_[state.plan.places.front().weight].tensor.options().requires_grad(false);
    state.gradient = at::zeros({state.plan.length}, wide ? like.dtype(at::kFloat) : like);
    state.fresh = true;
  }
  return state.gradient;
}

void DataParallel::ready(size_t weight) {
  const at::NoGradGuard no_grad;
  const auto [state, place] = place_of_[weight];
  HYPERION_CHECK(!state->closed || state->taken[place] == 0, "a weight has one gradient a backward");
  HYPERION_CHECK(!state->closed, "a gradient came after its block's backward was over: " + weights_[weight].name);
  take(*state, place);
  if (state->missing > 0) return;
  state->closed = true;
  reduce_ready();
}

void DataParallel::take(State& state, size_t place) {
  const Place& where = state.plan.places[place];
  at::Tensor& gradient = weights_[where.weight].tensor.mutable_grad();
  const auto room = flat_gradient(state).narrow(0, where.begin, gradient.numel()).view(gradient.sizes());
  state.fresh ? room.copy_(gradient) : room.add_(gradient);
  gradient.reset();
  state.missing -= state.taken[place] == 0 ? 1 : 0;
  state.taken[place] = 1;
}

// Weights that got no gradient in this backward count as zero, whatever other ranks found.
void DataParallel::close(State& state) { state.closed = true; }

// Always in the same order, so that ranks whose gradients come in another still meet.
void DataParallel::reduce_ready() {
  if (!reduces_now()) return;
  while (next_ >= 0 && states_[static_cast<size_t>(next_)]->closed) {
    State& state = *states_[static_cast<size_t>(next_--)];
    if (state.plan.trained) reduce(state);
  }
}

void DataParallel::reduce(State& state) {
  at::Tensor flat = flat_gradient(state);
  state.gradient.reset();
  if (options_.same_bits) {
    state.kept.push_back(flat);
    flat = comm::tree_sum(state.kept);
    state.kept.clear();
  }
  const at::Tensor sent = options_.wire == at::ScalarType::Undefined ? flat : flat.to(options_.wire);
  if (options_.zero == 0) {
    state.sum = sent;
    state.reductions.push_back(reductions_.all_reduce(sent, kGradients));
    return;
  }
  const bool add = index_ > 0 && options_.zero >= 2 && !options_.same_bits;
  if (!add) state.sum = at::empty({state.plan.piece}, flat.options().dtype(at::kFloat));
  if (options_.node != nullptr) {
    const NodeGroups nodes{*options_.node, *options_.across_nodes};
    state.reductions.push_back(reduce_quantised(nodes, state.sum, sent, kGradients, add));
  } else {
    state.reductions.push_back(reductions_.reduce_scatter(state.sum, sent, kGradients, add));
  }
  if (options_.replicas != nullptr && index_ + 1 == count_) sum_over_replicas(state);
}

// In the replicas' own thread, which first waits for our piece.
void DataParallel::sum_over_replicas(State& state) {
  auto& replicas = *options_.replicas;
  replicas.then(state.sum, kGradients, [piece = state.reductions.back()]() mutable { piece.wait(); });
  state.reductions.push_back(replicas.all_reduce(state.sum, kGradients));
}

void DataParallel::end_micro_batch() {
  const at::NoGradGuard no_grad;
  for (const auto& state : states_) close(*state);
  reduce_ready();
  if (reduces_now()) return;
  for (const auto& state : states_) {
    if (!state->plan.trained || !options_.same_bits) continue;
    state->kept.push_back(flat_gradient(*state));
    state->gradient.reset();
  }
}

std::vector<at::Tensor> DataParallel::gradients() {
  for (const auto& state : states_) {
    for (auto& reduction : state->reductions) reduction.wait();
    state->reductions.clear();
    if (options_.zero == 0 && options_.wire != at::ScalarType::Undefined && state->sum.defined())
      state->sum = state->sum.to(count_ > 1 || options_.same_bits ? at::kFloat : state->plan.type);
  }
  end_pass();
  std::vector<at::Tensor> list;
  if (options_.zero == 0) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      const auto& tensor = weights_[i].tensor;
      if (!tensor.requires_grad()) continue;
      const auto [state, place] = place_of_[i];
      list.push_back(state->sum.narrow(0, state->plan.places[place].begin, tensor.numel()).view(tensor.sizes()));
    }
    return list;
  }
  for (const auto& state : states_) {
    if (!state->plan.trained) continue;
    for (const Slice& slice : slices_of(state->plan, weights_, reductions_.rank()))
      list.push_back(state->sum.narrow(0, slice.at, slice.count));
  }
  return list;
}

void DataParallel::drop_gradients() {
  for (const auto& weight : weights_) weight.tensor.mutable_grad().reset();
  for (const auto& state : states_) {
    state->gradient.reset();
    state->kept.clear();
    state->sum.reset();
  }
}

// Of whole weights in their own order, as one rank alone would find it.
at::Tensor DataParallel::whole_norm() {
  std::vector<at::Tensor> list(weights_.size());
  for (const auto& state : states_) {
    if (!state->plan.trained) continue;
    const auto flat = at::empty({state->plan.length}, state->sum.options());
    reductions_.all_gather(flat, state->sum, kGradients).wait();
    for (const Place& place : state->plan.places) {
      const auto& weight = weights_[place.weight].tensor;
      list[place.weight] = flat.narrow(0, place.begin, weight.numel()).view(weight.sizes());
    }
  }
  std::erase_if(list, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return optim::clip_factor(list, 0).norm;
}

optim::ClipResult DataParallel::clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale,
                                     at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  if (options_.zero == 0 || options_.same_bits) {
    const auto sum = loss.to(at::kFloat).reshape({1}).clone();
    reductions_.all_reduce(sum, "loss").wait();
    loss = sum[0];
    if (options_.zero == 0) return optim::clip_factor(gradients, limit, loss_scale);
    return optim::clip_to(whole_norm().div_(loss_scale), limit, loss_scale);
  }
  const auto square = gradients.empty() ? loss.to(at::kFloat).mul(0) : optim::clip_factor(gradients, 0).norm.square();
  const auto both = at::stack({loss.to(at::kFloat), square});
  reductions_.all_reduce(both, "loss and norm").wait();
  if (options_.replicas != nullptr) {
    const auto sum = both.narrow(0, 0, 1).clone();
    options_.replicas->all_reduce(sum, "loss").wait();
    both[0].copy_(sum[0]);
  }
  loss = both[0];
  return optim::clip_to(both[1].sqrt().div_(loss_scale), limit, loss_scale);
}

void DataParallel::updated() {
  drop_gradients();
  for (const auto& state : states_) state->secondary.reset();
  if (options_.zero == 0 || options_.zero == 3) return;
  for (const auto& state : states_) state->gathering = gathers_.all_gather(state->full, state->shard, kWeights);
}

void DataParallel::hold() {
  ++held_;
  for (const auto& state : states_) {
    if (options_.zero == 3) fetch(*state);
    state->gathering.wait();
  }
}

void DataParallel::let_go() {
  --held_;
  end_pass();
}

DataParallel::Bytes DataParallel::bytes(int64_t micro_batches) const {
  Bytes bytes;
  for (const auto& weight : weights_)
    if (options_.zero < 3) bytes.weights += static_cast<int64_t>(weight.tensor.nbytes());
  for (const auto& state : states_) {
    if (options_.zero == 3) bytes.weights += static_cast<int64_t>(state->shard.nbytes());
    if (!state->plan.trained) continue;
    const auto own = static_cast<int64_t>(c10::elementSize(state->plan.type));
    const bool wide = micro_batches > 1 || options_.same_bits;
    bytes.gradients += options_.zero >= 2 ? 4 * state->plan.piece : (wide ? 4 : own) * state->plan.length;
  }
  return bytes;
}

}  // namespace hyperion::parallel
