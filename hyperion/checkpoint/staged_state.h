// A copy of a snapshot's tensors on the host, from which it can be written while training changes the live ones. Its
// memory is taken once, and used again by the next.
#pragma once
#include <map>
#include <string>

#include "hyperion/checkpoint/save.h"

namespace hyperion::checkpoint {

class StagedState {
 public:
  // What a copy of these takes of host memory; tensors on a GPU go to pinned memory, which comes in powers of two.
  static uint64_t bytes(const std::vector<nn::Parameter>& tensors);

  bool holds(const std::vector<nn::Parameter>& tensors) const;  // there is memory for these, of their shapes
  void take(const std::vector<nn::Parameter>& tensors);         // memory; throws where there is none
  void let_go() { copies_.clear(); }

  // The copy, once it is there: the live tensors may change when it returns.
  Snapshot copy(const Snapshot& live) const;

 private:
  std::map<std::string, at::Tensor> copies_;
};

}  // namespace hyperion::checkpoint
