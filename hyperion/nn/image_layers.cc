#include "hyperion/nn/image_layers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>

#include "hyperion/base/error.h"
#include "hyperion/kernels/batch_norm.h"
#include "hyperion/nn/processes.h"

namespace hyperion::nn {
namespace {

constexpr double kMomentum = 0.1, kEpsilon = 1e-5;

}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, Init init)
    : weight_(parameter("weight", {out, in, kernel, kernel}, init, {.decay = true})), stride_(stride) {}

at::Tensor Conv2d::forward(const at::Tensor& input, Pass&) {
  return at::conv2d(input, weight_, {}, stride_, weight_.size(2) / 2);
}

void Conv2d::lay_out() {
  const at::NoGradGuard no_grad;
  weight_.set_data(weight_.detach().contiguous(at::MemoryFormat::ChannelsLast));
}

BatchNorm2d::BatchNorm2d(int64_t channels)
    : weight_(parameter("weight", {channels}, Init::filled(1), {.wide = true})),
      bias_(parameter("bias", {channels}, Init::filled(0), {.wide = true})),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      num_batches_tracked_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

at::Tensor BatchNorm2d::then(const at::Tensor& input, const at::Tensor& residual, bool relu, Pass& pass) {
  BatchStats* const batch_stats = pass.training ? pass.batch_stats : nullptr;
  if (pass.training && input.numel() * (batch_stats != nullptr ? batch_stats->count() : 1) <= input.size(1))
    throw base::ConfigError("batch norm cannot train on one value a channel: it has no variance",
                            "use a larger micro-batch or larger images");
  const bool learn = pass.training && !pass.recomputing;
  // Without momentum the running statistics stay as they are, and what autograd saves is the same.
  const double momentum = learn ? kMomentum : 0;
  const bool plainly = pass.reference || batch_stats != nullptr;
  if (pass.training && !plainly)
    return kernels::batch_norm_training(
        input,
        {weight_, bias_, running_mean_, running_var_, momentum, kEpsilon, learn ? num_batches_tracked_ : at::Tensor()},
        residual, relu);
  if (learn) num_batches_tracked_.add_(1);
  auto output = plainly ? plain(input, pass.training, learn, batch_stats)
                        : at::batch_norm(input, weight_, bias_, running_mean_, running_var_, /*training=*/false,
                                         momentum, kEpsilon, /*cudnn_enabled=*/true);
  if (residual.defined()) output = output.add(residual);
  return relu ? output.relu() : output;
}

at::Tensor BatchNorm2d::plain(const at::Tensor& input, bool batch_statistics, bool learn, BatchStats* batch_stats) {
  const auto wide = input.to(at::kFloat);
  at::Tensor variance = running_var_, mean = running_mean_;
  if (batch_statistics) std::tie(variance, mean) = at::var_mean(wide, {0, 2, 3}, /*unbiased=*/false);
  if (batch_stats != nullptr) {
    // The variance of the whole is that within each part and that of their means.
    const auto all = batch_stats->gather(at::stack({mean, variance}).view(-1)).view({batch_stats->count(), 2, -1});
    const auto means = all.select(1, 0);
    mean = means.mean(0);
    variance = all.select(1, 1).add(means.sub(mean).square()).mean(0);
  }
  if (learn) {
    at::NoGradGuard no_grad;
    const auto count =
        static_cast<double>(input.numel() / input.size(1) * (batch_stats != nullptr ? batch_stats->count() : 1));
    running_mean_.mul_(1 - kMomentum).add_(mean, kMomentum);
    running_var_.mul_(1 - kMomentum).add_(variance, kMomentum * count / (count - 1));
  }
  const auto by_channel = [](const at::Tensor& channels) { return channels.view({1, -1, 1, 1}); };
  const auto scale = at::rsqrt(variance.add(kEpsilon)).mul(weight_);
  return wide.sub(by_channel(mean)).mul(by_channel(scale)).add(by_channel(bias_)).to(input.scalar_type());
}

at::Tensor second_way(const at::Tensor& output) { return kernels::second_way(output); }

PatchProjection::PatchProjection(int64_t channels, int64_t width, int64_t patch_height, int64_t patch_width, Init init)
    : weight_(parameter("weight", {width, channels, patch_height, patch_width}, init, {.decay = true})),
      bias_(parameter("bias", {width}, Init::filled(0))) {}

// Patches do not overlap, so the convolution is one product of all of them with the weight.
at::Tensor PatchProjection::forward(const at::Tensor& images, Pass& pass) {
  const int64_t height = weight_.size(2), width = weight_.size(3);
  if (pass.reference) return at::conv2d(images, weight_, bias_, {height, width}).flatten(2).transpose(1, 2);
  const int64_t rows = images.size(2) / height, columns = images.size(3) / width;
  const auto patches = images.narrow(2, 0, rows * height)
                           .narrow(3, 0, columns * width)
                           .unflatten(3, {columns, width})
                           .unflatten(2, {rows, height})
                           .permute({0, 2, 4, 1, 3, 5})
                           .reshape({images.size(0), rows * columns, -1});
  return at::linear(patches, weight_.flatten(1), bias_);
}

at::Tensor resample_places(const at::Tensor& table, int64_t rows, int64_t columns, int64_t new_rows,
                           int64_t new_columns) {
  if (rows == new_rows && columns == new_columns) return table;
  const auto grid = table.to(at::kFloat).view({1, rows, columns, table.size(2)}).permute({0, 3, 1, 2});
  return at::upsample_bicubic2d(grid, {new_rows, new_columns}, /*align_corners=*/false)
      .flatten(2)
      .transpose(1, 2)
      .to(table.scalar_type());
}

}  // namespace hyperion::nn
