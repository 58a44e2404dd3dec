// Activation offload: what autograd saves goes to host memory (pinned, where the device is a GPU) on a stream beside
// the computation, and comes back in the backward ahead of its use. On the CPU the same path makes plain copies.
#pragma once
#include <c10/core/StorageImpl.h>

#include <unordered_map>

#include "hyperion/nn/saved_tensors.h"

namespace hyperion::nn {

class OffloadedStorage;

// The storages of one block's saved tensors, in the order they were saved.
struct OffloadGroup {
  std::vector<std::weak_ptr<OffloadedStorage>> storages;
  std::shared_ptr<OffloadGroup> before;
};

// One forward pass: make one for each, open its scope around the forward. A storage is moved whole and once, however
// many saved tensors look into it. A block's device memory is given back when the second block after it begins, once
// its copies are done; so the last two blocks never leave the device, and two at most are under way. In the backward
// the first use of a block's tensor fetches that block and starts fetching the one before.
class OffloadPolicy final : public SavePolicy {
 public:
  struct Options {
    int64_t least_bytes = 1 << 20;  // smaller storages stay
  };
  explicit OffloadPolicy(Options options, Residents residents = {});
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope& scope) override;
  void enter_block() override;
  int64_t bytes() const { return bytes_; }  // copied to the host so far

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // weak: the address is not given away while this stands
    int64_t version;
    std::weak_ptr<OffloadedStorage> copy;
  };
  std::shared_ptr<OffloadedStorage> copy_of(const at::Tensor& tensor);

  Options options_;
  Residents residents_;
  std::unordered_map<const void*, Known> known_;
  std::shared_ptr<OffloadGroup> group_;  // of the block that runs now
  int64_t bytes_ = 0;
};

}  // namespace hyperion::nn
