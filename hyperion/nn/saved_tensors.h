// Decides what autograd keeps of each tensor an operation saves for its backward. LibTorch asks the engine for hooks
// at every save; ours answers from a stack of policies, one stack a thread. Without a scope open nothing changes.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_set>
#include <vector>

namespace hyperion::nn {

// What stands in the graph for one saved tensor; it dies with the graph's node. A GPU's backward runs in a thread of
// its own, so both calls may come from any thread.
class SavedTensor {
 public:
  virtual ~SavedTensor() = default;
  // The tensor's values, without history. Comes more than once where the graph is retained.
  virtual at::Tensor unpack() = 0;
};

class SaveScope;

class SavePolicy {
 public:
  virtual ~SavePolicy() = default;
  // Null: not this policy's; the one below is asked, and under the last the tensor is kept. `scope` is this policy's.
  // A policy must not hold `tensor` itself, whose history may be the node that saves it: keep() is the way.
  virtual std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope& scope) = 0;
  virtual void enter_block() {}  // the network's next block begins
};

// Puts a policy on top of this thread's stack until the end of the scope; the policy must live as long.
class SaveScope {
 public:
  explicit SaveScope(SavePolicy& policy);
  ~SaveScope();
  SaveScope(const SaveScope&) = delete;
  SaveScope& operator=(const SaveScope&) = delete;

  static const SaveScope* top();  // null: none open in this thread
  SavePolicy& policy() const { return policy_; }
  const SaveScope* below() const { return below_; }

 private:
  SavePolicy& policy_;
  const SaveScope* below_;
};

// What the stack from `from` down makes of the tensor.
std::unique_ptr<SavedTensor> save(const at::Tensor& tensor, const SaveScope* from);

// Keeps the tensor as it is; unpack throws base::Error where it was changed in place since, as autograd itself does.
std::unique_ptr<SavedTensor> keep(const at::Tensor& tensor);
[[noreturn]] void refuse_changed_tensor();

void enter_block();  // tells every policy of this thread

// A leaf that gathers gradients, or a view of one: in memory anyway, so nothing is won by dropping or moving it.
bool is_parameter(const at::Tensor& tensor);

// Tensors that stay in memory whatever is saved: parameters, frozen ones too, and buffers. Known by their storages.
class Residents {
 public:
  Residents() = default;
  explicit Residents(const std::vector<at::Tensor>& tensors);
  bool contains(const at::Tensor& tensor) const;  // or is_parameter

 private:
  std::unordered_set<const void*> storages_;
};

}  // namespace hyperion::nn
