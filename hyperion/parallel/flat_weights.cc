#include "hyperion/parallel/flat_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <tuple>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/nn/meta.h"
#include "hyperion/nn/module.h"
#include "hyperion/nn/projection.h"
#include "hyperion/optim/update.h"

namespace hyperion::parallel {
namespace {

// The blocks in the order they run, from 1; and to which of them each weight belongs, 0: to none.
std::pair<std::map<const nn::Module*, int>, std::vector<int>> number_units(const std::vector<nn::Parameter>& weights,
                                                                           nn::Module* root) {
  std::map<const nn::Module*, int> units;
  std::map<const void*, int> unit_of;
  std::vector<int> of_weights(weights.size());
  if (root == nullptr) return {units, of_weights};
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
  for (size_t i = 0; i < weights.size(); ++i)
    if (const auto found = unit_of.find(weights[i].tensor.unsafeGetTensorImpl()); found != unit_of.end())
      of_weights[i] = found->second;
  return {units, of_weights};
}

}  // namespace

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

at::Tensor master_of(const at::Tensor& weight, const at::Tensor& wide) {
  if (weight.scalar_type() == at::kFloat) return weight;
  if (optim::laid_out_alike(weight, wide)) return wide;
  return weight.detach().to(at::kFloat).copy_(wide);  // a model on a GPU may have laid its weights out anew
}

FlatWeights::FlatWeights(std::vector<nn::Parameter> weights, nn::Module* root, const Options& options)
    : weights_(std::move(weights)), options_(options) {
  const at::NoGradGuard no_grad;
  const bool pieces = options.held == Held::pieces;
  std::vector<int> units;
  std::tie(units_, units) = number_units(weights_, root);
  for (const auto& weight : weights_) taken_over_ += static_cast<int64_t>(weight.tensor.nbytes());
  place_of_.resize(weights_.size());
  for (auto& plan : plan_buckets(weights_, units, {options.ranks, pieces, options.bucket_bytes, options.alone})) {
    for (size_t i = 0; i < plan.places.size(); ++i) place_of_[plan.places[i].weight] = {buffers_.size(), i};
    buffers_.push_back({std::move(plan), {}, {}});
  }
  std::vector<at::Tensor> wide(buffers_.size());  // of weights that came without memory this rank's piece in fp32
  for (size_t i = 0; i < buffers_.size() && options.held != Held::apart; ++i) {
    const auto& places = buffers_[i].plan.places;
    const bool there = std::all_of(places.begin(), places.end(), [&](const Place& place) {
      return nn::is_materialized(weights_[place.weight].tensor);
    });
    if (there || !pieces)
      adopt(buffers_[i]);
    else
      wide[i] = fill(buffers_[i]);
  }
  make_parts(wide);
  for (auto& weight : weights_) weight.master.reset();
}

// The master of a cut weight is its slice of the whole's values, copied, so that the whole's memory goes.
void FlatWeights::make_parts(const std::vector<at::Tensor>& wide) {
  if (options_.held == Held::apart) {
    for (const auto& weight : weights_)
      if (weight.tensor.requires_grad()) {
        parts_.push_back(weight);
        parts_.back().master = master_of(weight.tensor, weight.master);
      }
    return;
  }
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].plan.trained) continue;
    for (const Slice& slice : slices_of(buffers_[i].plan, weights_, options_.rank)) {
      const nn::Parameter& weight = weights_[slice.weight];
      nn::Parameter part{weight.name, buffers_[i].piece.narrow(0, slice.at, slice.count), weight.traits};
      part.placement = weight.placement, part.placement.begin = slice.begin, part.summed = weight.summed;
      if (part.placement.whole.empty()) part.placement.whole = weight.tensor.sizes().vec();
      part.master = part.tensor.scalar_type() == at::kFloat ? part.tensor
                    : wide[i].defined()                     ? wide[i].narrow(0, slice.at, slice.count)
                                        : weight.master.reshape(-1).narrow(0, slice.begin, slice.count).clone();
      parts_.push_back(std::move(part));
    }
  }
}

int FlatWeights::unit_of(const nn::Module& block) const {
  const auto found = units_.find(&block);
  return found == units_.end() ? 0 : found->second;
}

