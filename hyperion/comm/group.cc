#include "hyperion/comm/group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/waiting.h"
#include "hyperion/comm/watch.h"
#include "hyperion/profile/span.h"

namespace hyperion::comm {
namespace {

using base::format;

constexpr int64_t kSmall = 1024;  // elements: gathered whole and summed, which is one round trip instead of two

using base::now;

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

void check_flat(const at::Tensor& tensor) { HYPERION_CHECK(tensor.is_contiguous(), "groups move contiguous tensors"); }

// What others sent is here. A bad wire or memory can be played: HYPERION_FAULTS=comm.arrive=flip@3.
void arrived(const at::Tensor& tensor) {
  if (base::fault_point("comm.arrive") != base::Fault::flip || tensor.numel() == 0) return;
  const auto bytes = tensor.view(-1).view(at::kByte);
  bytes.narrow(0, bytes.numel() / 2, 1).bitwise_xor_(0x10);
}

at::Tensor tree(const std::vector<at::Tensor>& pieces, size_t first, size_t stride) {
  if (first + stride >= pieces.size()) return pieces[first];
  return tree(pieces, first, 2 * stride).add(tree(pieces, first + stride, 2 * stride));
}

// The stream of the group's thread on a GPU; on the CPU nothing.
std::optional<c10::Stream> stream_beside(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

std::optional<c10::Event> marked(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  std::optional<c10::Event> event(std::in_place, device.type());
  event->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  return event;
}

using base::first_line;

}  // namespace

at::Tensor tree_sum(const std::vector<at::Tensor>& pieces) { return tree(pieces, 0, 1); }

struct Pending::Work {
  std::string operation, caller;
  int64_t bytes = 0;
  c10::Device device = c10::kCPU;
  std::function<void()> run;
  std::optional<c10::Event> asked, done_on_device;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
  std::function<void(double)> waited;  // tells how long a caller stood still
};

void Pending::wait() {
  if (!work_) return;
  const auto work = std::move(work_);
  work_ = nullptr;
  std::unique_lock lock(work->mutex);
  if (!work->done) {
    const double start = now();
    work->changed.wait(lock, [&] { return work->done; });
    if (work->waited) work->waited(now() - start);
  }
  if (work->error) std::rethrow_exception(work->error);
  if (!work->done_on_device) return;
  work->done_on_device->block(c10::impl::VirtualGuardImpl(work->device.type()).getStream(work->device));
  work->run = nullptr;
}

class Group::Thread {
 public:
  Thread(std::string group, Transport& transport)
      : group_(std::move(group)), transport_(transport), watch_(group_, transport) {
    if (const char* text = std::getenv("HYPERION_SLOW_LINK")) slow_ = slow_link_of(text);
  }
  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    for (const auto& work : lingering_) work->done_on_device->synchronize();
  }

  Watch& watch() { return watch_; }

