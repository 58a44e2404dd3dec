// Where a process stands among the others: its index along each axis of the layout, and who its peers are along any of
// them. A process alone has a mesh of one. Plain numbers; groups to talk in are made of them elsewhere.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/strategy/layout.h"

namespace hyperion::strategy {

// Outermost first: neighbours in rank differ along tp, whose traffic is the most.
enum class Axis { pp, dp_replicate, dp_shard, cp, tp };
constexpr int kAxes = 5;

// A set of them.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(Axis axis) : bits_(1u << static_cast<unsigned>(axis)) {}
  constexpr Axes operator|(Axes other) const { return Axes(bits_ | other.bits_); }
  constexpr bool has(Axis axis) const { return (bits_ & Axes(axis).bits_) != 0; }
  constexpr bool operator==(const Axes&) const = default;

 private:
  constexpr explicit Axes(unsigned bits) : bits_(bits) {}
  unsigned bits_ = 0;
};
constexpr Axes operator|(Axis a, Axis b) { return Axes(a) | Axes(b); }

// Processes that differ here have other samples; all others of a step have the same.
constexpr Axes kBatchAxes = Axis::dp_replicate | Axis::dp_shard;
// And here other targets, so that losses and gradients are sums over these.
constexpr Axes kLossAxes = kBatchAxes | Axis::cp;
constexpr Axes kAllAxes = kLossAxes | Axis::pp | Axis::tp;

class Mesh {
 public:
  Mesh() : Mesh(Layout{}, 0) {}
  // Throws ConfigError where ep does not divide dp_shard x cp, which it is carved out of.
  Mesh(const Layout& layout, int rank);

  const Layout& layout() const { return layout_; }
  int rank() const { return rank_; }
  int64_t size(Axes axes = kAllAxes) const;   // of the processes that differ along these axes alone
  int64_t index(Axes axes = kAllAxes) const;  // of this one among them
  // Their ranks, in the order of their index; this one's is among them.
  std::vector<int> peers(Axes axes) const;

  // Those that hold other experts of the same layers: `ep` that follow each other among dp_shard x cp. And those that
  // hold the same ones there.
  std::vector<int> expert_peers() const;
  std::vector<int> expert_copies() const;
  int64_t expert_index() const { return index(Axis::dp_shard | Axis::cp) % layout_.ep; }  // among the former

 private:
  int64_t size_of(Axis axis) const;

  Layout layout_;
  int rank_;
  int64_t indices_[kAxes] = {};
};

}  // namespace hyperion::strategy
