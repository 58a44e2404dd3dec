// The plain layers every model is made of.
#pragma once
#include "hyperion/kernels/norm.h"
#include "hyperion/nn/projection.h"
#include "hyperion/nn/token_rows.h"

namespace hyperion::nn {

// y = x W + b with W stored [in, out], as GPT-2's published weights are.
class LinearInOut final : public Projection {
 public:
  LinearInOut(int64_t in, int64_t out, Init init) : Projection(in, out, /*with_bias=*/true, init, /*in_out=*/true) {}
};

// y = x W^T + b with W stored [out, in], as most published weights are.
class Linear final : public Projection {
 public:
  Linear(int64_t in, int64_t out, bool with_bias, Init init) : Projection(in, out, with_bias, init, /*in_out=*/false) {}
};

class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t width, Init init);
  at::Tensor forward(const at::Tensor& ids, Pass& pass) override;
  // The rows of ids [texts, length], and along each text those of `positions` from `first` on: one pass over what comes
  // of it instead of three.
  at::Tensor forward_at(const at::Tensor& ids, const Embedding& positions, int64_t first) const;
  at::Tensor weight() const { return rows_ ? rows_->put_into(weight_) : weight_; }

  // Some rows are trained by themselves from here on, until they are put back into the table.
  void train_rows(const std::vector<int64_t>& tokens);
  void merge_rows();
  const TokenRows* rows() const { return rows_.get(); }

 private:
  at::Tensor weight_;
  std::shared_ptr<TokenRows> rows_;  // null: none
};

// x / rms(x) * w (Zhang and Sennrich, 2019), reduced in fp32.
class RmsNorm final : public Module {
 public:
  RmsNorm(int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  Unit unit() const override { return Unit::cheap; }
  kernels::NormWeights weights() const { return {weight_, at::Tensor(), epsilon_}; }

 private:
  at::Tensor weight_;
  double epsilon_;
};

class LayerNorm final : public Module {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  Unit unit() const override { return Unit::cheap; }
  kernels::NormWeights weights() const { return {weight_, bias_, epsilon_}; }

 private:
  at::Tensor weight_, bias_;
  double epsilon_;
};

}  // namespace hyperion::nn
