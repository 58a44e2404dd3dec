// Matrices in 8 bits with one scale each (Micikevicius et al., 2022), and products of them: what linear linears are
// made of where a run's precision is fp8. Values and weights are e4m3, gradients e5m2. On a GPU a matrix is found,
// measured and rounded in the pass that makes it, in the form or the two forms (as it is, transposed) that its products
// want; elsewhere in plain operations. Sides are multiples of 16; fp8 products of a GPU need compute capability 8.9.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "hyperion/blocks/fp8_options.h"
#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/norm.h"

namespace hyperion::blocks {

// The scales of all linears of a model, three a map, on its device.
class Fp8Scales {
 public:
  enum Part { input, weight, gradient };

  Fp8Scales(int64_t linears, at::Device device, Fp8Options options);

  // After each update: the next step's scales, from what the last ones met. One launch.
  void next_step();
  // fp32 [3 linears]: the largest value of each that this step met; several processes agree on it before `next_step`.
  const at::Tensor& largest() const { return largest_; }

  // fp32 [steps, 3 linears], the newest first: what a checkpoint holds.
  const at::Tensor& history() const { return history_; }
  void history_changed();  // a load wrote to it

 private:
  friend class Fp8Linear;
  void follow(const at::Tensor& largest, bool shift);

  Fp8Options options_;
  at::Tensor scale_, inverse_, largest_, history_;
  bool fresh_ = true;  // nothing was met yet
};

// One of the linears.
class Fp8Linear {
 public:
  Fp8Linear() = default;
  Fp8Linear(Fp8Scales& scales, int64_t index) : scales_(&scales), index_(index) {}
  explicit operator bool() const { return scales_ != nullptr; }
  // As numbers, for a backward to find it again.
  int64_t address() const { return reinterpret_cast<int64_t>(scales_); }
  int64_t index() const { return index_; }

  at::Tensor scale(Fp8Scales::Part part) const;
  at::Tensor inverse(Fp8Scales::Part part) const;  // what gives the values back
  at::Tensor largest(Fp8Scales::Part part) const;
  bool by_rows() const;
  bool measured_first() const;  // whether a matrix's scale must follow the matrix itself

 private:
  Fp8Scales* scales_ = nullptr;
  int64_t index_ = 0;
};

// What a matrix is multiplied with, and what gives its values back; undefined where rows have their own. Kept from a
// forward to its backward: others may be measured between the two.
struct Fp8Factor {
  at::Tensor scale, inverse;
};

struct Fp8Forms {
  bool straight = false, transposed = false, sums = false;
  Fp8Factor factor = {};  // of a matrix made before in this step
};

struct Fp8Matrix {
  at::Tensor straight, transposed;         // [rows, columns] and [columns, rows] in 8 bits, as asked for
  at::Tensor inverse, transposed_inverse;  // of each form: one number, or one a row of it
  at::Tensor sums;                         // of the columns, in the input's type
  Fp8Factor factor = {};
};
// Of [rows, columns].
Fp8Matrix fp8_matrix(const at::Tensor& values, const Fp8Linear& map, Fp8Scales::Part part, const Fp8Forms& forms);
Fp8Matrix fp8_norm(const at::Tensor& input, const kernels::NormWeights& weights,
                   const kernels::NormStatistics& statistics, const Fp8Linear& map, const Fp8Forms& forms);
Fp8Matrix fp8_activation(const at::Tensor& input, kernels::Activation kind, const Fp8Linear& map,
                         const Fp8Forms& forms);
// The gradient of the activation's input, and the activated value again, transposed.
std::pair<at::Tensor, Fp8Matrix> fp8_activation_gradient(const at::Tensor& input, const at::Tensor& upstream,
                                                         kernels::Activation kind, const Fp8Linear& map,
                                                         const Fp8Factor& factor);

// a b^T, a: [rows, k], b: [columns, k], both in 8 bits, with the inverses of their scales; bias and added may be
// undefined, and are of the result's type. `fast` sums in fewer bits.
struct Fp8Gemm {
  at::Tensor a, a_inverse, b, b_inverse;
  at::Tensor bias = {}, added = {};
  bool fast = false;
};
at::Tensor fp8_gemm(const Fp8Gemm& product, at::ScalarType type);

// Whether matrices of these sides can be products of fp8.
bool fp8_fits(int64_t rows, int64_t in, int64_t out);

}  // namespace hyperion::blocks
