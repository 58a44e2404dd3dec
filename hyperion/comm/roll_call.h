// Where the ranks of a group stand, told through the store: who is missing from a call that others wait in. For sources
// of this folder: includes c10d.
#pragma once
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>

namespace hyperion::comm {

class RollCall {
 public:
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), size_(size) {}

  // Says that this rank is at its call number `call`, gives the others `patience` to say the same, and returns who did
  // not: "no word from rank 1; rank 2 was at call 4 all_gather of weights". Empty where all did. `occasion` keeps one
  // kind of question apart from another; `name` gives the number that a rank is called by. Safe from any thread.
  std::string missing(const std::string& occasion, int64_t call, const std::string& doing,
                      std::chrono::milliseconds patience, const std::function<int(int)>& name) const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
};

}  // namespace hyperion::comm
