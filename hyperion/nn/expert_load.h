// How evenly routers share out a step's tokens: counted layer by layer as they choose, on the device, and read when the
// step is over.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace hyperion::nn {

class Module;
class RoutedExperts;

// What was counted, of all sparse layers of a model.
struct ExpertLoad {
  double busiest = 0;             // the most that an expert of any layer got, as a multiple of an even share
  double idle = 0;                // part of all layers' experts that got nothing
  std::optional<double> dropped;  // part of the choices that found no room; of experts with a capacity
};

// The counters of a tree's mixtures, one row a layer in the order of the tree; layers of other stages stay at zero.
class ExpertCounters {
 public:
  // Undefined where the tree has no mixture.
  explicit ExpertCounters(Module* tree = nullptr, at::Device device = at::kCPU);
  ~ExpertCounters();
  ExpertCounters(ExpertCounters&&) noexcept;
  ExpertCounters& operator=(ExpertCounters&&) noexcept;
  const at::Tensor& counted() const { return counted_; }  // int32 [layers, experts + 1], of this process's tokens
  void begin_step();

 private:
  std::vector<RoutedExperts*> layers_;
  at::Tensor counted_;
};

// Of counters that were added up over all processes, on the host.
ExpertLoad load_of(const at::Tensor& counted, bool with_capacity);

}  // namespace hyperion::nn