  void add(std::shared_ptr<Pending::Work> work) {
    work->waited = [this, key = key_of(*work)](double seconds) {
      const std::lock_guard lock(mutex_);
      traffic_[key].exposed += seconds;
    };
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
      if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });  // a group that is never asked has none
    }
    changed_.notify_all();
  }

  std::map<std::string, Traffic> traffic() const {
    const std::lock_guard lock(mutex_);
    return traffic_;
  }
  void reset() {
    const std::lock_guard lock(mutex_);
    traffic_.clear();
  }
  void set_slow_link(SlowLink link) {
    const std::lock_guard lock(mutex_);
    slow_ = link;
  }

 private:
  static std::string key_of(const Pending::Work& work) { return work.operation + " " + work.caller; }

  void loop() {
    const c10::AutoGradMode no_grad(false);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const auto work = std::move(queue_.front());
      queue_.pop_front();
      const SlowLink slow = slow_;
      const double start = now();
      ++calls_;
      lock.unlock();
      watch_.begun({work->operation, work->caller, work->bytes, calls_});
      carry_out(*work, slow);
      const double seconds = now() - start;
      const bool queued = work->done_on_device && transport_.queues();
      watch_.ended(queued ? [work] { return work->done_on_device->query(); } : std::function<bool()>());
      lock.lock();
      Traffic& traffic = traffic_[key_of(*work)];
      ++traffic.calls;
      traffic.bytes += work->bytes;
      traffic.seconds += seconds;
      lock.unlock();
      finish(*work);
      if (work->done_on_device) linger(work);
      lock.lock();
    }
  }

  void carry_out(Pending::Work& work, SlowLink slow) {
    const profile::Span span(work.operation, work.caller, work.bytes);
    if (broken_) {
      work.error = broken_;
      return;
    }
    const Waiting here(format("{} of {} in group {}", work.operation, work.caller, group_));
    try {
      if (slow.latency > 0 || slow.bytes_per_second > 0)
        std::this_thread::sleep_for(std::chrono::duration<double>(
            slow.latency + (slow.bytes_per_second > 0 ? static_cast<double>(work.bytes) / slow.bytes_per_second : 0)));
      run(work);
    } catch (const base::Error&) {
      work.error = broken_ = std::current_exception();
    } catch (const std::exception& error) {
      work.error = broken_ = std::make_exception_ptr(failure(work, error.what()));
    }
  }

  void run(Pending::Work& work) {
    if (work.device.is_cpu()) return work.run();
    if (!stream_) stream_ = stream_beside(work.device);
    const c10::StreamGuard guard(*stream_);
    work.asked->block(*stream_);
    work.run();
    work.done_on_device = marked(work.device);
  }

  // Once one call has failed the ranks no longer agree on what comes next: everything after it fails the same way.
  base::Error failure(const Pending::Work& work, const std::string& words) {
    const std::string doing = format("{} of {}", work.operation, work.caller);
    const std::string who = transport_.blame(calls_, doing);
    return base::Error(format("{} ({}, {}) in group {} failed on rank {}{}: {}", work.operation, work.caller,
                              base::bytes_text(static_cast<uint64_t>(work.bytes)), group_, transport_.rank(),
                              who.empty() ? "" : "; " + who, first_line(words)),
                       "look at the log of the rank that is named, or of the first that failed");
  }

  static void finish(Pending::Work& work) {
    {
      const std::lock_guard lock(work.mutex);
      if (!work.done_on_device) work.run = nullptr;  // its tensors go with it
      work.done = true;
    }
    work.changed.notify_all();
  }

  // What a call uses on a GPU stays until the device is done with it, or a caller has put his own work behind it: freed
  // before that, its memory could already be another's.
  void linger(std::shared_ptr<Pending::Work> work) {
    lingering_.push_back(std::move(work));
    while (!lingering_.empty() && lingering_.front()->done_on_device->query()) {
      const std::lock_guard lock(lingering_.front()->mutex);
      lingering_.front()->run = nullptr;
      lingering_.pop_front();
    }
  }

  std::string group_;
  Transport& transport_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending::Work>> queue_, lingering_;
  std::map<std::string, Traffic> traffic_;
  SlowLink slow_;
  bool stopped_ = false;
  int64_t calls_ = 0;
  std::exception_ptr broken_;
  std::optional<c10::Stream> stream_;
  Watch watch_;
  std::thread thread_;
};

SlowLink slow_link_of(const std::string& text) {
  SlowLink link;
  size_t at = 0;
  while (at < text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, comma - at);
    char* end = nullptr;
    const double number = std::strtod(word.c_str(), &end);
    const std::string unit = end;
    if (number > 0 && unit == "MB/s") {
      link.bytes_per_second = number * 1e6;
    } else if (number > 0 && unit == "us") {
      link.latency = number * 1e-6;
    } else {
      throw base::ConfigError(format("HYPERION_SLOW_LINK=\"{}\" is no speed or latency", text),
                              "write 50MB/s, 200us, or both with a comma");
    }
    at = comma + 1;
  }
  return link;
}

Group::Group(std::string name, std::unique_ptr<Transport> transport)
    : name_(std::move(name)),
      transport_(std::move(transport)),
      alone_(transport_->size() == 1 && transport_->kind() == "local"),
      serial_(std::getenv("HYPERION_SERIAL_COMM") != nullptr),
      thread_(std::make_unique<Thread>(name_, *transport_)) {}
Group::~Group() = default;

