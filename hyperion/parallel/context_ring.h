// Context parallelism over a group (nn/processes.h): what its processes bring each other.
#pragma once
#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"

namespace hyperion::parallel {

class ContextRing final : public nn::Context {
 public:
  // A group of its own: its calls fall between others' at places that only the backward knows.
  ContextRing(comm::Group& group, strategy::ContextMethod method) : group_(group), method_(method) {}
  int64_t count() const override { return group_.size(); }
  int64_t index() const override { return group_.rank(); }
  strategy::ContextMethod method() const override { return method_; }
  Answer pass_on(const at::Tensor& own, const char* caller) override;
  at::Tensor exchange(const at::Tensor& for_each, const char* caller) override;
  at::Tensor sum(const at::Tensor& own, const char* caller) override;

 private:
  comm::Group& group_;
  strategy::ContextMethod method_;
};

}  // namespace hyperion::parallel
