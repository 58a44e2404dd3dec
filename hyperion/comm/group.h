// Processes that act together. What is asked of a group is done one after the other in the order asked, while the
// caller goes on; so every rank must ask for the same things in the same order. Sums are made in fp32 over the ranks in
// a fixed tree, so that a sum has the same bits on every rank and in every run; or as the library of the wires does.
//
// Tensors are contiguous and must not be touched between the call and the end of wait(). On a GPU the work runs on a
// stream beside the caller's: the call orders it after what the caller has queued, wait() orders what the caller queues
// next after it, without stopping the host for longer than the host's part takes. Over NCCL the host has no part: the
// call only queues, and a graph can record it. Elsewhere a thread of the group's own does what is asked.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/fault.h"
#include "hyperion/comm/pending.h"
#include "hyperion/comm/traffic.h"
#include "hyperion/comm/transport.h"

namespace hyperion::comm {

class Calls;

// Who adds up: we, in an order that never changes, or the library of the wires, as it is fastest.
enum class Reduce { fixed, library };

class Group {
 public:
  Group(std::string name, std::unique_ptr<Transport> transport);
  ~Group();  // finishes what was asked, or gives up where the wires do
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const;
  int size() const;
  const std::string& name() const { return name_; }
  std::string kind() const;
  bool alone() const { return alone_; }  // one rank without wires: nothing moves

  // `caller` is who the bytes are counted for: "gradients", "weights".
  // The sum over ranks in place; floating types through fp32, integers exactly.
  Pending all_reduce(const at::Tensor& tensor, const std::string& caller);
  // out: fp32, 1/size of `in`, our piece of the sum. With `add` it is added to what is there.
  Pending reduce_scatter(const at::Tensor& out, const at::Tensor& in, const std::string& caller, bool add = false);
  Pending all_gather(const at::Tensor& out, const at::Tensor& in, const std::string& caller);
  Pending all_to_all(const at::Tensor& out, const at::Tensor& in, Transport::Counts out_counts,
                     Transport::Counts in_counts, const std::string& caller);
  Pending broadcast(const at::Tensor& tensor, int root, const std::string& caller);
  Pending send(const at::Tensor& tensor, int to, int tag, const std::string& caller);
  Pending receive(const at::Tensor& tensor, int from, int tag, const std::string& caller);
  // All of these at once: peers may send to each other at the same time, which with `send` and then `receive` would
  // wait for ever. Only the ranks that have a part in it ask for it. Letters to oneself are
  // copied, the first sent to the first received.
  Pending exchange(std::vector<Letter> sends, std::vector<Letter> receives, const std::string& caller);
  Pending barrier(const std::string& caller);

  // Any other work that must keep its place among these: run in the group's thread, on its stream.
  Pending then(const at::Tensor& like, const std::string& caller, std::function<void()> work);

  // What each rank has to say, by rank. Returns when all have.
  std::vector<std::string> gather_text(const std::string& text, const std::string& caller);

  void reduce_by(Reduce reduce) { reduce_ = reduce; }

  // Whether a graph can record what is asked for tensors of this device. From begin to end all is: it is counted, and
  // returned, and runs where the graph is replayed, which is told with `replayed`.
  bool recordable(c10::Device device) const;
  void begin_recording();
  TrafficByCaller end_recording();
  void replayed(const TrafficByCaller& recorded);

  // What it moved since the last reset.
  TrafficByCaller traffic() const;
  void reset_traffic();
  Traffic total() const;

  // From now on what waits longer than `after` is told of: operation, group, bytes, who asked, and which ranks are
  // missing, once each time that long has passed. To the log, or to `report`, from a thread of its own.
  void watch(std::chrono::milliseconds after, std::function<void(const std::string&)> report = {});

  void set_slow_link(SlowLink link);
  // From now on the ranks compare what they ask for before they do it: a rank that asks for another operation, size or
  // type is named instead of waited for, or worse. Costs a small exchange each time.
  void check_calls();

 private:
  struct Call;
  bool in_place(c10::Device device) const;
  void ask_wrongly(base::Fault fault, Call& call);
  Pending ask(const char* operation, const at::Tensor& like, int64_t bytes, const std::string& caller,
              std::function<void()> work);
  void compare_calls(const std::string& operation, const at::Tensor& like, const std::string& caller);
  void sum_pieces(const at::Tensor& out, const at::Tensor& in, bool add);
  void sum_by_library(const at::Tensor& out, const at::Tensor& in, bool add);
  void reduce_small(const at::Tensor& tensor);
  void reduce_large(const at::Tensor& tensor);

  std::string name_;
  std::unique_ptr<Transport> transport_;
  bool alone_;  // with no wires at all
  bool checked_ = false;
  bool serial_;  // HYPERION_SERIAL_COMM is set: nothing is hidden, to see what hiding is worth
  Reduce reduce_ = Reduce::fixed;
  std::unique_ptr<Calls> calls_;
};

// The sum of pieces[0], pieces[1], ...: (the even ones) + (the odd ones), each the same again. So the sum over all of
// micro-batches 0, 1, 2, ... is the same tree however many ranks, a power of two, they are dealt out to in turn.
at::Tensor tree_sum(const std::vector<at::Tensor>& pieces);

}  // namespace hyperion::comm
