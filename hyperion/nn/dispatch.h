// Bringing tokens to their experts and back, as if all experts lived on one device; where they live on several, rows
// that are sorted so go on to them (nn/expert_exchange.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "hyperion/kernels/expert_rows.h"

namespace hyperion::nn {

// Where each token goes: [tokens, choices], the likeliest expert first.
struct Routing {
  at::Tensor experts;  // int64; with a capacity also -1: nowhere
  at::Tensor weights;  // fp32; what each expert's answer counts
};

struct Dispatched {
  at::Tensor rows;  // [rows, width]: copies of tokens, those of expert 0 first
  at::Tensor ends;  // int32 [experts], on the rows' device: the row after each expert's last
  // The experts' answers [rows, width], weighted and summed for each token: [tokens, width].
  std::function<at::Tensor(const at::Tensor& answers)> combine;
};

class TokenDispatcher {
 public:
  virtual ~TokenDispatcher() = default;
  // Tokens [tokens, width] go to `experts` experts, which queue them in their order. A token that finds no room gets
  // nothing from that expert, and its other weights stay as they are.
  virtual Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts,
                              const kernels::Capacity& capacity) = 0;
};

// Nothing waits for the device, and sums are the same in every run.
class LocalDispatcher final : public TokenDispatcher {
 public:
  Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts,
                      const kernels::Capacity& capacity) override;
};
// The same of PyTorch's operations.
class ReferenceDispatcher final : public TokenDispatcher {
 public:
  Dispatched dispatch(const at::Tensor& tokens, const Routing& routing, int64_t experts,
                      const kernels::Capacity& capacity) override;
};

// Of one layer, int32 [experts + 1]: choices of an expert and of all before it, and behind them those that found no
// room. `chosen` int64 [tokens, choices], and `ends` as they were dispatched.
void count_choices(const at::Tensor& counter, const at::Tensor& chosen, const at::Tensor& ends,
                   const kernels::Capacity& capacity);

}  // namespace hyperion::nn
