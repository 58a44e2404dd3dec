#include "hyperion/comm/local_transport.h"

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
};

// Where the ranks meet: all bring their offers, each takes what it needs, and no one leaves before all have.
class LocalMeeting {
 public:
  LocalMeeting(int size, std::chrono::milliseconds timeout) : offers_(size), here_(size), timeout_(timeout) {}
  int size() const { return static_cast<int>(offers_.size()); }

  template <class Take>
  void meet(int rank, Offer offer, Take take) {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    offers_[rank] = std::move(offer);
    here_[rank] = true;
    arrive(lock, round, rank);
    check(rank);
    lock.unlock();
    take(offers_);
    lock.lock();
    here_[rank] = true;
    arrive(lock, round + 1, rank);
  }

  // Ranks that others wait for now.
  std::string absent() {
    const std::lock_guard lock(mutex_);
    return not_here();
  }

  void post(int from, int to, int tag, const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to, tag}].push_back(tensor.clone());
    changed_.notify_all();
  }
  at::Tensor collect(int from, int to, int tag) {
    std::unique_lock lock(mutex_);
    auto& box = letters_[{from, to, tag}];
    if (!changed_.wait_for(lock, timeout_, [&] { return !box.empty(); }))
      throw base::Error(format("rank {} sent nothing to rank {} within {} ms", from, to, timeout_.count()));
    const auto letter = box.front();
    box.erase(box.begin());
    return letter;
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
  std::map<std::tuple<int, int, int>, std::vector<at::Tensor>> letters_;
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
  void send(const at::Tensor& tensor, int to, int tag) override { meeting_->post(rank_, to, tag, tensor); }
  void receive(const at::Tensor& tensor, int from, int tag) override {
    tensor.copy_(meeting_->collect(from, rank_, tag));
  }
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
