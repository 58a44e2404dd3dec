#include "hyperion/parallel/processes.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "hyperion/base/format.h"

namespace hyperion::parallel {

Processes::Processes(std::shared_ptr<comm::World> world, const ParallelConfig& config, bool gpu)
    : world_(std::move(world)), mesh_(layout_of(config, world_->size()), world_->rank()), zero_(config.zero) {
  using strategy::Axis;
  const auto wires = gpu ? comm::Wires::gpu : comm::Wires::host;
  const bool hybrid = mesh_.size(Axis::dp_replicate) > 1 && config.zero > 0;
  const auto sharers = mesh_.peers(hybrid ? strategy::Axes(Axis::dp_shard) : strategy::kBatchAxes);
  control_ = world_->group("control");
  gradients_ = world_->group("gradients", wires, sharers);
  weights_ = world_->group("weights", wires, sharers);
  if (hybrid) replicas_ = world_->group("replicas", wires, mesh_.peers(Axis::dp_replicate));
  if (zeropp_of(config).nodes()) {
    const int told = config.node_size > 0 ? static_cast<int>(config.node_size) : world_->local_size();
    const int local = told > 0 && size() % told == 0 ? told : size();
    std::vector<int> node, across;
    for (int i = 0; i < local; ++i) node.push_back(rank() / local * local + i);
    for (int i = rank() % local; i < size(); i += local) across.push_back(i);
    node_ = world_->group("node", wires, node);
    across_nodes_ = world_->group("across nodes", wires, across);
  }
  if (config.sync_batch_norm) statistics_ = world_->group("statistics", wires);
  for (auto* group : {control_.get(), gradients_.get(), weights_.get(), statistics_.get(), replicas_.get(), node_.get(),
                      across_nodes_.get()})
    if (group != nullptr && config.check_calls) group->check_calls();
}

std::unique_ptr<Processes> Processes::alone(const ParallelConfig& config) {
  return std::make_unique<Processes>(comm::World::join(host::Launch{}), config);
}

std::string Processes::text() const {
  if (size() == 1) return {};
  const auto& wires = gradients_->size() == 1 && replicas_ != nullptr ? replicas_ : gradients_;
  return base::format("{} processes over {}, {}, zero {}", size(), wires->kind(), mesh_.layout().text(), zero_);
}

std::map<std::string, comm::Traffic> Processes::traffic_by_caller() const {
  std::map<std::string, comm::Traffic> all;
  for (const auto* group : {control_.get(), gradients_.get(), weights_.get(), statistics_.get(), replicas_.get(),
                            node_.get(), across_nodes_.get()})
    if (group != nullptr)
      for (const auto& [key, traffic] : group->traffic()) all[group->name() + " " + key] = traffic;
  return all;
}

comm::Traffic Processes::traffic() const {
  comm::Traffic sum;
  for (const auto& [key, traffic] : traffic_by_caller()) {
    sum.calls += traffic.calls;
    sum.bytes += traffic.bytes;
    sum.seconds += traffic.seconds;
    sum.exposed += traffic.exposed;
  }
  return sum;
}

Processes::Step Processes::agree(const Step& own) {
  Step step;
  if (size() == 1) {
    step = own, step.fewest = own.rows;
    return step;
  }
  const auto here = at::empty({4}, at::kLong), all = at::empty({size(), 4}, at::kLong);
  auto* values = here.mutable_data_ptr<int64_t>();
  values[0] = own.counted, values[1] = static_cast<int64_t>(own.hash), values[2] = own.stop, values[3] = own.rows;
  control_->all_gather(all, here, "step").wait();
  step.fewest = own.rows;
  for (int rank = 0; rank < size(); ++rank) {
    const auto* told = all.const_data_ptr<int64_t>() + 4 * rank;
    // Who holds another part of one model brings the same targets, and of one sequence the same samples.
    const strategy::Mesh other(mesh_.layout(), rank);
    if (other.index(strategy::Axis::pp | strategy::Axis::tp) == 0) {
      step.counted += told[0];
      if (other.index(strategy::Axis::cp) == 0) step.hash += static_cast<uint64_t>(told[1]), step.rows += told[3];
    }
    step.fewest = std::min(step.fewest, told[3]);
    if (step.stop == 0) step.stop = static_cast<int>(told[2]);
  }
  return step;
}

}  // namespace hyperion::parallel
