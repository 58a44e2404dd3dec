#include "hyperion/data/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::data {
namespace {

constexpr int64_t kCycle = 4096;  // positions in which every set has its share, to the nearest whole number

int64_t feistel(int64_t position, int64_t count, base::StreamKey key, uint32_t epoch) {
  int half_bits = 1;
  while (int64_t{1} << (2 * half_bits) < count) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint64_t mixed = base::philox(key, right, epoch, round).word[0] & mask;
      const uint64_t next = left ^ mixed;
      left = right, right = next;
    }
    value = left << half_bits | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

// Whole numbers that add up to kCycle, each nearest to its weight's part and none 0: what is left goes to those that
// lost most.
std::vector<int64_t> shares(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> slots;
  std::vector<std::pair<double, size_t>> lost;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / sum * static_cast<double>(kCycle);
    slots.push_back(std::max<int64_t>(1, static_cast<int64_t>(exact)));
    lost.emplace_back(static_cast<double>(slots.back()) - exact, i);
  }
  std::sort(lost.begin(), lost.end());
  int64_t left = kCycle - std::accumulate(slots.begin(), slots.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % lost.size(), --left) ++slots[lost[i].second];
  for (; left < 0; ++left) --*std::max_element(slots.begin(), slots.end());
  return slots;
}

}  // namespace

int64_t shuffled(int64_t position, int64_t count, uint64_t seed, int64_t epoch) {
  HYPERION_CHECK(position >= 0 && position < count, "a position lies inside its epoch");
  return feistel(position, count, base::stream_key(seed, "data.order"), static_cast<uint32_t>(epoch));
}

Order::Order(std::vector<int64_t> counts, std::vector<double> weights, uint64_t seed)
    : counts_(std::move(counts)), mixture_(base::stream_key(seed, "data.mixture")) {
  HYPERION_CHECK(!counts_.empty() && counts_.size() <= kCycle / 2, "an order has sets, and not too many");
  for (const int64_t count : counts_) HYPERION_CHECK(count > 0, "a set in an order has samples");
  if (weights.empty()) weights.assign(counts_.begin(), counts_.end());
  slots_ = shares(weights);
  begins_.resize(counts_.size());
  std::exclusive_scan(counts_.begin(), counts_.end(), begins_.begin(), int64_t{0});
  for (size_t set = 0; set < counts_.size(); ++set)
    keys_.push_back(base::stream_key(seed, set == 0 ? "data.order" : base::format("data.order/{}", set)));
}

int64_t Order::samples() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

// Every cycle is a shuffle of its slots; a slot knows its set and how many of that set came before, so nothing has to
// be counted.
Order::Drawn Order::at(int64_t position) const {
  size_t set = 0;
  if (counts_.size() > 1) {
    const int64_t cycle = position / kCycle;
    int64_t slot = feistel(position % kCycle, kCycle, mixture_, static_cast<uint32_t>(cycle));
    while (slot >= slots_[set]) slot -= slots_[set++];
    position = cycle * slots_[set] + slot;
  }
  const int64_t count = counts_[set], epoch = position / count;
  return {begins_[set] + feistel(position % count, count, keys_[set], static_cast<uint32_t>(epoch)), epoch};
}

}  // namespace hyperion::data