int Group::rank() const { return transport_->rank(); }
int Group::size() const { return transport_->size(); }
std::string Group::kind() const { return transport_->kind(); }
std::map<std::string, Traffic> Group::traffic() const { return thread_->traffic(); }
void Group::reset_traffic() { thread_->reset(); }
void Group::watch(std::chrono::milliseconds after, std::function<void(const std::string&)> report) {
  thread_->watch().start(after, std::move(report));
}
void Group::set_slow_link(SlowLink link) { thread_->set_slow_link(link); }

Traffic Group::total() const {
  Traffic all;
  for (const auto& [key, traffic] : thread_->traffic()) {
    all.calls += traffic.calls;
    all.bytes += traffic.bytes;
    all.seconds += traffic.seconds;
    all.exposed += traffic.exposed;
  }
  return all;
}

struct Group::Call {
  std::string operation;
  at::Tensor like;
  std::function<void()> work;
};

namespace {

// Not all ranks of the group ask for these.
bool is_among_some(const std::string& operation) {
  return operation == "send" || operation == "receive" || operation == "exchange" || operation == "then";
}

std::vector<Letter> take_own(std::vector<Letter>& letters, int rank) {
  std::vector<Letter> own;
  for (const auto& letter : letters)
    if (letter.peer == rank) own.push_back(letter);
  std::erase_if(letters, [&](const Letter& letter) { return letter.peer == rank; });
  return own;
}

}  // namespace

// For tests of the others: this rank asks for another operation, shape or type than it should.
void Group::ask_wrongly(base::Fault fault, Call& call) {
  if (fault == base::Fault::operation) {
    call = {"barrier", {}, [this] { transport_->barrier(); }};
    return;
  }
  const auto like = call.like.defined() ? call.like.view(-1) : at::zeros({8});
  const auto other = like.scalar_type() == at::kHalf ? at::kInt : at::kHalf;
  call.like = fault == base::Fault::shape ? at::zeros({like.numel() + 3}, like.options())
                                          : at::zeros({like.numel()}, like.options().dtype(other));
  call.work = [this, wrong = call.like] {
    transport_->all_gather(at::empty({size() * wrong.numel()}, wrong.options()), wrong);
  };
}

Pending Group::ask(const char* operation, const at::Tensor& like, int64_t bytes, const std::string& caller,
                   std::function<void()> work) {
  Call call{operation, like, std::move(work)};
  const bool together = !is_among_some(call.operation);
  if (together && size() > 1) {
    if (const auto fault = base::fault_point("comm.ask"); fault != base::Fault::none) ask_wrongly(fault, call);
  }
  auto asked = std::make_shared<Pending::Work>();
  asked->operation = call.operation;
  asked->caller = caller;
  asked->bytes = size() > 1 ? bytes : 0;
  asked->device = call.like.defined() ? call.like.device() : c10::Device(c10::kCPU);
  if (checked_ && together && size() > 1) {
    asked->run = [this, call = std::move(call), caller] {
      compare_calls(call.operation, call.like, caller);
      call.work();
    };
  } else {
    asked->run = std::move(call.work);
  }
  asked->asked = marked(asked->device);
  thread_->add(asked);
  Pending pending(asked);
  if (serial_) Pending(asked).wait();
  return pending;
}

void Group::check_calls() { checked_ = true; }

void Group::compare_calls(const std::string& operation, const at::Tensor& like, const std::string& caller) {
  constexpr int64_t kWords = 128;
  const std::string own =
      format("{} of {} for {}", operation,
             like.defined() ? format("{} x {}", like.numel(), c10::toString(like.scalar_type())) : "nothing", caller)
          .substr(0, kWords - 1);
  const auto here = at::zeros({kWords}, at::kByte);
  std::memcpy(here.mutable_data_ptr(), own.data(), own.size());
  // NCCL moves the memory of GPUs alone.
  const at::Device wires = like.defined() && transport_->queues() ? like.device() : at::Device(at::kCPU);
  const auto told = at::zeros({size(), kWords}, at::TensorOptions(wires).dtype(at::kByte));
  transport_->all_gather(told, here.to(wires));
  const auto all = told.to(at::kCPU);
  for (int i = 0; i < size(); ++i) {
    const std::string other(static_cast<const char*>(all[i].const_data_ptr()));
    if (other != own)
      throw base::Error(
          format("in group {} rank {} asks for {} while rank {} asks for {}", name_, rank(), own, i, other),
          "the ranks no longer do the same: see that they run the same program with the same settings");
  }
}

