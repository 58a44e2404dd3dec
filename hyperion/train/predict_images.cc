#include "hyperion/train/predict_images.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/max.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/data/images.h"
#include "hyperion/images/png_bytes.h"
#include "hyperion/images/resample.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/text/base64.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {
namespace {

constexpr int64_t kPictures = 16, kPictureSide = 64;

// From numbers of a model back to levels: by what made them, else from the least to the greatest.
images::Pixels picture_of(const at::Tensor& numbers, const data::ImageSource& source) {
  const auto shape = source.shape();
  const auto processing = source.processing();
  const auto values = numbers.to(at::kFloat).contiguous();
  const auto* value = values.const_data_ptr<float>();
  const auto [least, greatest] = std::minmax_element(value, value + values.numel());
  images::Pixels image({shape.height, shape.width});
  const int64_t plane = shape.height * shape.width;
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t i = 0; i < plane; ++i) {
      const float number = value[std::min(channel, shape.channels - 1) * plane + i];
      const float level =
          processing ? number * processing->normalisation.deviation[channel] + processing->normalisation.mean[channel]
                     : (number - *least) / std::max(*greatest - *least, 1e-6f);
      image.rgb[i * 3 + channel] = static_cast<uint8_t>(std::clamp(std::lround(level * 255), 0L, 255L));
    }
  if (std::max(shape.height, shape.width) <= kPictureSide) return image;
  const double scale = static_cast<double>(kPictureSide) / static_cast<double>(std::max(shape.height, shape.width));
  const auto smaller = [&](int64_t side) {
    return std::max<int64_t>(1, std::lround(static_cast<double>(side) * scale));
  };
  return images::resize(image, {image.whole(), {smaller(shape.height), smaller(shape.width)}});
}

}  // namespace

std::vector<report::Prediction> predict_images(models::Model& model, at::Device device, const data::Split& split,
                                               const RunConfig& config, parallel::TrainedWeights& weights) {
  const base::OperationScope scope("predict_images");
  const at::NoGradGuard no_grad;
  const auto& source = *split.validation_images;
  const auto names = source.class_names();
  const auto name_of = [&](int64_t label) {
    return label < std::ssize(names) ? names[static_cast<size_t>(label)] : std::to_string(label);
  };
  const auto type = model.parameters().front().tensor.scalar_type();
  const int64_t samples = source.samples(), count = std::min(samples, kPictures);
  std::vector<report::Prediction> list;
  for (int64_t i = 0; i < count; ++i) {
    const Batch batch = validation_batch(split, i * samples / count, 1, config);
    nn::Pass pass;
    weights.begin_pass();
    pass.block_hook = weights.block_hook();
    const auto logits = model.logits(to_device(batch, device, type).inputs, pass)[0].to(at::kCPU, at::kFloat);
    weights.end_pass();
    const auto [share, label] = at::max(at::softmax(logits, 0), 0);
    list.push_back({text::to_base64(images::png_bytes(picture_of(batch.inputs[0], source))),
                    name_of(label.item<int64_t>()), name_of(batch.targets[0].item<int64_t>()), share.item<double>()});
  }
  return list;
}

}  // namespace hyperion::train
