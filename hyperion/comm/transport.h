// The wires of one group: the few movements that everything else is built from. Each call returns when it is done here,
// or queued on the current stream of the tensors' GPU; all ranks make the same calls in the same order. Tensors are
// contiguous; but for sums their type does not matter, bytes are moved. Throws what the wires throw.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace hyperion::comm {

// A tensor on its way to a peer, or from one.
struct Letter {
  at::Tensor tensor;
  int peer;
  int tag = 0;  // tells letters of one pair apart; those of one tag arrive in the order they were sent
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string kind() const = 0;  // "gloo", "nccl", "local"

  // What messages call the ranks of a group of some: by their place in the job. Said once, before the first call.
  void name_ranks(std::vector<int> of_job) { of_job_ = std::move(of_job); }
  int of_job(int rank) const { return of_job_.empty() ? rank : of_job_.at(static_cast<size_t>(rank)); }

  // Both flat; rank i gets the i-th of the counts' pieces of `in`, and its piece for us lands as the i-th of `out`.
  using Counts = std::vector<int64_t>;  // elements, one a rank
  virtual void all_to_all(const at::Tensor& out, const at::Tensor& in, const Counts& out_counts,
                          const Counts& in_counts) = 0;
  // `out` holds size() times what `in` holds, by rank; `in` may be our own piece of it.
  virtual void all_gather(const at::Tensor& out, const at::Tensor& in) = 0;
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
  // Sums over the ranks in the tensors' own type, in whatever order is fastest: in place, or of `in`, which holds
  // size() equal pieces, our piece into `out`.
  virtual void all_reduce(const at::Tensor& tensor) = 0;
  virtual void reduce_scatter(const at::Tensor& out, const at::Tensor& in) = 0;
  virtual void send(const at::Tensor& tensor, int to, int tag) = 0;
  virtual void receive(const at::Tensor& tensor, int from, int tag) = 0;
  // All of them at once, none before another: ranks that send to each other at the same time do not wait for ever.
  virtual void exchange(const std::vector<Letter>& sends, const std::vector<Letter>& receives) = 0;
  virtual void barrier() = 0;

  // What a rank can learn of a call that has failed, or that does not end: which ranks are to blame, or missing from
  // it. May take two seconds. From any thread. Empty: cannot be told.
  virtual std::string blame(int64_t /*call*/, const std::string& /*doing*/) { return {}; }
  virtual std::string missing(int64_t /*call*/, const std::string& /*doing*/) { return {}; }
  // Calls only queue work on the current stream: the host waits for no other rank.
  virtual bool is_stream_ordered() const { return false; }

 private:
  std::vector<int> of_job_;
};

}  // namespace hyperion::comm
