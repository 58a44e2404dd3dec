// Training on random weights and samples that already lie on the device: what a step costs, and nothing else.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "hyperion/profile/step_timer.h"
#include "hyperion/train/config.h"

namespace hyperion::models {
class Model;
}
namespace hyperion::train {
struct Batch;
class Stepper;
}  // namespace hyperion::train

namespace hyperion::nn {
class Fp8Linears;
}

namespace hyperion::bench {

// The config's model with random weights, drawn on the device: one by one they would take longer than most benches.
std::unique_ptr<models::Model> random_model(const train::RunConfig& config, c10::Device device);

// Whether rows are documents side by side, as a run with data.packing = whole and data.reset = true has them of a
// prepared set. Their lengths are then log-normal, of mean 300 and standard deviation 200 (of rows shorter than 1200
// tokens, of a quarter of them and two thirds of that), cut to a row. They are fitted into rows as a run does it, and a
// batch is a random draw of these; what is left of a row is padding.
bool packs_documents(const train::RunConfig& config);

// How many batches take turns. Of documents so many that what they cost in the mean is what such documents cost: of
// three batches of 27 the longest documents, which padding goes by, may be a quarter too short.
int64_t random_batches(const train::RunConfig& config);

// On the CPU; train.batch rows of tokens below `vocabulary` and their successors, or images and labels below it. 0: the
// model's own number. Of documents there are others for each `index` below random_batches.
train::Batch random_batch(const train::RunConfig& config, const strategy::ModelShape& shape, int64_t vocabulary = 0,
                          int64_t index = 0);

// By row of a batch of documents, how many tokens of each are inputs; padding is none.
std::vector<std::vector<int64_t>> document_lengths(const train::Batch& batch);

// The shape of the model, or of it with the config's adapter, which is not made: no memory is taken.
strategy::ModelShape random_shape(const train::RunConfig& config);

// What a step on such batches is, in the mean.
struct StepWork {
  double tokens = 0;  // padding is none; 0: images
  double flops = 0;   // of forward and backward, causal attention by half, within documents
};
StepWork work_of_step(const train::RunConfig& config);

// Model, optimizer and batches in rotation, on the device.
class RandomTraining {
 public:
  // The config must outlive it.
  RandomTraining(const train::RunConfig& config, c10::Device device, int64_t vocabulary = 0);
  ~RandomTraining();
  RandomTraining(const RandomTraining&) = delete;
  RandomTraining& operator=(const RandomTraining&) = delete;

  void step();                           // queued; the device may still be at it
  void step(profile::StepTimer& timer);  // the same with marks
  double loss() const;                   // of the last step; waits for it
  int64_t batches() const;
  const strategy::ModelShape& shape() const { return shape_; }
  bool records() const;               // its steps as graphs
  const nn::Fp8Linears* fp8() const;  // null: the precision is another

 private:
  std::unique_ptr<models::Model> model_;
  strategy::ModelShape shape_;
  std::unique_ptr<train::Stepper> stepper_;
  std::vector<train::Batch> batches_;
  struct Last;
  std::unique_ptr<Last> last_;
  int64_t steps_ = 0;
};

}  // namespace hyperion::bench
