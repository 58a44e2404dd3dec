#include "hyperion/comm/local_transport.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::comm {
namespace {

using base::format;
using Counts = Transport::Counts;

// What one rank brings to a meeting.
struct Offer {
  std::string operation;
  int64_t bytes = 0;  // that must be the same on all; -1: may differ
  at::Tensor in, out;
  Counts counts;
  std::optional<c10::Event> ready = {}, taken = {};  // on a GPU: `in` is there; what this rank took is there
};

c10::Stream stream_of(const at::Tensor& tensor) {
  return c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device());
}

bool on_gpu(const at::Tensor& tensor) { return tensor.defined() && !tensor.is_cpu(); }

std::optional<c10::Event> here_on_stream(const at::Tensor& tensor) {
  if (!on_gpu(tensor)) return std::nullopt;
  std::optional<c10::Event> event(std::in_place, tensor.device().type());
  event->record(stream_of(tensor));
  return event;
}

// What is queued next on the current stream comes after the event.
void after(const std::optional<c10::Event>& event, const at::Tensor& tensor) {
  if (event) event->block(stream_of(tensor));
}

// Where the ranks meet: all bring their offers, each takes what it needs, and no one leaves before all have. On a GPU
// the hosts meet so, and the streams of the ranks wait for each other where a device's memory is taken.
class LocalMeeting {
 public:
  LocalMeeting(int size, std::chrono::milliseconds timeout) : offers_(size), here_(size), timeout_(timeout) {}
  int size() const { return static_cast<int>(offers_.size()); }

  template <class Take>
  void meet(int rank, Offer offer, Take take) {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    offer.ready = here_on_stream(offer.in);
    const at::Tensor own = offer.in;
    offers_[rank] = std::move(offer);
    here_[rank] = true;
    arrive(lock, round, rank);
    check(rank);
    lock.unlock();
    for (const auto& other : offers_) after(other.ready, own);
    take(offers_);
    offers_[rank].taken = here_on_stream(own);
    lock.lock();
    here_[rank] = true;
    arrive(lock, round + 1, rank);
    for (const auto& other : offers_) after(other.taken, own);
  }

  // Ranks that others wait for now.
  std::string absent() {
    const std::lock_guard lock(mutex_);
    return not_here();
  }

  void post(int from, int to, int tag, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    const auto letter = tensor.clone();
    letters_[{from, to, tag}].push_back({letter, here_on_stream(letter)});
    changed_.notify_all();
  }
  void collect(int from, int to, int tag, const at::Tensor& out) {
    std::unique_lock lock(mutex_);
    auto& box = letters_[{from, to, tag}];
    if (!changed_.wait_for(lock, timeout_, [&] { return !box.empty(); }))
      throw base::Error(format("rank {} sent nothing to rank {} within {} ms", from, to, timeout_.count()));
    after(box.front().ready, out);
    out.copy_(box.front().tensor);
    box.erase(box.begin());
  }

 private:
  void arrive(std::unique_lock<std::mutex>& lock, int64_t round, int rank) {
    if (++arrived_ == size()) {
      arrived_ = 0, ++round_;
      std::fill(here_.begin(), here_.end(), false);
      changed_.notify_all();
      return;
    }
    if (changed_.wait_for(lock, timeout_, [&] { return round_ != round; })) return;
    throw base::Error(
        format("rank {} waited {} ms in {} for rank {}", rank, timeout_.count(), offers_[rank].operation, not_here()));
  }

  std::string not_here() const {
    std::string list;
    for (int i = 0; i < size(); ++i)
      if (!here_[i]) list += format("{}{}", list.empty() ? "" : ", ", i);
    return list;
  }

  // Every rank sees the same offers, so all of them throw.
  void check(int rank) const {
    for (int i = 0; i < size(); ++i)
      if (offers_[i].operation != offers_[rank].operation || offers_[i].bytes != offers_[rank].bytes)
        throw base::Error(format("rank {} asks for {} of {} bytes while rank {} asks for {} of {} bytes", rank,
                                 offers_[rank].operation, offers_[rank].bytes, i, offers_[i].operation,
                                 offers_[i].bytes));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Offer> offers_;
  std::vector<char> here_;
  struct Posted {
    at::Tensor tensor;
    std::optional<c10::Event> ready;
  };
  std::map<std::tuple<int, int, int>, std::vector<Posted>> letters_;
  std::chrono::milliseconds timeout_;
  int arrived_ = 0;
  int64_t round_ = 0;
};

int64_t sum_before(const Counts& counts, int rank) {
  int64_t sum = 0;
  for (int i = 0; i < rank; ++i) sum += counts[i];
  return sum;
}

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalMeeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  std::string kind() const override { return "local"; }

