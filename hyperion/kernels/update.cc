#include "hyperion/kernels/update.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <bit>
#include <cstring>

#include "hyperion/kernels/graph.h"
#include "hyperion/kernels/typed.h"
#include "hyperion/kernels/update_math.h"

namespace hyperion::kernels {
namespace {

constexpr size_t kEntryWords = sizeof(UpdateEntry) / sizeof(int64_t);
static_assert(sizeof(UpdateEntry) % sizeof(int64_t) == 0 && sizeof(UpdateChunk) == sizeof(int64_t));

std::map<std::pair<at::ScalarType, at::ScalarType>, std::vector<UpdateTensors>> by_types(
    const std::vector<UpdateTensors>& tensors) {
  std::map<std::pair<at::ScalarType, at::ScalarType>, std::vector<UpdateTensors>> groups;
  for (const auto& t : tensors) {
    HYPERION_CHECK(t.gradient.is_contiguous() && t.master.is_contiguous(), "an update takes contiguous tensors");
    HYPERION_CHECK(t.gradient.scalar_type() == at::kFloat || t.gradient.scalar_type() == t.weight.scalar_type(),
                   "a gradient is fp32 or of its weight's type");
    groups[{t.weight.scalar_type(), t.gradient.scalar_type()}].push_back(t);
  }
  return groups;
}

// use(weight type, gradient type)
template <class Use>
void with_types(at::ScalarType weight, at::ScalarType gradient, Use use) {
  if (weight == at::kFloat) return use(float{}, float{});
  with_type(weight, [&]<class W>(W w) {
    if constexpr (sizeof(W) == 2) gradient == at::kFloat ? use(w, float{}) : use(w, w);
  });
}

}  // namespace

void Updates::set(at::Device device, const AdamWStep& numbers) {
  adamw_numbers_ = numbers;
  if (!device.is_cuda()) return;
  if (!numbers_.defined()) numbers_ = at::empty({16}, at::TensorOptions(device).dtype(at::kFloat));
  const FewFloats values{{numbers.lr, numbers.beta1, numbers.beta2, numbers.epsilon, numbers.decay, numbers.correction1,
                          numbers.correction2}};
  set_floats_gpu(pointer<float>(numbers_), values, 7, current_gpu_stream(device.index()));
}

void Updates::set_sgd(at::Device device, float lr, float momentum) {
  lr_ = lr, momentum_ = momentum;
  if (!device.is_cuda()) return;
  if (!numbers_.defined()) numbers_ = at::empty({16}, at::TensorOptions(device).dtype(at::kFloat));
  set_floats_gpu(pointer<float>(numbers_), FewFloats{{lr, momentum}}, 2, current_gpu_stream(device.index()));
}

// Addresses seldom change from step to step, and never in a graph: the device's copy is renewed only where they did.
const Updates::Table& Updates::table(std::map<Types, Table>& tables, Types types,
                                     const std::vector<UpdateTensors>& tensors) {
  std::vector<int64_t> words(tensors.size() * kEntryWords);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& t = tensors[i];
    const bool narrow = t.weight.defined() && !t.weight.is_same(t.master);
    const UpdateEntry entry{pointer<float>(t.master),
                            pointer<float>(t.first),
                            pointer<float>(t.second),
                            narrow ? t.weight.data_ptr() : nullptr,
                            t.gradient.const_data_ptr(),
                            t.gradient.numel(),
                            t.decay};
    std::memcpy(&words[i * kEntryWords], &entry, sizeof entry);
  }
  const size_t chunk_words = words.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t chunks = (tensors[i].gradient.numel() + kUpdateChunk - 1) / kUpdateChunk;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      words.push_back(std::bit_cast<int64_t>(UpdateChunk{static_cast<int32_t>(i), static_cast<int32_t>(chunk)}));
  }
  Table& table = tables[types];
  if (table.words == words) return table;
  table.chunks = static_cast<int64_t>(words.size() - chunk_words);
  table.chunk_words = chunk_words;
  const auto device = tensors[0].gradient.device();
  table.on_host = at::empty({static_cast<int64_t>(words.size())}, at::TensorOptions(at::kLong).pinned_memory(true));
  std::memcpy(table.on_host.data_ptr(), words.data(), words.size() * sizeof(int64_t));
  table.on_device = at::empty({table.on_host.numel()}, at::TensorOptions(device).dtype(at::kLong));
  table.words = std::move(words);
  once_recorded([to = table.on_device, from = table.on_host]() mutable { to.copy_(from, /*non_blocking=*/true); });
  return table;
}

