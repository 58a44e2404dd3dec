#include "hyperion/comm/group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/comm/calls.h"

// Sums in a fixed order (what every group does unless told to leave them to its library, as over NCCL): pieces travel
// by all_to_all, each rank adds up one piece of all in fp32 in a tree whose shape depends on the number of ranks alone,
// and the sums are gathered. That moves as many bytes as a ring (2 (n - 1) / n of the tensor a rank), gives the same
// bits on every rank and in every run, and rounds once; a ring rounds at every hop, and a library's order is that of
// the algorithm it chooses.
namespace hyperion::comm {
namespace {

using base::format;

constexpr int64_t kSmall = 1024;  // elements: gathered whole and summed, which is one round trip instead of two

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

}  // namespace

at::Tensor tree_sum(const std::vector<at::Tensor>& pieces) { return tree(pieces, 0, 1); }

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
      calls_(std::make_unique<Calls>(name_, *transport_)) {
  if (const char* text = std::getenv("HYPERION_SLOW_LINK")) set_slow_link(slow_link_of(text));
}
Group::~Group() = default;

int Group::rank() const { return transport_->rank(); }
int Group::size() const { return transport_->size(); }
std::string Group::kind() const { return transport_->kind(); }
TrafficByCaller Group::traffic() const { return calls_->ledger()->traffic(); }
void Group::reset_traffic() { calls_->ledger()->reset(); }
void Group::watch(std::chrono::milliseconds after, std::function<void(const std::string&)> report) {
  calls_->watch().start(after, std::move(report));
}
void Group::set_slow_link(SlowLink link) { calls_->set_slow_link(link); }

// Comparing calls needs the host, and a slow link is played by it.
bool Group::in_place(c10::Device device) const {
  return (transport_->is_stream_ordered() || (alone_ && !device.is_cpu())) && !checked_ && !calls_->slow();
}
bool Group::recordable(c10::Device device) const { return !device.is_cpu() && in_place(device); }
void Group::begin_recording() { calls_->begin_recording(); }
TrafficByCaller Group::end_recording() { return calls_->end_recording(); }
void Group::replayed(const TrafficByCaller& recorded) { calls_->ledger()->replayed(recorded); }

Traffic Group::total() const {
  Traffic all;
  for (const auto& [key, traffic] : traffic()) all += traffic;
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
  asked->asked = mark(asked->device, /*timed=*/false);
  in_place(asked->device) ? calls_->in_place(asked) : calls_->in_thread(asked);
  Pending pending(asked);
  if (serial_) Pending(asked).wait();
  return pending;
}

void Group::check_calls() { checked_ = true; }

void Group::compare_calls(const std::string& operation, const at::Tensor& like, const std::string& caller) {
  constexpr int64_t kWords = 128;
  const std::string numbers = operation == "all_to_all" ? "any" : like.defined() ? format("{}", like.numel()) : "";
  const std::string own =
      format("{} of {} for {}", operation,
             like.defined() ? format("{} x {}", numbers, c10::toString(like.scalar_type())) : "nothing", caller)
          .substr(0, kWords - 1);
  const auto here = at::zeros({kWords}, at::kByte);
  std::memcpy(here.mutable_data_ptr(), own.data(), own.size());
  // NCCL moves the memory of GPUs alone.
  const at::Device wires = like.defined() && transport_->is_stream_ordered() ? like.device() : at::Device(at::kCPU);
  const auto told = at::zeros({size(), kWords}, at::TensorOptions(wires).dtype(at::kByte));
  transport_->all_gather(told, here.to(wires));
  const auto all = told.to(at::kCPU);
  for (int i = 0; i < size(); ++i) {
    const std::string other(static_cast<const char*>(all[i].const_data_ptr()));
    if (other != own)
      throw base::Error(format("in group {} rank {} asks for {} while rank {} asks for {}", name_,
                               transport_->of_job(rank()), own, transport_->of_job(i), other),
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

// In the type that travels, which is what the library adds up in.
void Group::sum_by_library(const at::Tensor& out, const at::Tensor& in, bool add) {
  if (alone_) return sum_pieces(out, in, add);
  if (!add && out.scalar_type() == in.scalar_type()) return transport_->reduce_scatter(out.view(-1), in.view(-1));
  const auto sum = at::empty({out.numel()}, in.options());
  transport_->reduce_scatter(sum, in.view(-1));
  add ? out.view(-1).add_(sum) : out.view(-1).copy_(sum);
}

Pending Group::reduce_scatter(const at::Tensor& out, const at::Tensor& in, const std::string& caller, bool add) {
  HYPERION_CHECK(in.numel() == out.numel() * size(), "a reduce-scatter gives each rank an equal piece");
  check_flat(in), check_flat(out);
  return ask("reduce_scatter", in, bytes_of(in) / size() * (size() - 1), caller, [this, out, in, add] {
    reduce_ == Reduce::library ? sum_by_library(out, in, add) : sum_pieces(out, in, add);
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
  const bool small = tensor.numel() <= kSmall && reduce_ == Reduce::fixed;
  const int64_t bytes = small ? bytes_of(tensor) * (size() - 1) : 2 * bytes_of(tensor) / size() * (size() - 1);
  return ask("all_reduce", tensor, bytes, caller, [this, tensor, small] {
    if (alone_) return;
    if (reduce_ == Reduce::library)
      transport_->all_reduce(tensor);
    else
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
