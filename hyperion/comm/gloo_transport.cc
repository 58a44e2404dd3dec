// c10d's header shows Gloo only where this is defined; the code is in libtorch_cpu.
#define USE_C10D_GLOO
#include "hyperion/comm/gloo_transport.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

#include "hyperion/comm/roll_call.h"

namespace hyperion::comm {
namespace {

// Gloo knows few types, and moves bytes of any.
at::Tensor bytes(const at::Tensor& tensor) { return tensor.view(-1).view(at::kByte); }

std::vector<int64_t> scaled(const Transport::Counts& counts, int64_t width) {
  std::vector<int64_t> list;
  for (const int64_t count : counts) list.push_back(count * width);
  return list;
}

class GlooTransport final : public Transport {
 public:
  GlooTransport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const std::string& address,
                std::chrono::milliseconds timeout)
      : ranks_(store, rank, size) {
    const auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(interface != nullptr ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                                                    : c10d::ProcessGroupGloo::createDeviceForHostname(address));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  }

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }
  std::string kind() const override { return "gloo"; }

  void all_to_all(const at::Tensor& out, const at::Tensor& in, const Counts& out_counts,
                  const Counts& in_counts) override {
    const int64_t width = in.element_size();
    OnHost here(in, /*read=*/true, /*write=*/false), there(out, false, true);
    auto to = bytes(there.tensor), from = bytes(here.tensor);
    auto out_bytes = scaled(out_counts, width), in_bytes = scaled(in_counts, width);
    group_->alltoall_base(to, from, out_bytes, in_bytes, {})->wait();
  }
  void all_gather(const at::Tensor& out, const at::Tensor& in) override {
    OnHost here(in, true, false), there(out, false, true);
    auto to = bytes(there.tensor), from = bytes(here.tensor);
    group_->_allgather_base(to, from, {})->wait();
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    OnHost here(tensor, rank() == root, rank() != root);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(list, options)->wait();
  }
  void send(const at::Tensor& tensor, int to, int tag) override {
    OnHost here(tensor, true, false);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    group_->send(list, to, tag)->wait();
  }
  void receive(const at::Tensor& tensor, int from, int tag) override {
    OnHost here(tensor, false, true);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    group_->recv(list, from, tag)->wait();
  }
  void barrier() override { group_->barrier()->wait(); }

  std::string blame(int64_t call, const std::string& doing) override {
    return ranks_.missing("failed", call, doing, std::chrono::seconds(2));
  }
  std::string missing(int64_t call, const std::string& doing) override {
    return ranks_.missing("waiting", call, doing, std::chrono::seconds(1));
  }

 private:
  // A tensor's bytes in host memory: itself on the CPU, else a copy of it there and back.
  struct OnHost {
    OnHost(const at::Tensor& device, bool read, bool write) : device(device), write(write) {
      tensor = device.is_cpu() ? device
               : read          ? device.cpu()
                               : at::empty_like(device, device.options().device(at::kCPU));
    }
    ~OnHost() noexcept(false) {
      if (write && !device.is_cpu()) device.copy_(tensor);
    }
    OnHost(const OnHost&) = delete;
    OnHost& operator=(const OnHost&) = delete;
    at::Tensor device, tensor;
    bool write;
  };

  RollCall ranks_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo_transport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                               const std::string& address, std::chrono::milliseconds timeout) {
  return std::make_unique<GlooTransport>(store, rank, size, address, timeout);
}

}  // namespace hyperion::comm
