#include "hyperion/train/epochs.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::train {

using base::ConfigError;
using base::format;
using base::with_commas;

int64_t epoch_samples(const RunConfig& config, const data::Split& split) {
  return split.order(static_cast<uint64_t>(config.train.seed)).samples();
}

int64_t samples_in_all(const RunConfig& config, const data::Split& split) {
  return config.train.epochs == 0 ? 0 : config.train.epochs * epoch_samples(config, split);
}

std::string settle_epochs(RunConfig& config, const data::Split& split, int64_t processes, Behind behind) {
  if (config.train.epochs == 0) return {};
  const int64_t ahead = std::max<int64_t>(samples_in_all(config, split) - behind.samples, 0);
  const int64_t batch = config.train.batch;
  config.train.steps = behind.steps + (ahead + batch - 1) / batch;
  const int64_t samples = epoch_samples(config, split), left = ahead % batch;
  const auto shared = [&](int64_t rows) {
    return rows % processes == 0 || (rows > processes && !needs_equal_shares(config));
  };
  if (!shared(left)) {
    int64_t fewer = 1;  // samples an epoch
    while (fewer < samples && !shared((ahead + fewer * (batch - 1) * config.train.epochs) % batch)) ++fewer;
    throw ConfigError(format("{} epochs of {} samples leave {} for the last batch, which {} processes cannot share",
                             config.train.epochs, with_commas(samples), left, processes),
                      fewer < samples ? format("--data.limit={} leaves {} sample{} out", samples - fewer, fewer,
                                               fewer == 1 ? "" : "s")
                                      : "choose another train.batch, or another number of processes");
  }
  const int64_t meant = config.optim.warmup, steps = config.train.steps;
  if (meant <= steps) return {};
  config.optim.warmup = std::max<int64_t>(steps / 10, 1);
  return format("optim.warmup = {} in place of {}, as train.epochs = {} are {} steps", config.optim.warmup, meant,
                config.train.epochs, steps);
}

std::string cut_text(const RunConfig& config, const data::Split& split) {
  const data::Cut cut = split.train ? split.train->cut() : data::Cut{};
  const data::TooLong how = config.data.too_long;
  std::string text;
  if (cut.too_long > 0)
    text = format("{} documents, {} longer than train.length = {} and {}", with_commas(cut.documents),
                  with_commas(cut.too_long), config.train.length,
                  how == data::TooLong::drop       ? "left out"
                  : how == data::TooLong::truncate ? "truncated"
                                                   : "split into several samples");
  if (cut.unlearned > 0)
    text += format("{}{} without a token that the loss counts left out", text.empty() ? "" : "; ",
                   cut.unlearned == 1 ? "1 row" : with_commas(cut.unlearned) + " rows");
  return text;
}

std::string epochs_text(const RunConfig& config, const data::Split& split) {
  const int64_t samples = epoch_samples(config, split);
  if (config.train.epochs > 0)
    return format("{} samples an epoch; {} epochs are {} steps", with_commas(samples), config.train.epochs,
                  with_commas(config.train.steps));
  const double epochs =
      static_cast<double>(config.train.steps) * static_cast<double>(config.train.batch) / static_cast<double>(samples);
  return format("{} samples an epoch; {} steps are {:.3g} epochs", with_commas(samples),
                with_commas(config.train.steps), epochs);
}

std::string small_set_text(const RunConfig& config, const data::Split& split) {
  const int64_t samples = epoch_samples(config, split), batch = config.train.batch;
  if (batch <= samples) return {};
  return format(
      "train.batch = {} is more than the {} samples that the training data has: each is in every batch about {:.3g} "
      "times",
      with_commas(batch), with_commas(samples), static_cast<double>(batch) / static_cast<double>(samples));
}

std::optional<EpochMeans::Mean> EpochMeans::add(int64_t begin, int64_t end, double loss,
                                                std::optional<double> accuracy) {
  std::optional<Mean> ended;
  while (begin < end) {
    const int64_t epoch = begin / samples_, until = std::min(end, (epoch + 1) * samples_);
    const auto here = static_cast<double>(until - begin);
    sum_ += loss * here, seen_ += until - begin;
    if (accuracy) right_ += *accuracy * here, judged_ += until - begin;
    if (until == (epoch + 1) * samples_) {
      const auto seen = static_cast<double>(seen_);
      ended = Mean{epoch + 1, sum_ / seen, judged_ == seen_ ? std::optional(right_ / seen) : std::nullopt};
      sum_ = right_ = 0, seen_ = judged_ = 0;
    }
    begin = until;
  }
  return ended;
}

}  // namespace hyperion::train
