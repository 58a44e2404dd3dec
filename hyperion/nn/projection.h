// A linear map that may carry adapters, with its weight whole or in 4 bits: what Linear and LinearInOut share.
#pragma once
#include <memory>
#include <optional>

#include "hyperion/blocks/adapted_linear.h"
#include "hyperion/nn/lora.h"
#include "hyperion/nn/module.h"
#include "hyperion/nn/token_rows.h"

namespace hyperion::nn {

class Fp8Linears;

// The adapters of one model, by index; shared by its layers.
struct AdapterChoice {
  std::vector<std::string> names;
  int64_t used = -1;  // by passes that pick none; -1: the base alone
};

// One side of an adapter; stored [out, in].
class LowRankSide final : public Module {
 public:
  LowRankSide(int64_t in, int64_t out, Init init) : weight_(parameter("weight", {out, in}, init, {.decay = true})) {}
  at::Tensor forward(const at::Tensor& input, Pass& pass) override;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_;
};

class Projection : public Module {
 public:
  // The weight is [out, in], or [in, out] where `in_out`.
  Projection(int64_t in, int64_t out, bool with_bias, Init init, bool in_out);
  at::Tensor forward(const at::Tensor& input, Pass& pass) final;
  at::Tensor without_bias(const at::Tensor& input, Pass& pass) const;
  bool in_out() const { return in_out_; }
  int64_t width() const;                    // of its output: of a shard, its own
  int64_t outputs() const { return out_; }  // of the whole
  // The weight is all there is to it: no adapter, no bias, no 4-bit form.
  bool plain() const { return whole() && !bias_.defined(); }
  // The weight as it is, with no adapter on it; it may have a bias.
  bool whole() const { return weight_.defined() && adapters_.empty() && !rows_; }
  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }
  const std::optional<kernels::Nf4>& nf4() const { return nf4_; }

  // Weight and bias, whole or in 4 bits, get no gradient in this pass, and all rows of its batch share an adapter.
  bool frozen(const PassInputs& pass) const;
  blocks::LowRank change_in(const Pass& pass) const;  // by that adapter

  // Its place among the linears whose products may be made in 8 bits; null: they are not.
  void use_fp8(Fp8Linears* linears, int64_t index) { fp8_ = linears, fp8_index_ = index; }
  Fp8Linears* fp8() const { return fp8_; }
  int64_t fp8_index() const { return fp8_index_; }

  // Adds adapter `index` of the choice, set from the seed and its names alone, on the weight's device in its type.
  void add_adapter(const std::string& path, int64_t index, std::shared_ptr<const AdapterChoice> choice,
                   const LoraConfig& config, uint64_t seed);
  // A and B of an adapter, [rank, in] and [out, rank]; undefined where this layer has none of that index.
  std::pair<at::Tensor, at::Tensor> adapter(int64_t index) const;
  int64_t largest_rank() const;       // of its adapters; 0: it has none
  void merge_adapter(int64_t index);  // adds it to the weight, which must be whole
  void drop_adapters();

  // Of an output over tokens, some rows are trained by themselves from here on, until they are put back.
  void train_rows(const std::vector<int64_t>& tokens);
  void merge_rows();
  const TokenRows* rows() const { return rows_.get(); }

  // The pieces of the 4-bit form; empty where the weight is whole, or another process holds it.
  std::vector<at::Tensor> packed() const;
  // Replaces the weight by its NF4 form: it is no parameter any more, and gets no gradient.
  void quantize();
  void keep_packed(const std::vector<kernels::Nf4Stretch>& stretches, std::vector<int64_t> shape);  // and no more of it
  void leave_packed();  // to another process: this one never runs it
  // The same with the NF4 form of another of its shape, which may then have no weight to make it from.
  void quantize_as(const Projection& other);

 private:
  struct Adapter {
    std::shared_ptr<LowRankSide> a, b;
    double scale, dropout;
    std::string stream;
  };
  at::Tensor base(const at::Tensor& input, const at::Tensor& bias, const PassSettings& pass) const;
  at::Tensor changed(const at::Tensor& output, const at::Tensor& input, Pass& pass) const;
  kernels::RandomPlace place_of(const Adapter& adapter, const Pass& pass) const;  // of its dropout
  at::Tensor change(const Adapter& adapter, const at::Tensor& input, Pass& pass) const;
  at::Tensor change_rows(const at::Tensor& output, const at::Tensor& input, Pass& pass) const;
  void move_held(at::Device device) override;

  int64_t in_, out_;
  bool in_out_;
  at::Tensor weight_, bias_;  // the bias is undefined where there is none, the weight where it is in 4 bits
  std::optional<kernels::Nf4> nf4_;
  Fp8Linears* fp8_ = nullptr;
  int64_t fp8_index_ = 0;
  std::map<int64_t, Adapter> adapters_;
  std::shared_ptr<TokenRows> rows_;  // null: none
  std::shared_ptr<const AdapterChoice> choice_;
};

}  // namespace hyperion::nn
