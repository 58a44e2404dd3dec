// The processes of a run, and the groups they talk in. A run of one process has them too: they talk to no one.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "hyperion/comm/world.h"
#include "hyperion/parallel/config.h"
#include "hyperion/parallel/context_ring.h"
#include "hyperion/parallel/expert_wires.h"
#include "hyperion/parallel/pipeline_wires.h"
#include "hyperion/parallel/tensor_shards.h"
#include "hyperion/strategy/mesh.h"

namespace hyperion::parallel {

class Processes {
 public:
  // Throws ConfigError where the layout asks for another number of processes. `gpu`: each has a GPU of its own.
  Processes(std::shared_ptr<comm::World> world, const ParallelConfig& config, bool gpu = false);
  static std::unique_ptr<Processes> alone(const ParallelConfig& config, bool gpu = false);

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  bool first() const { return rank() == 0; }
  const strategy::Mesh& mesh() const { return mesh_; }
  // Of the processes that have other samples of a step, which is not all of them where some hold parts of one model.
  int64_t batch_index() const { return mesh_.index(strategy::kBatchAxes); }
  int64_t batch_count() const { return mesh_.size(strategy::kBatchAxes); }
  // Of the processes that have other tokens of a step: gradients are sums over them, and ZeRO cuts among them.
  int64_t copy_index() const { return mesh_.index(strategy::kLossAxes); }
  int64_t copy_count() const { return mesh_.size(strategy::kLossAxes); }
  comm::World& world() { return *world_; }
  std::string text() const;  // "4 processes over gloo, dp=4, zero 2"; empty for one

  // Each with wires of its own, so that none waits behind another: agreements, checkpoints, gradients, gathered
  // weights, and batch norms (where asked for). Of dp=RxS, gradients and weights are those of the S (times cp) that
  // hold one copy of the state between them, and replicas the R processes that hold the same part of it (else null).
  comm::Group& control() { return *control_; }
  comm::Group& saves() { return *saves_; }
  comm::Group& gradients() { return *gradients_; }
  comm::Group& weights() { return *weights_; }
  comm::Group* statistics() { return statistics_.get(); }
  comm::Group* replicas() { return replicas_.get(); }
  // ZeRO++: the processes of this machine, and those of the same place on each; else null.
  comm::Group* node() { return node_.get(); }
  comm::Group* across_nodes() { return across_nodes_.get(); }
  // Of a pipeline: the processes that have its stages; of them the first and the last, which both have a tied table;
  // and the wires between neighbours. Else null, and no wires.
  comm::Group* stages() { return stages_.get(); }
  comm::Group* ends() { return ends_.get(); }
  const PipelineLinks& links() const { return wires_.links(); }
  int64_t stage() const { return mesh_.index(strategy::Axis::pp); }
  // Of layers that are cut: what modules see of it, else null. And of its processes `count` that follow each other,
  // this one among them, which all of them ask for alike.
  nn::Shards* shards() { return shards_ ? &*shards_ : nullptr; }
  comm::Group& neighbours(int64_t count);
  // Of samples whose tokens are cut: what modules see of it, else null.
  nn::Context* context() { return ring_ ? &*ring_ : nullptr; }
  // Of experts that processes share out: what modules see of it, else null; and the groups of those that hold the same
  // experts, for gradients and gathered weights.
  nn::ExpertPeers* experts() { return expert_wires_ ? &*expert_wires_ : nullptr; }
  comm::Group* expert_peers() { return experts_.get(); }
  comm::Group& expert_gradients() { return *expert_gradients_; }
  comm::Group& expert_weights() { return *expert_weights_; }
  comm::Group& expert_copies() { return *expert_copies_; }  // by way of the host
  // A forward of the model takes others, who hold what this one does not: stages, shards or experts.
  bool share_model() const { return stages_ || layers_ || experts_; }
  // All that hold one copy of the model between them, in stages, in shards or in both; else null. Experts aside.
  comm::Group* model() { return model_ ? model_.get() : stages_ ? stages_.get() : layers_.get(); }
  // Those that have the same weights, but for what ZeRO cuts among them; they talk by way of the host.
  comm::Group& copies() { return copies_ ? *copies_ : *control_; }
  // All that share the batch go on with the first one's values.
  void follow_first(const at::Tensor& tensor, const std::string& caller);
  // Who writes into checkpoints what is cut among processes, and what is not; and experts that are shared out: those
  // that hold the first copy of the model between them.
  bool first_copy() const { return !replicas_ || replicas_->rank() == 0; }
  bool first_of_batch() const { return copy_index() == 0; }
  bool in_first_model() const { return copy_index() < mesh_.layout().ep; }

  // Whether a graph can record what a step asks of them on this device. Between the two it does; what the second
  // returns is to be called at each replay, so that its calls count.
  bool recordable(c10::Device device) const;
  void begin_recording();
  std::function<void()> end_recording();

  // Of all groups since the start.
  comm::Traffic traffic() const;
  // "gradients reduce_scatter gradients" -> what it moved since the start.
  std::map<std::string, comm::Traffic> traffic_by_caller() const;

  // What each rank brings to a step, summed or taken from the first that has one.
  struct Step {
    int64_t counted = 0;    // targets
    uint64_t hash = 0;      // of samples
    int stop = 0;           // a signal that asked to stop
    int64_t rows = 0;       // samples
    int64_t documents = 0;  // in any of their rows, at most
    int64_t fewest = 0;     // samples that any process has; found by `agree`
  };
  Step agree(const Step& own);
  // Beside each of these every rank tells what it last said here; what all told with the last one, by rank.
  using Told = std::array<int64_t, 8>;
  void tell(const Told& own) { own_told_ = own; }
  const std::vector<Told>& told() const { return told_; }

 private:
  std::vector<comm::Group*> groups() const;  // that are there
  std::vector<comm::Group*> step_groups() const;
  std::vector<comm::Group*> recorded_groups() const;

  std::shared_ptr<comm::World> world_;
  strategy::Mesh mesh_;
  int64_t zero_;
  std::unique_ptr<comm::Group> control_, saves_, gradients_, weights_, statistics_, replicas_, node_, across_nodes_;
  std::unique_ptr<comm::Group> stages_, ends_, copies_, layers_, model_, context_;
  std::unique_ptr<comm::Group> experts_, expert_gradients_, expert_weights_, expert_copies_;
  std::map<int64_t, std::unique_ptr<comm::Group>> neighbours_;
  std::optional<TensorShards> shards_;
  std::optional<ContextRing> ring_;
  std::optional<ExpertWires> expert_wires_;
  PipelineWires wires_;
  comm::Backend backend_ = comm::Backend::host;
  comm::Reduce reduce_ = comm::Reduce::fixed;
  bool check_calls_ = false;
  Told own_told_ = {};
  std::vector<Told> told_;
};

}  // namespace hyperion::parallel
