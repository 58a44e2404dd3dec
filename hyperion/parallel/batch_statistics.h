// Batch norm over processes (what others call SyncBatchNorm): hang one into nn::Pass::across.
#pragma once
#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"

namespace hyperion::parallel {

class BatchStatistics final : public nn::BatchStats {
 public:
  // A group of its own: its calls fall between others' at places that only the backward knows.
  explicit BatchStatistics(comm::Group& group) : group_(group) {}
  int64_t count() const override { return group_.size(); }
  at::Tensor gather(const at::Tensor& own) override;

 private:
  comm::Group& group_;
};

}  // namespace hyperion::parallel
