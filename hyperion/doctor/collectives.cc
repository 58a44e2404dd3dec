#include "hyperion/doctor/collectives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/random.h"

namespace hyperion::doctor {
namespace {

constexpr const char* kMeasurement = "measurement";
constexpr int64_t kFloatBytes = sizeof(float), kDrawBytes = 16;  // numbers from one draw: a byte each

bool in_place(const std::string& name) { return name == "all_reduce" || name == "broadcast"; }
bool has_pieces(const std::string& name) {
  return name == "reduce_scatter" || name == "all_gather" || name == "all_to_all";
}

}  // namespace

const std::vector<std::string>& collective_names() {
  static const std::vector<std::string> names = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                                 "broadcast",  "send_receive",   "barrier"};
  return names;
}

double bus_factor(const std::string& collective, int ranks) {
  if (collective == "all_reduce") return 2.0 * (ranks - 1) / ranks;
  return has_pieces(collective) ? static_cast<double>(ranks - 1) / ranks : 1;
}

at::Tensor known_values(uint64_t seed, int rank, int64_t first, int64_t count) {
  const auto key = base::stream_key(seed, "known values");
  const auto values = at::empty({count}, at::kFloat);
  float* const out = values.mutable_data_ptr<float>();
  for (int64_t i = first; i < first + count;) {
    const auto words = base::philox(key, static_cast<uint64_t>(i / kDrawBytes), static_cast<uint32_t>(rank), 0);
    const int64_t end = std::min((i / kDrawBytes + 1) * kDrawBytes, first + count);
    for (; i < end; ++i) {
      const auto place = static_cast<unsigned>(i % kDrawBytes);
      out[i - first] = static_cast<float>(static_cast<int8_t>(words.word[place / 4] >> (8 * (place % 4))));
    }
  }
  return values;
}

KnownCollective::KnownCollective(comm::Group& group, c10::Device device, const std::string& name, int64_t bytes)
    : group_(group), name_(name) {
  const auto& names = collective_names();
  HYPERION_CHECK(std::find(names.begin(), names.end(), name) != names.end(), "no such collective");
  if (name == "barrier") return;
  const int64_t ranks = group.size(), count = std::max<int64_t>(bytes / kFloatBytes, 1);
  piece_ = has_pieces(name) ? std::max<int64_t>(count / ranks, 1) : (count + ranks - 1) / ranks;
  const int64_t whole = has_pieces(name) ? piece_ * ranks : count;
  const auto options = at::TensorOptions(at::kFloat).device(device);
  in_ = at::zeros({name == "all_gather" ? piece_ : whole}, options);
  out_ = in_place(name) ? in_ : at::zeros({name == "reduce_scatter" ? piece_ : whole}, options);
}

int64_t KnownCollective::bytes() const {
  if (!in_.defined()) return 0;
  return kFloatBytes * (has_pieces(name_) ? piece_ * group_.size() : in_.numel());
}

void KnownCollective::fill(uint64_t seed) {
  seed_ = seed, zeros_ = false;
  root_ = static_cast<int>(seed % static_cast<uint64_t>(group_.size()));
  if (!in_.defined()) return;
  out_.zero_();
  if (name_ == "broadcast" && group_.rank() != root_) return;  // it has only what comes
  in_.copy_(known_values(seed, group_.rank(), 0, in_.numel()));
}

void KnownCollective::fill_zeros() {
  zeros_ = true;
  if (in_.defined()) in_.zero_();
}

void KnownCollective::call() {
  const int ranks = group_.size(), rank = group_.rank();
  if (name_ == "all_reduce") return group_.all_reduce(in_, kMeasurement).wait();
  if (name_ == "reduce_scatter") return group_.reduce_scatter(out_, in_, kMeasurement).wait();
  if (name_ == "all_gather") return group_.all_gather(out_, in_, kMeasurement).wait();
  if (name_ == "broadcast") return group_.broadcast(in_, root_, kMeasurement).wait();
  if (name_ == "barrier") return group_.barrier(kMeasurement).wait();
  if (name_ == "all_to_all") {
    const comm::Transport::Counts even(static_cast<size_t>(ranks), piece_);
    return group_.all_to_all(out_, in_, even, even, kMeasurement).wait();
  }
  group_.exchange({{in_, (rank + 1) % ranks}}, {{out_, (rank + ranks - 1) % ranks}}, kMeasurement).wait();
}

at::Tensor KnownCollective::sum(int64_t first, int64_t count) const {
  auto total = known_values(seed_, 0, first, count);
  for (int other = 1; other < group_.size(); ++other) total.add_(known_values(seed_, other, first, count));
  return total;
}

at::Tensor KnownCollective::expected(int from, int64_t first, int64_t count) const {
  if (zeros_) return at::zeros({count}, at::kFloat);
  if (name_ == "all_reduce") return sum(first, count);
  if (name_ == "reduce_scatter") return sum(group_.rank() * piece_, count);
  if (name_ == "all_to_all") return known_values(seed_, from, group_.rank() * piece_, count);
  return known_values(seed_, from, name_ == "all_gather" ? 0 : first, count);
}

std::map<int, int64_t> KnownCollective::wrong() const {
  std::map<int, int64_t> found;
  if (!out_.defined()) return found;
  const auto compare = [&](int from, int64_t first, int64_t count) {
    if (count <= 0) return;
    const auto here = out_.narrow(0, first, count);
    const auto differ = here.ne(expected(from, first, count).to(out_.device())).sum().item<int64_t>();
    if (differ > 0) found[from] += differ;
  };
  const int ranks = group_.size(), rank = group_.rank();
  if (name_ == "reduce_scatter")
    compare(rank, 0, piece_);
  else if (name_ == "broadcast")
    compare(root_, 0, out_.numel());
  else if (name_ == "send_receive")
    compare((rank + ranks - 1) % ranks, 0, out_.numel());
  else
    for (int from = 0; from < ranks; ++from)
      compare(from, from * piece_, std::min(piece_, out_.numel() - from * piece_));
  return found;
}

}  // namespace hyperion::doctor
