// The layers of networks on images, [batch, channels, height, width] in any memory format: convolutions and norms keep
// the format they are given, so a model that lays its input out channels last stays so to its end.
#pragma once
#include "hyperion/nn/module.h"

namespace hyperion::nn {

// Without bias, padded by half the kernel: with stride 1 an odd kernel keeps the size.
class Conv2d final : public Module {
 public:
  Conv2d(int64_t in, int64_t out, int64_t kernel, int64_t stride, Init init);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;

 private:
  void lay_out() override;  // channels last, as the images are
  at::Tensor weight_;
  int64_t stride_;
};

// Batch normalisation (Ioffe and Szegedy, 2015), reduced in fp32. In training by the statistics of the batch, which
// move the running ones (but not in a recomputation); else by the running ones. Where the pass says so the batch is
// that of all processes. Training on one value a channel is a ConfigError: it has no variance.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(int64_t channels);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override { return then(input, {}, false, pass); }
  // relu(norm(input) + residual); the residual may be undefined, and relu left out. May change the norm's own output.
  at::Tensor then(const at::Tensor& input, const at::Tensor& residual, bool relu, Pass& pass);

 private:
  at::Tensor plain(const at::Tensor& input, bool batch_statistics, bool learn, BatchStats* batch_stats);

  at::Tensor weight_, bias_;  // fp32 always, as are the running statistics
  at::Tensor running_mean_, running_var_, num_batches_tracked_;
};

// For the second of two ways that a batch norm's output goes: the same values, whose gradient is added to the first's
// in the norm's own backward pass where it can be. Any other tensor comes back as it is.
at::Tensor second_way(const at::Tensor& output);

// Cuts images into patches and projects each: [batch, patches in reading order, width]. What is left over at the right
// and bottom edges is not seen. Weight [width, channels, height, width of a patch], as a convolution's.
class PatchProjection final : public Module {
 public:
  PatchProjection(int64_t channels, int64_t width, int64_t patch_height, int64_t patch_width, Init init);
  at::Tensor forward(const at::Tensor& images, Pass& pass) override;

 private:
  at::Tensor weight_, bias_;
};

// Table [1, rows * columns, width] of the positions of a grid, resampled bicubically to another grid; the same table
// where the grids are one.
at::Tensor resample_places(const at::Tensor& table, int64_t rows, int64_t columns, int64_t new_rows,
                           int64_t new_columns);

}  // namespace hyperion::nn