// `in` holds size() pieces; each rank gets all ranks' pieces of its own place, and sums them.
void Group::sum_pieces(const at::Tensor& out, const at::Tensor& in, bool add) {
  at::Tensor sum;
  if (alone_) {
    sum = in.view(-1);
  } else {
    const int64_t piece = in.numel() / size();
    const auto all = at::empty({in.numel()}, in.options());
    const Transport::Counts even(static_cast<size_t>(size()), piece);
    transport_->all_to_all(all, in.view(-1), even, even);
    std::vector<at::Tensor> pieces;
    for (int i = 0; i < size(); ++i) pieces.push_back(all.narrow(0, i * piece, piece).to(out.scalar_type()));
    sum = tree_sum(pieces);
  }
  add ? out.view(-1).add_(sum) : out.view(-1).copy_(sum);
}

Pending Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in, const std::string& caller, bool add) {
  HYPERION_CHECK(in.numel() == out.numel() * size(), "a reduce-scatter gives each rank an equal piece");
  check_flat(in), check_flat(out);
  return ask("reduce_scatter", in, bytes_of(in) / size() * (size() - 1), caller, [this, out, in, add] {
    sum_pieces(out, in, add);
    arrived(out);
  });
}

void Group::reduce_small(const at::Tensor& tensor) {
  const auto all = at::empty({size(), tensor.numel()}, tensor.options());
  transport_->all_gather(all, tensor);
  const auto wide =
      tensor.is_floating_point() && tensor.scalar_type() != at::kDouble ? at::kFloat : tensor.scalar_type();
  std::vector<at::Tensor> pieces;
  for (int i = 0; i < size(); ++i) pieces.push_back(all[i].to(wide));
  tensor.view(-1).copy_(tree_sum(pieces));
}

void Group::reduce_large(const at::Tensor& tensor) {
  const int64_t count = tensor.numel(), piece = (count + size() - 1) / size();
  const auto wide =
      tensor.is_floating_point() && tensor.scalar_type() != at::kDouble ? at::kFloat : tensor.scalar_type();
  at::Tensor padded = tensor.view(-1);
  if (piece * size() != count) {
    padded = at::zeros({piece * size()}, tensor.options());
    padded.narrow(0, 0, count).copy_(tensor.view(-1));
  }
  const auto sum = at::empty({piece}, tensor.options().dtype(wide));
  sum_pieces(sum, padded, false);
  transport_->all_gather(padded, sum.to(tensor.scalar_type()));
  if (piece * size() != count) tensor.view(-1).copy_(padded.narrow(0, 0, count));
}

Pending Group::all_reduce(const at::Tensor& tensor, const std::string& caller) {
  check_flat(tensor);
  const bool small = tensor.numel() <= kSmall;
  const int64_t bytes = small ? bytes_of(tensor) * (size() - 1) : 2 * bytes_of(tensor) / size() * (size() - 1);
  return ask("all_reduce", tensor, bytes, caller, [this, tensor, small] {
    if (alone_) return;
    small ? reduce_small(tensor) : reduce_large(tensor);
    arrived(tensor);
  });
}

Pending Group::all_gather(const at::Tensor& out, const at::Tensor& in, const std::string& caller) {
  HYPERION_CHECK(out.numel() == in.numel() * size() && out.scalar_type() == in.scalar_type(),
                 "an all-gather holds every rank's equal piece");
  check_flat(in), check_flat(out);
  return ask("all_gather", in, bytes_of(in) * (size() - 1), caller, [this, out, in] {
    if (!alone_) return transport_->all_gather(out, in), arrived(out);
    if (out.const_data_ptr() != in.const_data_ptr()) out.view(-1).copy_(in.view(-1));
  });
}

