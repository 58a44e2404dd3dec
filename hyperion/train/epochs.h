// Epochs: an epoch is every sample of the training data once. Batches run on over its end; the last batch of a run of
// epochs has what is left.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "hyperion/data/source.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

int64_t epoch_samples(const RunConfig& config, const data::Split& split);

// Of a run that is told its epochs; else 0, and train.steps alone says where it ends.
int64_t samples_in_all(const RunConfig& config, const data::Split& split);

// What a run has behind it, perhaps with another batch.
struct Behind {
  int64_t steps = 0, samples = 0;
};

// Sets train.steps from train.epochs, where that is set; a warm-up that is longer becomes a tenth of them, which the
// line returned says. Throws ConfigError where the last batch cannot be shared by the processes.
std::string settle_epochs(RunConfig& config, const data::Split& split, int64_t processes, Behind behind = {});

// Of the batch that begins at a position of the run.
inline int64_t rows_at(int64_t batch, int64_t in_all, int64_t position) {
  return in_all > 0 ? std::min(batch, in_all - position) : batch;
}

// "360 documents, 12 longer than train.length = 16 and split; 3 rows without a learned token left out". Empty where no
// document was cut or left out.
std::string cut_text(const RunConfig& config, const data::Split& split);

// "1,234 samples an epoch; 30 steps are 3 epochs"
std::string epochs_text(const RunConfig& config, const data::Split& split);
// Where a batch has more samples than the training data; else empty.
std::string small_set_text(const RunConfig& config, const data::Split& split);

// The mean loss and accuracy of each epoch, by samples: a batch that reaches over its end counts for both.
class EpochMeans {
 public:
  struct Mean {
    int64_t epoch;  // from 1
    double loss;
    std::optional<double> accuracy;  // where each step has one
  };
  explicit EpochMeans(int64_t samples) : samples_(samples) {}
  // A step over samples [begin, end) of the run; the epoch that it ends, if any: of several the last.
  std::optional<Mean> add(int64_t begin, int64_t end, double loss, std::optional<double> accuracy = {});

 private:
  int64_t samples_, seen_ = 0, judged_ = 0;  // judged_: that have an accuracy
  double sum_ = 0, right_ = 0;
};

}  // namespace hyperion::train
