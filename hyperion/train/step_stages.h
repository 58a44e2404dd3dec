// What of its model a process holds and runs, and in which order: all of it, or the stages of a pipeline that are its
// own, of each layer all or the shard that is its own, of each mixture all experts or those that are its own.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hyperion/models/model.h"
#include "hyperion/models/stage.h"
#include "hyperion/strategy/plan.h"
#include "hyperion/train/config.h"
#include "hyperion/train/feed.h"

namespace hyperion::parallel {
struct StagedWeights;
}

namespace hyperion::train {

class StepStages {
 public:
  // Throws ConfigError where the model cannot be cut so.
  StepStages(models::Model& model, const RunConfig& config, const strategy::Mesh& mesh);

  bool whole() const { return stages_.size() == 1; }         // there is no pipeline
  bool is_first() const { return index_ == 0; }              // of its processes
  bool is_last() const { return index_ == last_process(); }  // which gives the loss
  int64_t last_process() const { return pipeline_.last_rank(); }
  bool splits_backward() const { return strategy::splits_backward(pipeline_.schedule); }
  int64_t chunks() const { return pipeline_.chunks; }                       // stages of a process
  std::vector<int64_t> own() const { return pipeline_.stages_of(index_); }  // their numbers, in the forward's order
  bool is_own(int64_t number) const { return pipeline_.rank_of(number) == index_; }
  const models::Stage& stage(int64_t number) const { return stages_[static_cast<size_t>(number)]; }
  // Of what one stage gives to the next; in training, by sequence, of a part of it.
  std::vector<int64_t> hidden_shape(const at::Tensor& inputs, bool training) const;
  int64_t beside() const { return beside_; }  // numbers that it gives beside that
  bool owns(const std::string& parameter) const;
  bool spreads(const std::string& parameter) const;  // of an expert that not all processes hold
  parallel::StagedWeights weights() const;           // of all stages

  // Of the parameters those of this process, and of these its shards; the others lose their memory. With `values` those
  // that came without get it, unless they are to be held in pieces.
  std::vector<nn::Parameter> take_own(models::Model& model, const models::Values& values, bool pieces);
  // Of the shards that this process has.
  models::Values values_of_shards(const models::Values& values) const;

  // What this process does of a step, with the shapes of this batch in so many parts.
  std::vector<strategy::Instruction> list(const Batch& batch, int64_t parts) const;
  strategy::Plan plan(int64_t micro_batches) const;  // of one pipeline
  std::string text() const;  // "2 stages of 6 and 6 blocks, 1f1b over 4 micro-batches: 20% of a step is waited"

 private:
  bool owns_expert(const std::string& parameter) const;
  void leave_others_packed(models::Model& model) const;
  void cut(nn::Parameter& parameter);
  void cut_packed(models::Model& model) const;

  strategy::Pipeline pipeline_;
  int64_t index_ = 0;  // of this process in the pipeline
  int64_t beside_ = 0;
  int64_t shards_ = 1, shard_ = 0;
  bool by_sequence_ = false;
  int64_t expert_peers_ = 1, expert_index_ = 0;
  std::vector<strategy::CutRule> rules_;                   // of the model; empty: it lies on no process but in stages
  std::map<std::string, strategy::Placement> placements_;  // of what is cut
  strategy::PlannedModel planned_;
  std::vector<models::Stage> stages_;
};

// Throws ConfigError where so many processes cannot train that model (a config.json) in the layout of the config:
// before any of it is made.
void check_layout(const RunConfig& config, const std::string& model_config, int64_t processes);
// In place of parallel.layout = "auto" the first of its layouts that so many processes can train that model in.
void settle_layout(RunConfig& config, const std::string& model_config, int64_t processes);

}  // namespace hyperion::train
