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
  // `store`: of the group; what it stands on is common to all groups of a job.
  RollCall(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  // Says that this rank is at its call number `call`, gives the others `patience` to say the same, and returns who did
  // not: "no word from rank 1; rank 2 was at call 4 all_gather of weights". Who gives no word because it waits in
  // another group itself has said there for whom: "no word from rank 1, which waits for rank 3". Empty where all did.
  // `occasion` keeps one kind of question apart from another; `name` gives the number that a rank is called by. Safe
  // from any thread.
  std::string missing(const std::string& occasion, int64_t call, const std::string& doing,
                      std::chrono::milliseconds patience, const std::function<int(int)>& name) const;

 private:
  void tell(int own, const std::string& silent) const;
  std::string further(int rank, int own) const;

  c10::intrusive_ptr<c10d::Store> store_, common_;
  int rank_, size_;
};

}  // namespace hyperion::comm
