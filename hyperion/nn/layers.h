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
  at::Tensor weight() const { return rows_ ? rows_->put_into(weight_) : weight_; }
  int64_t count() const { return count_; }                                         // of rows, of a shard all the same
  at::Tensor as_output(const at::Tensor& hidden, const PassSettings& pass) const;  // hidden times the table

  // Some rows are trained by themselves from here on, until they are put back into the table.
  void train_rows(const std::vector<int64_t>& tokens);
  void merge_rows();
  const TokenRows* rows() const { return rows_.get(); }

 private:
  int64_t count_;
  at::Tensor weight_;
  std::shared_ptr<TokenRows> rows_;  // null: none
};

// Tokens and the places they stand at, added: the rows of ids [texts, length] in one table, and in the other those of
// the pass's positions, else of `first` on along each text.
at::Tensor embed_at(Embedding& tokens, Embedding& positions, const at::Tensor& ids, int64_t first, Pass& pass);

class Norm : public Module {
 public:
  Unit unit() const override { return Unit::cheap; }
  virtual kernels::NormWeights weights() const = 0;
};

// x / rms(x) * w (Zhang and Sennrich, 2019), reduced in fp32.
class RmsNorm final : public Norm {
 public:
  RmsNorm(int64_t width, double epsilon);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  kernels::NormWeights weights() const override { return {weight_, at::Tensor(), epsilon_}; }

 private:
  at::Tensor weight_;
  double epsilon_;
};

class LayerNorm final : public Norm {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5);
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  kernels::NormWeights weights() const override { return {weight_, bias_, epsilon_}; }

 private:
  at::Tensor weight_, bias_;
  double epsilon_;
};

}  // namespace hyperion::nn