void Updates::adamw(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale) {
  if (tensors.empty()) return;
  if (!tensors[0].master.is_cuda()) {
    for (const auto& t : tensors) {
      AdamWStep numbers = adamw_numbers_;
      numbers.decay = t.decay;
      kernels::adamw(t.master, t.first, t.second, t.weight, t.gradient, scale, numbers);
    }
    return;
  }
  for (const auto& [types, group] : by_types(tensors)) {
    const Table& all = table(updates_, types, group);
    const auto* words = pointer<int64_t>(all.on_device);
    const UpdateTable raw{reinterpret_cast<const UpdateEntry*>(words),
                          reinterpret_cast<const UpdateChunk*>(words + all.chunk_words), all.chunks};
    with_types(types.first, types.second, [&]<class W, class G>(W, G) {
      adamw_all_gpu<W, G>(raw, pointer<float>(scale), reinterpret_cast<const AdamWNumbers*>(pointer<float>(numbers_)),
                          stream_of(scale));
    });
  }
}

void Updates::sgd(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale) {
  if (tensors.empty()) return;
  if (!tensors[0].master.is_cuda()) {
    for (const auto& t : tensors) {
      at::Tensor(t.first).mul_(momentum_).add_(t.gradient.to(at::kFloat).mul(scale));
      if (t.decay != 0) at::Tensor(t.master).mul_(1 - lr_ * t.decay);
      at::Tensor(t.master).add_(t.first, -lr_);
      if (!t.weight.is_same(t.master)) at::Tensor(t.weight).copy_(t.master);
    }
    return;
  }
  for (const auto& [types, group] : by_types(tensors)) {
    const Table& all = table(updates_, types, group);
    const auto* words = pointer<int64_t>(all.on_device);
    const UpdateTable raw{reinterpret_cast<const UpdateEntry*>(words),
                          reinterpret_cast<const UpdateChunk*>(words + all.chunk_words), all.chunks};
    with_types(types.first, types.second, [&]<class W, class G>(W, G) {
      sgd_all_gpu<W, G>(raw, pointer<float>(scale), reinterpret_cast<const SgdNumbers*>(pointer<float>(numbers_)),
                        stream_of(scale));
    });
  }
}

ClipFactor Updates::clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale) {
  std::map<at::ScalarType, std::vector<UpdateTensors>> groups;
  for (const auto& gradient : gradients) {
    UpdateTensors one;
    one.gradient = gradient;
    HYPERION_CHECK(gradient.is_contiguous(), "the norm takes contiguous gradients");
    groups[gradient.scalar_type()].push_back(std::move(one));
  }
  int64_t chunks = 0;
  for (const auto& [type, group] : groups) chunks += table(gradients_, {type, type}, group).chunks;
  const auto fp32 = gradients[0].options().dtype(at::kFloat);
  const auto partial = at::empty({chunks}, fp32), found = at::empty({2}, fp32);
  int64_t first = 0;
  for (const auto& [type, group] : groups) {
    const Table& all = gradients_.at({type, type});
    const auto* words = pointer<int64_t>(all.on_device);
    const UpdateTable raw{reinterpret_cast<const UpdateEntry*>(words),
                          reinterpret_cast<const UpdateChunk*>(words + all.chunk_words), all.chunks};
    with_type(type, [&]<class G>(G) { squares_all_gpu<G>(raw, pointer<float>(partial) + first, stream_of(partial)); });
    first += all.chunks;
  }
  clip_factor_gpu(pointer<float>(partial), chunks, static_cast<float>(limit), static_cast<float>(loss_scale),
                  pointer<float>(found), pointer<float>(found) + 1, stream_of(partial));
  return {found[0], found[1]};
}

}  // namespace hyperion::kernels
