// c10d's header shows NCCL only where this is defined; the code is in libtorch_cuda.
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "hyperion/comm/nccl_transport.h"
#include "hyperion/comm/roll_call.h"

namespace hyperion::comm {
namespace {

at::Tensor bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

std::vector<int64_t> scaled(const Transport::Counts& counts, int64_t width) {
  std::vector<int64_t> list;
  for (const int64_t count : counts) list.push_back(count * width);
  return list;
}

class NcclTransport final : public Transport {
 public:
  NcclTransport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout)
      : ranks_(store, rank, size) {
    const auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/true);
    options->timeout = timeout;
    group_ = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
  }

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }
  std::string kind() const override { return "nccl"; }

  void all_to_all(const at::Tensor& out, const at::Tensor& in, const Counts& out_counts,
                  const Counts& in_counts) override {
    auto to = bytes(out), from = bytes(in);
    auto out_bytes = scaled(out_counts, in.element_size()), in_bytes = scaled(in_counts, in.element_size());
    group_->alltoall_base(to, from, out_bytes, in_bytes, {})->wait();
  }
  void all_gather(const at::Tensor& out, const at::Tensor& in) override {
    auto to = bytes(out), from = bytes(in);
    group_->_allgather_base(to, from, {})->wait();
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> list{bytes(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(list, options)->wait();
  }
  void send(const at::Tensor& tensor, int to, int tag) override {
    std::vector<at::Tensor> list{bytes(tensor)};
    group_->send(list, to, tag)->wait();
  }
  void receive(const at::Tensor& tensor, int from, int tag) override {
    std::vector<at::Tensor> list{bytes(tensor)};
    group_->recv(list, from, tag)->wait();
  }
  void barrier() override { group_->barrier()->wait(); }

  std::string blame(int64_t call, const std::string& doing) override {
    return ranks_.missing("failed", call, doing, std::chrono::seconds(2));
  }
  std::string missing(int64_t call, const std::string& doing) override {
    return ranks_.missing("waiting", call, doing, std::chrono::seconds(1));
  }
  bool queues() const override { return true; }

 private:
  RollCall ranks_;
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> group_;
};

}  // namespace

std::unique_ptr<Transport> make_nccl_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               std::chrono::milliseconds timeout) {
  return std::make_unique<NcclTransport>(store, rank, size, timeout);
}

}  // namespace hyperion::comm
