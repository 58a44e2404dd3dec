#include "hyperion/optim/update.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>

#include <array>
#include <bit>
#include <cstring>

#include "hyperion/device/graph.h"
#include "hyperion/kernels/typed.h"
#include "hyperion/optim/update_math.h"

namespace hyperion::optim {

using kernels::on_gpu;
using kernels::pointer;
using kernels::stream_of;
using kernels::with_type;

namespace {

constexpr size_t kEntryWords = sizeof(UpdateEntry) / sizeof(int64_t);
static_assert(sizeof(UpdateEntry) % sizeof(int64_t) == 0 && sizeof(UpdateChunk) == sizeof(int64_t));

bool dense(const at::Tensor& tensor) { return tensor.is_non_overlapping_and_dense(); }

std::map<std::pair<at::ScalarType, at::ScalarType>, std::vector<UpdateTensors>> by_types(
    const std::vector<UpdateTensors>& tensors) {
  std::map<std::pair<at::ScalarType, at::ScalarType>, std::vector<UpdateTensors>> groups;
  for (const auto& t : tensors) {
    for (const auto& other : {t.master, t.first, t.weight})
      HYPERION_CHECK(dense(t.gradient) && laid_out_alike(other, t.gradient),
                     "an update takes dense tensors of one layout");
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

bool laid_out_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t side = 0; side < a.dim(); ++side)
    if (a.size(side) > 1 && a.stride(side) != b.stride(side)) return false;
  return true;
}

void Updates::write(at::Device device, std::span<const float> numbers, kernels::SmallWrites& writes) {
  if (!device.is_cuda()) return;
  if (!numbers_.defined()) numbers_ = at::empty({16}, at::TensorOptions(device).dtype(at::kFloat));
  writes.set(numbers_, numbers);
}

void Updates::set(at::Device device, const AdamWStep& n, kernels::SmallWrites& writes) {
  adamw_numbers_ = n, sgd_ = false;
  write(device, std::array{n.lr, n.beta1, n.beta2, n.epsilon, n.decay, n.correction1, n.correction2}, writes);
}

void Updates::set_sgd(at::Device device, float lr, float momentum, kernels::SmallWrites& writes) {
  lr_ = lr, momentum_ = momentum, sgd_ = true;
  write(device, std::array{lr, momentum}, writes);
}

// Addresses seldom change from step to step, and never in a graph: the device's copy is renewed only where they did.
UpdateTable Updates::table(std::map<Types, Table>& tables, Types types, const std::vector<UpdateTensors>& tensors) {
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
  const auto raw = [&] {
    const auto* all = pointer<int64_t>(table.on_device);
    return UpdateTable{reinterpret_cast<const UpdateEntry*>(all),
                       reinterpret_cast<const UpdateChunk*>(all + table.chunk_words), table.chunks};
  };
  if (table.words == words) return raw();
  table.chunks = static_cast<int64_t>(words.size() - chunk_words);
  table.chunk_words = chunk_words;
  const auto length = static_cast<int64_t>(words.size());
  if (!table.on_device.defined() || table.on_device.numel() != length) {
    HYPERION_CHECK(!device::recording(), "a graph's tables are made before it is recorded");
    table.on_device = at::empty({length}, at::TensorOptions(tensors[0].gradient.device()).dtype(at::kLong));
  }
  table.words = std::move(words);
  // Pinned memory must be neither taken nor left while a graph records: its allocator watches the stream by events.
  device::once_recorded([&table, words = table.words, to = table.on_device]() mutable {
    table.on_host = at::empty({to.numel()}, at::TensorOptions(at::kLong).pinned_memory(true));
    std::memcpy(table.on_host.data_ptr(), words.data(), words.size() * sizeof(int64_t));
    to.copy_(table.on_host, /*non_blocking=*/true);
  });
  return raw();
}

void Updates::renew_tables() {
  for (auto* tables : {&updates_, &gradients_})
    for (auto& [types, table] : *tables) {
      kept_.push_back(table.on_device);
      table.on_device = at::empty_like(table.on_device);
      table.words.clear();
    }
}

void Updates::adamw(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale) {
  if (tensors.empty()) return;
  if (!tensors[0].master.is_cuda()) {
    for (const auto& t : tensors) {
      AdamWStep numbers = adamw_numbers_;
      numbers.decay = t.decay;
      optim::adamw(t, scale, numbers);
    }
    return;
  }
  for (const auto& [types, group] : by_types(tensors)) {
    const UpdateTable raw = table(updates_, types, group);
    with_types(types.first, types.second, [&]<class W, class G>(W, G) {
      on_gpu([&] {
        adamw_all_gpu<W, G>(
            raw, {pointer<float>(scale), pointer<const AdamWNumbers>(numbers_), pointer<const LossScaleState>(state_)},
            stream_of(scale));
      });
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
    const UpdateTable raw = table(updates_, types, group);
    with_types(types.first, types.second, [&]<class W, class G>(W, G) {
      on_gpu([&] {
        sgd_all_gpu<W, G>(
            raw, {pointer<float>(scale), pointer<const SgdNumbers>(numbers_), pointer<const LossScaleState>(state_)},
            stream_of(scale));
      });
    });
  }
}

ClipFactor Updates::clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale) {
  std::map<at::ScalarType, std::vector<UpdateTensors>> groups;
  for (const auto& gradient : gradients) {
    UpdateTensors one;
    one.gradient = gradient;
    HYPERION_CHECK(dense(gradient), "the norm takes dense gradients");
    groups[gradient.scalar_type()].push_back(std::move(one));
  }
  int64_t chunks = 0;
  std::vector<std::pair<at::ScalarType, UpdateTable>> parts;
  for (const auto& [type, group] : groups) {
    parts.emplace_back(type, table(gradients_, {type, type}, group));
    chunks += parts.back().second.count;
  }
  const auto fp32 = gradients[0].options().dtype(at::kFloat);
  const auto partial = at::empty({chunks}, fp32), found = at::empty({2}, fp32);
  float* next = pointer<float>(partial);
  for (const auto& [type, part] : parts) {
    with_type(type,
              [&, raw = part]<class G>(G) { on_gpu([&] { squares_all_gpu<G>(raw, next, stream_of(partial)); }); });
    next += part.count;
  }
  auto* corrected = sgd_ || !state_.defined() ? nullptr : pointer<AdamWNumbers>(numbers_);
  on_gpu([&] {
    clip_factor_gpu(pointer<float>(partial), chunks,
                    {static_cast<float>(limit), static_cast<float>(loss_scale), pointer<LossScaleState>(state_),
                     corrected, grow_after_},
                    pointer<float>(found), pointer<float>(found) + 1, stream_of(partial));
  });
  return {found[0], found[1]};
}

void Updates::scale_on_device(at::Device device, const LossScaleState& state, int32_t grow_after) {
  const auto host = at::empty({4}, at::kInt);
  static_assert(sizeof state == 4 * sizeof(int32_t));
  std::memcpy(host.data_ptr(), &state, sizeof state);
  state_ = state_.defined() ? state_.copy_(host) : host.to(device);  // a graph may hold its address
  grow_after_ = grow_after;
}

at::Tensor Updates::loss_scale() const { return state_.view(at::kFloat)[0]; }

LossScaleState Updates::read(const at::Tensor& state) {
  LossScaleState out;
  const auto host = state.cpu();
  std::memcpy(&out, host.const_data_ptr(), sizeof out);
  return out;
}

}  // namespace hyperion::optim