Pending Group::all_to_all(const at::Tensor& out, const at::Tensor& in, Transport::Counts out_counts,
                          Transport::Counts in_counts, const std::string& caller) {
  check_flat(in), check_flat(out);
  const auto ranks = static_cast<size_t>(size()), own = static_cast<size_t>(rank());
  HYPERION_CHECK(out_counts.size() == ranks && in_counts.size() == ranks, "one count a rank");
  const int64_t away = in.numel() - in_counts[own];
  return ask("all_to_all", in, away * static_cast<int64_t>(in.element_size()), caller,
             [this, out, in, out_counts = std::move(out_counts), in_counts = std::move(in_counts)] {
               if (!alone_)
                 return transport_->all_to_all(out.view(-1), in.view(-1), out_counts, in_counts), arrived(out);
               out.view(-1).copy_(in.view(-1));
             });
}

Pending Group::broadcast(const at::Tensor& tensor, int root, const std::string& caller) {
  check_flat(tensor);
  return ask("broadcast", tensor, rank() == root ? bytes_of(tensor) : 0, caller, [this, tensor, root] {
    if (alone_) return;
    transport_->broadcast(tensor, root);
    if (rank() != root) arrived(tensor);
  });
}

Pending Group::send(const at::Tensor& tensor, int to, int tag, const std::string& caller) {
  check_flat(tensor);
  return ask("send", tensor, bytes_of(tensor), caller, [this, tensor, to, tag] { transport_->send(tensor, to, tag); });
}

Pending Group::receive(const at::Tensor& tensor, int from, int tag, const std::string& caller) {
  check_flat(tensor);
  return ask("receive", tensor, 0, caller, [this, tensor, from, tag] {
    transport_->receive(tensor, from, tag);
    arrived(tensor);
  });
}

Pending Group::exchange(std::vector<Letter> sends, std::vector<Letter> receives, const std::string& caller) {
  for (const auto* letters : {&sends, &receives})
    for (const auto& letter : *letters) {
      check_flat(letter.tensor);
      HYPERION_CHECK(letter.peer >= 0 && letter.peer < size(), "a letter goes to a rank of the group");
    }
  const at::Tensor like = !sends.empty() ? sends[0].tensor : !receives.empty() ? receives[0].tensor : at::Tensor();
  const auto from_here = take_own(sends, rank()), to_here = take_own(receives, rank());
  HYPERION_CHECK(from_here.size() == to_here.size(), "what is sent to oneself is received");
  int64_t bytes = 0;
  for (const auto& letter : sends) bytes += bytes_of(letter.tensor);
  return ask("exchange", like, bytes, caller, [=, this] {
    for (size_t i = 0; i < to_here.size(); ++i) to_here[i].tensor.copy_(from_here[i].tensor);
    if (!sends.empty() || !receives.empty()) transport_->exchange(sends, receives);
    for (const auto& letter : receives) arrived(letter.tensor);
  });
}

Pending Group::barrier(const std::string& caller) {
  return ask("barrier", {}, 0, caller, [this] {
    if (!alone_) transport_->barrier();
  });
}

Pending Group::then(const at::Tensor& like, const std::string& caller, std::function<void()> work) {
  return ask("then", like, 0, caller, std::move(work));
}

std::vector<std::string> Group::gather_text(const std::string& text, const std::string& caller) {
  const auto lengths = at::zeros({size()}, at::kLong);
  auto own = at::zeros({1}, at::kLong);
  own.mutable_data_ptr<int64_t>()[0] = static_cast<int64_t>(text.size());
  all_gather(lengths, own, caller).wait();
  const std::span<const int64_t> sizes(lengths.const_data_ptr<int64_t>(), static_cast<size_t>(size()));
  const int64_t longest = std::max<int64_t>(1, *std::max_element(sizes.begin(), sizes.end()));
  const auto padded = at::zeros({longest}, at::kByte), all = at::zeros({size(), longest}, at::kByte);
  std::memcpy(padded.mutable_data_ptr(), text.data(), text.size());
  all_gather(all, padded, caller).wait();
  std::vector<std::string> texts;
  const auto* bytes = reinterpret_cast<const char*>(all.const_data_ptr<uint8_t>());
  for (size_t i = 0; i < sizes.size(); ++i)
    texts.emplace_back(bytes + static_cast<int64_t>(i) * longest, static_cast<size_t>(sizes[i]));
  return texts;
}

}  // namespace hyperion::comm
