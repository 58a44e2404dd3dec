#include "hyperion/strategy/mesh.h"

#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {
namespace {

constexpr Axes kExpertAxes = Axis::dp_shard | Axis::cp;  // that experts are spread over

constexpr Axis axis_at(int place) { return static_cast<Axis>(place); }

}  // namespace

Mesh::Mesh(const Layout& layout, int rank) : layout_(layout), rank_(rank) {
  HYPERION_CHECK(rank >= 0 && rank < layout.processes(), "a rank is one of the layout's processes");
  if (size(kExpertAxes) % layout.ep != 0)
    throw base::ConfigError(
        base::format("--parallel {}: ep = {} does not divide the {} processes that share the batch and the sequence",
                     layout.text(), layout.ep, size(kExpertAxes)),
        base::format("experts are spread over these: use ep={}, or as many of dp as ep divides",
                     std::gcd(size(kExpertAxes), layout.ep)));
  int64_t left = rank;
  for (int place = kAxes - 1; place >= 0; --place) {
    indices_[place] = left % size_of(axis_at(place));
    left /= size_of(axis_at(place));
  }
}

int64_t Mesh::size_of(Axis axis) const {
  switch (axis) {
    case Axis::pp:
      return layout_.pp;
    case Axis::dp_replicate:
      return layout_.dp_replicate;
    case Axis::dp_shard:
      return layout_.dp_shard;
    case Axis::cp:
      return layout_.cp;
    case Axis::tp:
      return layout_.tp;
  }
  return 1;
}

int64_t Mesh::size(Axes axes) const {
  int64_t count = 1;
  for (int place = 0; place < kAxes; ++place)
    if (axes.has(axis_at(place))) count *= size_of(axis_at(place));
  return count;
}

int64_t Mesh::index(Axes axes) const {
  int64_t found = 0;
  for (int place = 0; place < kAxes; ++place)
    if (axes.has(axis_at(place))) found = found * size_of(axis_at(place)) + indices_[place];
  return found;
}

std::vector<int> Mesh::peers(Axes axes) const {
  std::vector<int> ranks = {0};
  for (int place = 0; place < kAxes; ++place) {
    const int64_t count = size_of(axis_at(place));
    std::vector<int> longer;
    for (const int rank : ranks)
      for (int64_t index = 0; index < count; ++index)
        if (axes.has(axis_at(place)) || index == indices_[place])
          longer.push_back(static_cast<int>(rank * count + index));
    ranks = std::move(longer);
  }
  return ranks;
}

std::vector<int> Mesh::expert_peers() const {
  const auto all = peers(kExpertAxes);
  const auto first = all.begin() + index(kExpertAxes) / layout_.ep * layout_.ep;
  return {first, first + layout_.ep};
}

std::vector<int> Mesh::expert_copies() const {
  const auto all = peers(kExpertAxes);
  std::vector<int> ranks;
  for (size_t place = static_cast<size_t>(index(kExpertAxes) % layout_.ep); place < all.size();
       place += static_cast<size_t>(layout_.ep))
    ranks.push_back(all[place]);
  return ranks;
}

}  // namespace hyperion::strategy
