// Expert parallelism over a group (nn/processes.h): what its processes send each other.
#pragma once
#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/nn/processes.h"

namespace hyperion::parallel {

class ExpertWires final : public nn::ExpertPeers {
 public:
  // A group of its own: its calls fall between others' at places that only the backward knows.
  explicit ExpertWires(comm::Group& group) : group_(group) {}
  int64_t count() const override { return group_.size(); }
  int64_t index() const override { return group_.rank(); }
  at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& sent, const std::vector<int64_t>& received,
                      const char* caller) override;

 private:
  comm::Group& group_;
};

}  // namespace hyperion::parallel
