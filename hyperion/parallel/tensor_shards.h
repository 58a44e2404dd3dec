// Tensor parallelism over a group (nn/processes.h): what enters and leaves layers that are cut among its processes.
#pragma once
#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"

namespace hyperion::parallel {

class TensorShards final : public nn::Shards {
 public:
  // A group of its own: its calls fall between others' at places that only the backward knows.
  explicit TensorShards(comm::Group& group) : group_(group) {}
  int64_t count() const override { return group_.size(); }
  int64_t index() const override { return group_.rank(); }
  at::Tensor into(const at::Tensor& hidden, bool by_sequence) override;
  at::Tensor out_of(const at::Tensor& part, bool by_sequence) override;
  at::Tensor gather(const at::Tensor& own) override;

 private:
  comm::Group& group_;
};

}  // namespace hyperion::parallel
