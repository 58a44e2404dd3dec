#include "hyperion/comm/c10d_transport.h"

#include <atomic>

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

class C10dTransport final : public Transport {
 public:
  C10dTransport(std::string kind, c10::intrusive_ptr<c10d::Backend> backend, bool stream_ordered,
                const c10::intrusive_ptr<c10d::Store>& store)
      : kind_(std::move(kind)),
        stream_ordered_(stream_ordered),
        ranks_(store, backend->getRank(), backend->getSize()),
        backend_(std::move(backend)) {}

  ~C10dTransport() override {
    if (stream_ordered_ && !failed_) backend_->shutdown();  // after a failure it could wait for who is gone
  }

  int rank() const override { return backend_->getRank(); }
  int size() const override { return backend_->getSize(); }
  std::string kind() const override { return kind_; }

  void all_to_all(const at::Tensor& out, const at::Tensor& in, const Counts& out_counts,
                  const Counts& in_counts) override {
    const int64_t width = in.element_size();
    Reachable here(*this, in, /*read=*/true, /*write=*/false), there(*this, out, false, true);
    auto to = bytes(there.tensor), from = bytes(here.tensor);
    auto out_bytes = scaled(out_counts, width), in_bytes = scaled(in_counts, width);
    finish(backend_->alltoall_base(to, from, out_bytes, in_bytes, in_order<c10d::AllToAllOptions>()));
  }
  void all_gather(const at::Tensor& out, const at::Tensor& in) override {
    Reachable here(*this, in, true, false), there(*this, out, false, true);
    auto to = bytes(there.tensor), from = bytes(here.tensor);
    finish(backend_->_allgather_base(to, from, in_order<c10d::AllgatherOptions>()));
  }
  void all_reduce(const at::Tensor& tensor) override {
    Reachable here(*this, tensor, true, true);
    std::vector<at::Tensor> list{here.tensor.view(-1)};
    finish(backend_->allreduce(list, in_order<c10d::AllreduceOptions>()));
  }
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    Reachable here(*this, in, true, false), there(*this, out, false, true);
    auto to = there.tensor.view(-1), from = here.tensor.view(-1);
    finish(backend_->_reduce_scatter_base(to, from, in_order<c10d::ReduceScatterOptions>()));
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    Reachable here(*this, tensor, rank() == root, rank() != root);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    auto options = in_order<c10d::BroadcastOptions>();
    options.rootRank = root;
    finish(backend_->broadcast(list, options));
  }
  void send(const at::Tensor& tensor, int to, int tag) override {
    Reachable here(*this, tensor, true, false);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    backend_->send(list, to, tag)->wait();
  }
  void receive(const at::Tensor& tensor, int from, int tag) override {
    Reachable here(*this, tensor, false, true);
    std::vector<at::Tensor> list{bytes(here.tensor)};
    backend_->recv(list, from, tag)->wait();
  }
  void exchange(const std::vector<Letter>& sends, const std::vector<Letter>& receives) override {
    std::vector<std::unique_ptr<Reachable>> held;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    const auto post = [&](const Letter& letter, bool sent) {
      held.push_back(std::make_unique<Reachable>(*this, letter.tensor, sent, !sent));
      std::vector<at::Tensor> list{bytes(held.back()->tensor)};
      auto work = sent ? backend_->send(list, letter.peer, letter.tag) : backend_->recv(list, letter.peer, letter.tag);
      if (!stream_ordered_) works.push_back(std::move(work));
    };
    if (stream_ordered_) backend_->startCoalescing();
    for (const auto& letter : receives) post(letter, false);
    for (const auto& letter : sends) post(letter, true);
    if (stream_ordered_) works.push_back(backend_->endCoalescing());
    for (const auto& work : works) work->wait();
  }
  void barrier() override { backend_->barrier()->wait(); }

  std::string blame(int64_t call, const std::string& doing) override {
    failed_ = true;
    return ranks_.missing("failed", call, doing, std::chrono::seconds(2), [this](int rank) { return of_job(rank); });
  }
  std::string missing(int64_t call, const std::string& doing) override {
    return ranks_.missing("waiting", call, doing, std::chrono::seconds(1), [this](int rank) { return of_job(rank); });
  }
  bool is_stream_ordered() const override { return stream_ordered_; }

 private:
  // NCCL then launches on the current stream, not on one of its own beside it.
  template <class Options>
  static Options in_order() {
    Options options;
    options.asyncOp = false;
    return options;
  }

  static void finish(const c10::intrusive_ptr<c10d::Work>& work) {
    if (work) work->wait();  // none where it was launched on the current stream
  }

  // A tensor where the backend reaches it: itself, or of a GPU's a copy in host memory, there and back.
  struct Reachable {
    Reachable(const C10dTransport& owner, const at::Tensor& given, bool read, bool write)
        : given(given), copied_back(write && !(owner.stream_ordered_ || given.is_cpu())) {
      tensor = owner.stream_ordered_ || given.is_cpu() ? given
               : read                                  ? given.cpu()
                                                       : at::empty_like(given, given.options().device(at::kCPU));
    }
    ~Reachable() noexcept(false) {
      if (copied_back) given.copy_(tensor);
    }
    Reachable(const Reachable&) = delete;
    Reachable& operator=(const Reachable&) = delete;
    at::Tensor given, tensor;
    bool copied_back;
  };

  std::string kind_;
  bool stream_ordered_;
  std::atomic<bool> failed_ = false;
  RollCall ranks_;
  c10::intrusive_ptr<c10d::Backend> backend_;
};

}  // namespace

std::unique_ptr<Transport> make_c10d_transport(std::string kind, c10::intrusive_ptr<c10d::Backend> backend,
                                               bool stream_ordered, const c10::intrusive_ptr<c10d::Store>& store) {
  return std::make_unique<C10dTransport>(std::move(kind), std::move(backend), stream_ordered, store);
}

}  // namespace hyperion::comm