  void all_to_all(const at::Tensor& out, const at::Tensor& in, const Counts& out_counts,
                  const Counts& in_counts) override {
    meeting_->meet(rank_, {"all_to_all", -1, in, out, in_counts}, [&](const std::vector<Offer>& offers) {
      int64_t at = 0;
      for (int i = 0; i < size(); ++i) {
        const int64_t count = offers[i].counts[rank_];
        if (count != out_counts[i])
          throw base::Error(
              format("rank {} sends {} elements to rank {}, which expects {}", i, count, rank_, out_counts[i]));
        out.narrow(0, at, count).copy_(offers[i].in.narrow(0, sum_before(offers[i].counts, rank_), count));
        at += count;
      }
    });
  }
  void all_gather(const at::Tensor& out, const at::Tensor& in) override {
    // A copy of `in`: it may be a piece of `out`, which its own rank already writes.
    meeting_->meet(rank_, {"all_gather", static_cast<int64_t>(in.nbytes()), in.view(-1).clone(), out, {}},
                   [&](const std::vector<Offer>& offers) {
                     for (int i = 0; i < size(); ++i)
                       out.view(-1).narrow(0, i * in.numel(), in.numel()).copy_(offers[i].in);
                   });
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    meeting_->meet(rank_, {"broadcast", static_cast<int64_t>(tensor.nbytes()), tensor, tensor, {}},
                   [&](const std::vector<Offer>& offers) {
                     if (rank_ != root) tensor.copy_(offers[root].in);
                   });
  }
  void all_reduce(const at::Tensor& tensor) override {
    meeting_->meet(rank_, {"all_reduce", static_cast<int64_t>(tensor.nbytes()), tensor.view(-1).clone(), tensor, {}},
                   [&](const std::vector<Offer>& offers) { sum_into(tensor.view(-1), offers, 0); });
  }
  void reduce_scatter(const at::Tensor& out, const at::Tensor& in) override {
    meeting_->meet(rank_, {"reduce_scatter", static_cast<int64_t>(in.nbytes()), in.view(-1), out, {}},
                   [&](const std::vector<Offer>& offers) { sum_into(out.view(-1), offers, rank_ * out.numel()); });
  }
  void send(const at::Tensor& tensor, int to, int tag) override { meeting_->post(rank_, to, tag, tensor); }
  void receive(const at::Tensor& tensor, int from, int tag) override { meeting_->collect(from, rank_, tag, tensor); }
  void exchange(const std::vector<Letter>& sends, const std::vector<Letter>& receives) override {
    for (const auto& letter : sends) send(letter.tensor, letter.peer, letter.tag);
    for (const auto& letter : receives) receive(letter.tensor, letter.peer, letter.tag);
  }
  std::string missing(int64_t /*call*/, const std::string& /*doing*/) override {
    const auto list = meeting_->absent();
    return list.empty() ? "" : "no word from rank " + list;
  }
  void barrier() override {
    meeting_->meet(rank_, {"barrier", 0, {}, {}, {}}, [](const std::vector<Offer>&) {});
  }

 private:
  static void sum_into(const at::Tensor& out, const std::vector<Offer>& offers, int64_t begin) {
    out.copy_(offers[0].in.narrow(0, begin, out.numel()));
    for (size_t i = 1; i < offers.size(); ++i) out.add_(offers[i].in.narrow(0, begin, out.numel()));
  }

  std::shared_ptr<LocalMeeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Transport>> make_local_transports(int size, std::chrono::milliseconds timeout) {
  const auto meeting = std::make_shared<LocalMeeting>(size, timeout);
  std::vector<std::unique_ptr<Transport>> list;
  for (int rank = 0; rank < size; ++rank) list.push_back(std::make_unique<LocalTransport>(meeting, rank));
  return list;
}

}  // namespace hyperion::comm
