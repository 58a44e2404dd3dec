// Sums over rows that a kernel leaves in parts, as gradients of norms' weights and of biases: added up at once, or,
// while a SumsAtEnd is there, together with others, so that nothing waits for a small launch on the way.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::kernels {

struct PartedSums {
  at::Tensor partial;            // fp32: `parts` rows, in each the sums behind each other
  int64_t parts = 0;             // 0: nothing is left to add
  std::vector<at::Tensor> sums;  // as wide as each other; at most three
};

void add_up(const PartedSums& parted);
// The same, for gradients of leaves: nothing reads them before the pass ends, so that they may wait for it. The first
// of the sums are those of `leaves`, which must hold them by then; of others that are given to one, `will_be_kept`
// tells. A leaf met before in this pass gets the sum of its gradients: then nothing waits.
void add_up_for_leaves(const PartedSums& parted, at::TensorList leaves);
void will_be_kept(const at::Tensor& sums);

// Around a backward pass whose gradients nothing reads on the way: no hooks. Throws where a leaf does not hold what was
// promised to it: it was read before it was there.
class SumsAtEnd {
 public:
  SumsAtEnd();
  ~SumsAtEnd();
  SumsAtEnd(const SumsAtEnd&) = delete;
  SumsAtEnd& operator=(const SumsAtEnd&) = delete;
  void add_up();  // what still waits; at the end of the pass
};

// Whether hooks read the tensor's gradient while the pass still runs.
bool has_gradient_hooks(const at::Tensor& tensor);

}  // namespace hyperion::kernels
