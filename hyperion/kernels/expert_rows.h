// Tokens brought to their experts and back: rows sorted by expert, copied there and summed on the way home. Sums run in
// a fixed order, and nothing waits for the device.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

struct ExpertPlaces {
  at::Tensor row_of;   // int32 [tokens, choices]: the row each copy goes to; -1: dropped
  at::Tensor slot_of;  // int32 [rows]: token * choices + choice; -1: a row of zeros
  at::Tensor ends;     // int32 [experts]: the row after each expert's last
  bool full;           // no row of zeros
};

struct Capacity {
  // Rows of each expert: of a longer queue the first, a shorter one filled up with zeros; 0: all that come.
  int64_t rows = 0;
  // int32, one number on the choices' device: an expert takes no more than so many; undefined: `rows`.
  at::Tensor limit = {};
};

// chosen: int64 [tokens, choices], each below `experts`; with a capacity also -1, which takes no row. Rows of expert 0
// first, and within an expert by token.
ExpertPlaces expert_places(const at::Tensor& chosen, int64_t experts, const Capacity& capacity);

// [tokens, width] -> [rows, width]; fp32, bf16 or fp16; differentiable.
at::Tensor to_experts(const at::Tensor& tokens, const ExpertPlaces& places);
// answers [rows, width], weights fp32 [tokens, choices] -> the weighted sums [tokens, width]; differentiable in both.
at::Tensor from_experts(const at::Tensor& answers, const at::Tensor& weights, const ExpertPlaces& places);

}  // namespace hyperion::kernels
