// The linears of a transformer's block where their weights are frozen and a change of low rank beside each is trained:
// LoRA (Hu et al., 2021), and QLoRA where the weights are in 4 bits (Dettmers et al., 2023). The changes of linears
// over one input are made together: one product down into all their ranks, one back up, whose matrix has a block a
// linear. As block_ops.h, and keeping the same and the low products: no gradient of a frozen weight is ever made.
//
// A change costs little to compute and much to move: added to a wide output, that is written, read and written again.
// So where a change's matrix lies beside the weight, and its low products beside the weight's input, one product over
// both makes the sum: [x, low] [W, up]^T forward, [above, of low] [W; down] backward.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "hyperion/blocks/travel.h"
#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/nf4.h"
#include "hyperion/kernels/norm.h"

namespace hyperion::blocks {

// scale * dropout(x) A^T B^T
struct LowRank {
  at::Tensor a, b;  // [rank, in], [out, rank]; undefined: there is none
  double scale = 1, dropout = 0;
  kernels::RandomPlace place = {};
};

// Over one input, side by side; see Linears.
struct FrozenLinears {
  std::vector<at::Tensor> weights;   // or, where they are in 4 bits:
  std::vector<kernels::Nf4> packed;  // each made whole where it is needed and dropped again
  std::vector<at::Tensor> biases;
  bool in_out;
  std::vector<LowRank> changes;  // one a linear
  at::Tensor room = {};          // the matrix the weights lie in, see LaidRoom; undefined: they have no room
};

struct RoomBeside {
  int64_t rows = 0, columns = 0;
};
// A matrix that weights [out, in] lie in, one beneath the other, with more rows beneath or more columns behind. They
// may move away again: it keeps no memory alive.
class LaidRoom {
 public:
  LaidRoom() = default;
  LaidRoom(const std::vector<at::Tensor>& weights, RoomBeside room);  // moves them there
  at::Tensor around(const at::Tensor& weight) const;  // undefined where the first of them lies elsewhere by now

 private:
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage_;
  int64_t rows_ = 0, columns_ = 0;
};
// Whether the input's gradient of such a linear is so much wider than what it is made of that rows beneath pay.
inline bool wants_rows_beneath(int64_t in, int64_t out) { return in >= 2 * out; }

std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              const FrozenLinears& linears);
at::Tensor joined_linears(const at::Tensor& input, const FrozenLinears& linears, Travel* travel = nullptr);
at::Tensor summed_linear(const at::Tensor& input, std::optional<kernels::Activation> kind, const FrozenLinears& linears,
                         Travel& travel, bool last_use = false);
at::Tensor linear_residual(const at::Tensor& input, const FrozenLinears& linears, const at::Tensor& residual);
at::Tensor activated_linear_residual(const at::Tensor& input, kernels::Activation kind, const FrozenLinears& linears,
                                     const at::Tensor& residual, bool last_use = false);

}  // namespace hyperion::blocks