int FlatWeights::last_unit() const {
  int last = 0;
  for (const auto& buffer : buffers_) last = std::max(last, buffer.plan.unit);
  return last;
}

void FlatWeights::adopt(FlatBuffer& buffer) {
  const auto options = weights_[buffer.plan.places.front().weight].tensor.options().requires_grad(false);
  buffer.full = at::zeros({buffer.plan.length}, options);
  for (const Place& place : buffer.plan.places) {
    at::Tensor& weight = weights_[place.weight].tensor;
    const auto view = buffer.full.narrow(0, place.begin, weight.numel()).view(weight.sizes());
    view.copy_(weight.detach());
    weight.set_data(view);
  }
  buffer.piece = buffer.full.narrow(0, options_.rank * buffer.plan.piece, buffer.plan.piece);
  if (options_.held != Held::pieces) return;
  buffer.piece = buffer.piece.clone();
  give_memory_back(buffer.full);
}

// Of a buffer whose weights, some or all, have no memory: only our own piece ever gets any. Returns it in fp32 too,
// where it is narrower and trained.
at::Tensor FlatWeights::fill(FlatBuffer& buffer) {
  constexpr int64_t kAtOnce = 1 << 20;
  const auto options = weights_[buffer.plan.places.front().weight].tensor.options().requires_grad(false);
  at::Tensor wide;
  buffer.piece = at::zeros({buffer.plan.piece}, options);
  if (buffer.plan.trained && buffer.plan.type != at::kFloat)
    wide = at::zeros({buffer.plan.piece}, options.dtype(at::kFloat));
  for (const Slice& slice : slices_of(buffer.plan, weights_, options_.rank)) {
    const nn::Parameter& weight = weights_[slice.weight];
    const bool there = nn::is_materialized(weight.tensor);
    HYPERION_CHECK(there || options_.values, "nothing tells the values of " + weight.name);
    for (int64_t done = 0; done < slice.count; done += kAtOnce) {
      const int64_t count = std::min(kAtOnce, slice.count - done);
      const auto values = there ? weight.tensor.detach().reshape(-1).narrow(0, slice.begin + done, count)
                                : at::empty({count}, at::kFloat);
      if (!there) options_.values(weight.name, slice.begin + done, values);
      buffer.piece.narrow(0, slice.at + done, count).copy_(values);
      if (wide.defined()) wide.narrow(0, slice.at + done, count).copy_(values);
    }
  }
  buffer.full = at::empty({buffer.plan.length}, options);  // a view wants memory to be there, if never touched
  for (const Place& place : buffer.plan.places) {
    at::Tensor& weight = weights_[place.weight].tensor;
    weight.set_data(buffer.full.narrow(0, place.begin, weight.numel()).view(weight.sizes()));
  }
  give_memory_back(buffer.full);
  return wide;
}

std::vector<at::Tensor> FlatWeights::by_weight(const std::vector<at::Tensor>& flat) const {
  std::vector<at::Tensor> list;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const auto& tensor = weights_[i].tensor;
    if (!tensor.requires_grad()) continue;
    const auto [buffer, place] = place_of_[i];
    list.push_back(
        flat[buffer].narrow(0, buffers_[buffer].plan.places[place].begin, tensor.numel()).view(tensor.sizes()));
  }
  return list;
}

std::vector<at::Tensor> FlatWeights::by_part(const std::vector<at::Tensor>& flat) const {
  if (options_.held == Held::apart) return by_weight(flat);
  std::vector<at::Tensor> list;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].plan.trained) continue;
    for (const Slice& slice : slices_of(buffers_[i].plan, weights_, options_.rank))
      list.push_back(flat[i].narrow(0, slice.at, slice.count));
  }
  return list;
}

int64_t FlatWeights::bytes() const {
  int64_t sum = 0;
  if (options_.held == Held::pieces) {
    for (const auto& buffer : buffers_) sum += static_cast<int64_t>(buffer.piece.nbytes());
  } else {
    for (const auto& weight : weights_) sum += static_cast<int64_t>(weight.tensor.nbytes());
  }
  return sum;
}

}  // namespace hyperion::parallel
