#include "hyperion/train/feed.h"

#include <ATen/ops/empty.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/images.h"

namespace hyperion::train {
namespace {

using base::format;

template <class T>
std::span<T> row_of(at::Tensor& tensor, int64_t row) {
  const int64_t width = tensor.numel() / tensor.size(0);
  return {tensor.mutable_data_ptr<T>() + row * width, static_cast<size_t>(width)};
}

// `sample(row)` says which sample stands in each row.
template <class Sample>
Batch tokens_batch(const data::Source& source, int64_t count, int64_t length, Sample sample) {
  auto rows = at::empty({count, length + 1}, at::kLong);
  for (int64_t row = 0; row < count; ++row) source.read(sample(row).index, row_of<int64_t>(rows, row));
  return {rows.narrow(1, 0, length), rows.narrow(1, 1, length)};
}

template <class Sample>
Batch images_batch(const data::ImageSource& source, int64_t count, Sample sample) {
  const auto shape = source.shape();
  auto pixels = at::empty({count, shape.channels, shape.height, shape.width}, at::kFloat);
  auto labels = at::empty({count}, at::kLong);
  for (int64_t row = 0; row < count; ++row) {
    const data::Place place = sample(row);
    labels.mutable_data_ptr<int64_t>()[row] = source.read(place.index, place.epoch, row_of<float>(pixels, row));
  }
  return {pixels, labels};
}

}  // namespace

data::Split open_split(const RunConfig& config, const strategy::ModelShape& shape) {
  constexpr int64_t kSide = 32;  // of drawn shapes that no model will take
  return data::open_data(config.data, {config.train.length, shape.image > 0 ? shape.image : kSide}, config.train.seed);
}

Batch next_batch(const data::Split& split, data::Cursor& cursor, const RunConfig& config) {
  const int64_t count = split.train ? split.train->samples() : split.train_images->samples();
  const auto sample = [&](int64_t) { return data::take(cursor, count, config.train.seed); };
  if (split.train) return tokens_batch(*split.train, config.train.batch, config.train.length, sample);
  return images_batch(*split.train_images, config.train.batch, sample);
}

int64_t validation_samples(const data::Split& split) {
  return split.validation ? split.validation->samples() : split.validation_images->samples();
}

Batch validation_batch(const data::Split& split, int64_t first, int64_t count, const RunConfig& config) {
  const auto sample = [&](int64_t row) { return data::Place{first + row, 0}; };
  if (split.validation) return tokens_batch(*split.validation, count, config.train.length, sample);
  return images_batch(*split.validation_images, count, sample);
}

Batch to_device(const Batch& batch, at::Device device, at::ScalarType type) {
  auto inputs = batch.inputs.to(device);
  if (inputs.is_floating_point()) inputs = inputs.to(type);
  if (inputs.dim() == 4) inputs = inputs.contiguous(at::MemoryFormat::ChannelsLast);
  return {inputs, batch.targets.to(device)};
}

void check_fit(const data::Split& split, const strategy::ModelShape& shape, const RunConfig& config) {
  const bool tokens = split.train != nullptr;
  const std::string named = config.model.from.empty() ? format("model.preset = \"{}\"", config.model.preset)
                                                      : format("model.from = \"{}\"", config.model.from);
  if (tokens != (shape.context > 0))
    throw base::ConfigError(
        format("{} takes {}, and data.source = \"{}\" gives {}", named, shape.context > 0 ? "tokens" : "images",
               config.data.source, tokens ? "tokens" : "images"),
        shape.context > 0 ? "use data.source = sums or text" : "use data.source = shapes or cifar");
  if (tokens && shape.vocabulary < 256)
    throw base::ConfigError(format("{} knows {} token ids, and bytes need 256", named, shape.vocabulary));
  if (!tokens && split.train_images->classes() > shape.vocabulary)
    throw base::ConfigError(format("data.source = \"{}\" has {} classes, and the model {}", config.data.source,
                                   split.train_images->classes(), shape.vocabulary),
                            format("set model.classes = {}", split.train_images->classes()));
}

}  // namespace hyperion::train
