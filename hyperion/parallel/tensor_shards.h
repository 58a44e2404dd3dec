// Tensor parallelism over a group (nn/processes.h): what enters and leaves layers that are cut among its processes.
#pragma once
#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"

namespace hyperion::parallel {

// Products of many rows are made in up to four pieces of this many or more, so that all but one travel beside another.
constexpr int64_t kRowsAtOnce = 512;

class HiddenStates final : public nn::Travel {
 public:
  HiddenStates(comm::Group& group, bool by_sequence) : group_(group), by_sequence_(by_sequence) {}
  int64_t parts() const override { return by_sequence_ ? group_.size() : 1; }
  Finish sum(const at::Tensor& out, const kernels::Gemm& product, nn::Sent sent) override;
  Gathered gather(const at::Tensor& own, const kernels::Gemm& product, nn::Sent sent) override;

 private:
  Finish sum_of_parts(const at::Tensor& out, const kernels::Gemm& product, const char* caller);
  at::Tensor gather_parts(const at::Tensor& given, const kernels::Gemm& product, const at::Tensor& out,
                          const char* caller);

  comm::Group& group_;
  bool by_sequence_;
};

class TensorShards final : public nn::Shards {
 public:
  // A group of its own: its calls fall between others' at places that only the backward knows.
  explicit TensorShards(comm::Group& group) : group_(group), whole_(group, false), by_sequence_(group, true) {}
  int64_t count() const override { return group_.size(); }
  int64_t index() const override { return group_.rank(); }
  nn::Travel& travel(bool by_sequence) override { return by_sequence ? by_sequence_ : whole_; }
  at::Tensor into(const at::Tensor& hidden, bool by_sequence) override;
  at::Tensor out_of(const at::Tensor& part, bool by_sequence) override;
  at::Tensor gather(const at::Tensor& own) override;

 private:
  comm::Group& group_;
  HiddenStates whole_, by_sequence_;
};

}  // namespace hyperion::parallel
