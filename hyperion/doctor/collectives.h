// Collectives over all ranks of a group, on numbers that every rank can work out for every other, so that each result
// is known to the last bit. Sizes are counted as nccl-tests counts them: all_reduce, broadcast and send_receive by the
// tensor of a rank; reduce_scatter and all_to_all by the whole input, all_gather by the whole output.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hyperion/comm/group.h"

namespace hyperion::doctor {

// all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, send_receive (to the next rank, from the one before),
// barrier.
const std::vector<std::string>& collective_names();

// Size over time is the algorithm's bandwidth; times this it is that of the wires, whatever the collective and however
// many ranks: 2 (n - 1) / n for all_reduce, (n - 1) / n where a rank keeps a piece of its own, else 1.
double bus_factor(const std::string& collective, int ranks);

// What rank `rank` brings: fp32 on the host, whole numbers of -128 to 127, so that the sum of many ranks is exact.
at::Tensor known_values(uint64_t seed, int rank, int64_t first, int64_t count);

class KnownCollective {
 public:
  // `bytes` is rounded to whole numbers of an equal piece a rank, one each at least. Takes about twice that in memory,
  // while a result is looked at twice more.
  KnownCollective(comm::Group& group, c10::Device device, const std::string& name, int64_t bytes);

  const std::string& name() const { return name_; }
  int64_t bytes() const;

  void fill(uint64_t seed);  // what call() sends; the seed is the same on all ranks
  void fill_zeros();
  // Once, until it is done here (on a GPU: queued). An all_reduce works in place: again without fill() it adds up sums.
  void call();
  // How many numbers of the last call's result are wrong here, by the rank they came from; of a sum, by the rank that
  // made that piece of it. After one call since fill(), or any number since fill_zeros().
  std::map<int, int64_t> wrong() const;

 private:
  at::Tensor expected(int from, int64_t first, int64_t count) const;
  at::Tensor sum(int64_t first, int64_t count) const;

  comm::Group& group_;
  std::string name_;
  int64_t piece_ = 0;  // numbers a rank, of what is cut into pieces
  int root_ = 0;       // of a broadcast
  uint64_t seed_ = 0;
  bool zeros_ = true;
  at::Tensor in_, out_;  // one and the same for all_reduce and broadcast
};

}  // namespace hyperion::doctor
