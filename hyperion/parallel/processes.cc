#include "hyperion/parallel/processes.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"

namespace hyperion::parallel {
namespace {

// GPU to GPU only where every rank can.
comm::Backend agreed_backend(comm::Group& control, bool gpu) {
  if (control.size() == 1) return gpu ? comm::Backend::gpu : comm::Backend::host;
  const auto all = control.gather_text(gpu && comm::has_gpu_backend() ? "gpu" : "host", "wires");
  const auto without = std::count(all.begin(), all.end(), "host");
  if (without == 0) return comm::Backend::gpu;
  if (without < control.size() && control.rank() == 0) {
    const auto rank = std::find(all.begin(), all.end(), "host") - all.begin();
    base::log_warn(
        base::format("rank {}{} cannot reach other GPUs from a GPU of its own: all ranks talk by way of the host", rank,
                     without > 1 ? base::format(" and {} others", without - 1) : ""));
  }
  return comm::Backend::host;
}

}  // namespace

Processes::Processes(std::shared_ptr<comm::World> world, const ParallelConfig& config, bool gpu)
    : world_(std::move(world)), mesh_(layout_of(config, world_->size()), world_->rank()), zero_(config.zero) {
  using strategy::Axis;
  const bool hybrid = mesh_.size(Axis::dp_replicate) > 1 && config.zero > 0;
  const auto sharers = mesh_.peers(hybrid ? Axis::dp_shard | Axis::cp : strategy::kLossAxes);
  control_ = world_->group("control");
  if (config.check_calls) control_->check_calls();
  const auto wires = agreed_backend(*control_, gpu);
  saves_ = world_->group("saves");
  gradients_ = world_->group("gradients", wires, sharers);
  weights_ = world_->group("weights", wires, sharers);
  if (hybrid) replicas_ = world_->group("replicas", wires, mesh_.peers(Axis::dp_replicate));
  if (config.zeropp.nodes()) {
    const int told = config.node_size > 0 ? static_cast<int>(config.node_size) : world_->local_size();
    const int local = told > 0 && size() % told == 0 ? told : size();
    std::vector<int> node, across;
    for (int i = 0; i < local; ++i) node.push_back(rank() / local * local + i);
    for (int i = rank() % local; i < size(); i += local) across.push_back(i);
    node_ = world_->group("node", wires, node);
    across_nodes_ = world_->group("across nodes", wires, across);
  }
  if (mesh_.size(Axis::pp) > 1) {
    const auto peers = mesh_.peers(Axis::pp);
    const bool v = strategy::is_v(config.schedule);  // whose first process has the last stage too
    const bool end = !v && (rank() == peers.front() || rank() == peers.back());
    stages_ = world_->group("stages", wires, peers);
    ends_ =
        world_->group("tied weights", wires, end ? std::vector<int>{peers.front(), peers.back()} : std::vector{rank()});
    wires_ = PipelineWires(*world_, mesh_, config.schedule, config.stages(), wires);
  }
  // A shard that is all there is, to try and to time what shards do: their sums then are of one. Of tokens likewise.
  const auto one = [&](const char* axis) {
    return world_->wires_for_one() && config.layout.find(axis) != config.layout.npos;
  };
  if (mesh_.size(Axis::tp) > 1 || one("tp=1")) {
    layers_ = world_->group("layers", wires, mesh_.peers(Axis::tp));
    shards_.emplace(*layers_);
    if (stages_) model_ = world_->group("model", wires, mesh_.peers(Axis::pp | Axis::tp));
  }
  if (stages_ || layers_) copies_ = world_->group("copies", comm::Backend::host, mesh_.peers(strategy::kLossAxes));
  if (mesh_.size(Axis::cp) > 1 || one("cp=1")) {
    context_ = world_->group("context", wires, mesh_.peers(Axis::cp));
    ring_.emplace(*context_, config.context);
  }
  if (mesh_.layout().ep > 1) {
    const auto copies = mesh_.expert_copies();
    experts_ = world_->group("experts", wires, mesh_.expert_peers());
    expert_wires_.emplace(*experts_);
    expert_gradients_ = world_->group("expert gradients", wires, copies);
    expert_weights_ = world_->group("expert weights", wires, copies);
    expert_copies_ = world_->group("expert copies", comm::Backend::host, copies);
  }
  if (config.sync_batch_norm) statistics_ = world_->group("statistics", wires);
  const bool library =
      config.reduce == ReduceChoice::library || (config.reduce == ReduceChoice::automatic && !config.same_bits &&
                                                 wires == comm::Backend::gpu && comm::has_gpu_backend());
  backend_ = wires, reduce_ = library ? comm::Reduce::library : comm::Reduce::fixed, check_calls_ = config.check_calls;
  for (auto* group : step_groups()) group->reduce_by(reduce_);
  if (config.check_calls)
    for (auto* group : groups()) group->check_calls();
}

std::vector<comm::Group*> Processes::step_groups() const {
  std::vector<comm::Group*> list = {gradients_.get(),
                                    weights_.get(),
                                    statistics_.get(),
                                    replicas_.get(),
                                    node_.get(),
                                    across_nodes_.get(),
                                    stages_.get(),
                                    ends_.get(),
                                    layers_.get(),
                                    model_.get(),
                                    context_.get(),
                                    experts_.get(),
                                    expert_gradients_.get(),
                                    expert_weights_.get()};
  std::erase(list, nullptr);
  for (const auto& [count, group] : neighbours_) list.push_back(group.get());
  for (auto* link : wires_.groups()) list.push_back(link);
  return list;
}

std::vector<comm::Group*> Processes::groups() const {
  auto list = step_groups();
  list.insert(list.begin(), {control_.get(), saves_.get()});
  for (auto* copies : {copies_.get(), expert_copies_.get()})
    if (copies != nullptr) list.push_back(copies);
  return list;
}

comm::Group& Processes::neighbours(int64_t count) {
  if (count == layers_->size()) return *layers_;
  auto& group = neighbours_[count];
  if (group) return *group;
  const auto peers = mesh_.peers(strategy::Axis::tp);
  const auto first = peers.begin() + mesh_.index(strategy::Axis::tp) / count * count;
  group = world_->group(base::format("{} shards", count), backend_, {first, first + count});
  group->reduce_by(reduce_);
  if (check_calls_) group->check_calls();
  return *group;
}

void Processes::follow_first(const at::Tensor& tensor, const std::string& caller) {
  if (replicas_) replicas_->broadcast(tensor, 0, caller).wait();
  gradients_->broadcast(tensor, 0, caller).wait();
}

bool Processes::recordable(c10::Device device) const {
  if (experts_) return false;  // what a rank asks for depends on where its tokens go
  const auto list = recorded_groups();
  return std::all_of(list.begin(), list.end(), [&](const auto* group) { return group->recordable(device); });
}

// Of stages what is computed is recorded, and not what passes between them.
std::vector<comm::Group*> Processes::recorded_groups() const {
  if (!stages_) return step_groups();
  std::vector<comm::Group*> list = {layers_.get(), context_.get()};
  std::erase(list, nullptr);
  return list;
}

void Processes::begin_recording() {
  for (auto* group : recorded_groups()) group->begin_recording();
}

std::function<void()> Processes::end_recording() {
  std::vector<std::pair<comm::Group*, comm::TrafficByCaller>> recorded;
  for (auto* group : recorded_groups()) recorded.emplace_back(group, group->end_recording());
  return [recorded = std::move(recorded)] {
    for (const auto& [group, traffic] : recorded) group->replayed(traffic);
  };
}

std::unique_ptr<Processes> Processes::alone(const ParallelConfig& config, bool gpu) {
  return std::make_unique<Processes>(comm::World::join(host::Launch{}), config, gpu);
}

std::string Processes::text() const {
  if (size() == 1) return {};
  const auto list = step_groups();
  const auto wires = std::find_if(list.begin(), list.end(), [](const auto* group) { return group->size() > 1; });
  return base::format("{} processes over {}, {}, zero {}", size(), (*wires)->kind(), mesh_.layout().text(), zero_);
}

std::map<std::string, comm::Traffic> Processes::traffic_by_caller() const {
  std::map<std::string, comm::Traffic> all;
  for (const auto* group : groups()) {
    if (group == saves_.get()) continue;  // saves may go on in the background: nobody's step waits for them
    for (const auto& [key, traffic] : group->traffic()) all[group->name() + " " + key] += traffic;
  }
  return all;
}

comm::Traffic Processes::traffic() const {
  comm::Traffic sum;
  for (const auto& [key, traffic] : traffic_by_caller()) sum += traffic;
  return sum;
}

Processes::Step Processes::agree(const Step& own) {
  Step step;
  if (size() == 1) {
    step = own, step.fewest = own.rows;
    told_ = {std::exchange(own_told_, {})};
    return step;
  }
  constexpr int64_t kAgreed = 5, kTold = kAgreed + std::tuple_size_v<Told>;
  const auto here = at::empty({kTold}, at::kLong), all = at::empty({size(), kTold}, at::kLong);
  auto* values = here.mutable_data_ptr<int64_t>();
  values[0] = own.counted, values[1] = static_cast<int64_t>(own.hash), values[2] = own.stop, values[3] = own.rows;
  values[4] = own.documents;
  std::ranges::copy(std::exchange(own_told_, {}), values + kAgreed);
  control_->all_gather(all, here, "step").wait();
  step.fewest = own.rows;
  told_.resize(static_cast<size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) {
    const auto* told = all.const_data_ptr<int64_t>() + kTold * rank;
    // Who holds another part of one model brings the same targets, and of one sequence the same samples.
    const strategy::Mesh other(mesh_.layout(), rank);
    if (other.index(strategy::Axis::pp | strategy::Axis::tp) == 0) {
      step.counted += told[0];
      if (other.index(strategy::Axis::cp) == 0) step.hash += static_cast<uint64_t>(told[1]), step.rows += told[3];
    }
    step.fewest = std::min(step.fewest, told[3]);
    step.documents = std::max(step.documents, told[4]);
    if (step.stop == 0) step.stop = static_cast<int>(told[2]);
    std::copy_n(told + kAgreed, told_.front().size(), told_[static_cast<size_t>(rank)].begin());
  }
  return step;
}

}  // namespace hyperion::parallel
