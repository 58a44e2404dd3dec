// How good a model is on data it never saw.
#pragma once
#include <functional>
#include <vector>

#include "hyperion/data/source.h"
#include "hyperion/models/model.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/page.h"
#include "hyperion/train/config.h"
#include "hyperion/train/feed.h"

namespace hyperion::comm {
class Group;
}
namespace hyperion::parallel {
class TrainedWeights;
}

namespace hyperion::train {

// Over the first eval.batches batches of the validation half, in its own order: loss, with perplexity and token
// accuracy of language, or top-1 of images, and top-5 of more than 5 classes. It is computed in parts that neither
// train.accumulate nor the number of processes changes, and added up in their order: the same weights give the same
// bits.
// Several processes that share batches take the parts in turn, and all get the same record; a stop request does not cut
// them short. The model may give no logits (train/staged_model.h): another process then has them.
struct EvalRanks {
  comm::Group& group;                 // all of them
  parallel::TrainedWeights* weights;  // null: whole on each
  DataShard share;                    // this one's place among those that share batches
};
struct Evaluation : report::EvalRecord {
  int64_t counted = 0;  // tokens that were targets, or images
};
Evaluation evaluate(models::Model& model, at::Device device, const data::Split& split, const RunConfig& config,
                    const EvalRanks* among = nullptr);

struct Answers {
  double right = 0;                     // part of the questions answered exactly
  std::vector<report::Sample> samples;  // every question with what the model said
};

// Lets the model answer each question until the end of the line. `on_progress(done, all)` may be empty. `stoppable`: a
// stop request cuts it short.
Answers answer_questions(models::Model& model, at::Device device, const std::vector<data::Question>& questions,
                         const std::function<void(size_t, size_t)>& on_progress = nullptr, bool stoppable = true);

// A few of them as lines for people: question, answer, right or what was expected.
std::string sample_lines(const std::vector<report::Sample>& samples, size_t most);

}  // namespace hyperion::train
