#include "hyperion/parallel/buckets.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace hyperion::parallel {
namespace {

int64_t aligned(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

}  // namespace

std::vector<Bucket> plan_buckets(const std::vector<nn::Parameter>& weights, const std::vector<int>& units,
                                 const BucketOptions& options) {
  using Key = std::tuple<int, bool, at::ScalarType, bool, int64_t>;
  std::vector<Bucket> buckets;
  std::map<Key, size_t> open;
  for (size_t i = 0; i < weights.size(); ++i) {
    const nn::Parameter& weight = weights[i];
    const bool trained = weight.tensor.requires_grad();
    if (!trained && !options.by_unit) continue;
    const Key key{options.by_unit ? units[i] : 0, trained, weight.tensor.scalar_type(), weight.name == options.alone,
                  weight.summed};
    auto found = open.find(key);
    if (found == open.end()) {
      found = open.emplace(key, buckets.size()).first;
      buckets.push_back({std::get<0>(key), trained, weight.tensor.scalar_type(), {}, 0, 0});
    }
    Bucket& bucket = buckets[found->second];
    bucket.places.push_back({i, bucket.length});
    bucket.length += aligned(weight.tensor.numel(), kAlign);
    if (!options.by_unit && bucket.length * static_cast<int64_t>(weight.tensor.element_size()) >= options.bytes)
      open.erase(found);
  }
  for (auto& bucket : buckets) {
    bucket.length = aligned(bucket.length, kAlign * options.ranks);
    bucket.piece = bucket.length / options.ranks;
  }
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) { return a.unit < b.unit; });
  return buckets;
}

std::vector<Slice> slices_of(const Bucket& bucket, const std::vector<nn::Parameter>& weights, int64_t rank) {
  const int64_t first = rank * bucket.piece, last = first + bucket.piece;
  std::vector<Slice> slices;
  for (const Place& place : bucket.places) {
    const int64_t begin = std::max(first, place.begin);
    const int64_t end = std::min(last, place.begin + weights[place.weight].tensor.numel());
    if (begin < end) slices.push_back({place.weight, begin - place.begin, begin - first, end - begin});
  }
  return slices;
}

}  // namespace hyperion::parallel
