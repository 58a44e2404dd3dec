#include "hyperion/nn/projection.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/blocks/later_gradients.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/nn/context.h"
#include "hyperion/nn/processes.h"

namespace hyperion::nn {
namespace {

// The sides of all adapters, so that a parameter is <path>.lora_A.<adapter>.weight, as in PEFT's trees.
void register_side(Module& owner, const char* name, const std::string& adapter,
                   const std::shared_ptr<LowRankSide>& side) {
  const auto children = owner.named_children();  // a copy, which `found` points into
  const auto* found = children.find(name);
  const auto sides = found != nullptr ? *found : owner.register_module(name, std::make_shared<Branch>());
  sides->register_module(adapter, side);
}

}  // namespace

at::Tensor LowRankSide::forward(const at::Tensor& input, Pass& pass) {
  return blocks::plain_linear(input, weight_, {}, /*in_out=*/false, pass.later);
}

// register_parameter keeps the handle that `to` and `set_data` act on, so these copies stay the same parameter.
Projection::Projection(int64_t in, int64_t out, bool with_bias, Init init, bool in_out)
    : in_(in),
      out_(out),
      in_out_(in_out),
      weight_(parameter("weight", in_out ? at::IntArrayRef{in, out} : at::IntArrayRef{out, in}, init, {.decay = true})),
      bias_(with_bias ? parameter("bias", {out}, Init::filled(0)) : at::Tensor()) {}

at::Tensor Projection::forward(const at::Tensor& input, Pass& pass) {
  return changed(base(input, bias_, pass), input, pass);
}

at::Tensor Projection::without_bias(const at::Tensor& input, Pass& pass) const {
  return changed(base(input, {}, pass), input, pass);
}

at::Tensor Projection::changed(const at::Tensor& output, const at::Tensor& input, Pass& pass) const {
  if (adapters_.empty()) return output;
  if (pass.adapters.size() > 1) return change_rows(output, input, pass);
  const auto found = adapters_.find(pass.adapters.empty() ? choice_->used : pass.adapters.front());
  return found == adapters_.end() ? output : output.add(change(found->second, input, pass));
}

int64_t Projection::width() const {
  const size_t side = in_out_ ? 1 : 0;
  return nf4_ ? nf4_->shape[side] : weight_.size(static_cast<int64_t>(side));
}

// A shard by inputs drops what the whole would drop of them, and so does a part of the tokens.
kernels::RandomPlace Projection::place_of(const Adapter& adapter, const Pass& pass) const {
  kernels::RandomPlace place{base::stream_key(pass.seed, adapter.stream), pass.step, pass.micro_batch};
  const int64_t held = adapter.a->weight().size(1);
  const bool by_inputs = pass.shards != nullptr && held < in_;
  place.elements = elements_of(pass.tokens, by_inputs ? 1 : in_);
  if (!by_inputs) return place;
  const int64_t first = held * pass.shards->index();
  if (pass.tokens.whole())
    place.elements = {held, in_, first};
  else
    place.elements.columns = held, place.elements.width = in_, place.elements.column = first;
  return place;
}

bool Projection::frozen(const PassInputs& pass) const {
  const auto trained = [](const at::Tensor& tensor) {
    return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  return !rows_ && pass.adapters.size() <= 1 && !trained(weight_) && !trained(bias_);
}

blocks::LowRank Projection::change_in(const Pass& pass) const {
  if (adapters_.empty()) return {};
  const auto found = adapters_.find(pass.adapters.empty() ? choice_->used : pass.adapters.front());
  if (found == adapters_.end()) return {};
  const auto& adapter = found->second;
  const bool drops = pass.training && adapter.dropout > 0;
  return {adapter.a->weight(), adapter.b->weight(), adapter.scale, drops ? adapter.dropout : 0,
          drops ? place_of(adapter, pass) : kernels::RandomPlace{}};
}

at::Tensor Projection::base(const at::Tensor& input, const at::Tensor& bias, const PassSettings& pass) const {
  if (nf4_) {
    const auto output = kernels::nf4_matmul(input, *nf4_, /*transposed=*/!in_out_);
    return bias.defined() ? output.add(bias) : output;
  }
  return blocks::plain_linear(input, rows_ ? rows_->put_into(weight_) : weight_, bias, in_out_, pass.later);
}

at::Tensor Projection::change(const Adapter& adapter, const at::Tensor& input, Pass& pass) const {
  at::Tensor kept = input;
  if (pass.training && adapter.dropout > 0) kept = kernels::dropout(input, adapter.dropout, place_of(adapter, pass));
  return adapter.b->forward(adapter.a->forward(kept, pass), pass).mul(adapter.scale);
}

// Each row of the batch with its own adapter.
at::Tensor Projection::change_rows(const at::Tensor& output, const at::Tensor& input, Pass& pass) const {
  if (static_cast<int64_t>(pass.adapters.size()) != input.size(0))
    throw base::Error(
        base::format("{} adapters were picked for a batch of {} rows", pass.adapters.size(), input.size(0)));
  at::Tensor changed = output;
  for (const int64_t index : std::set(pass.adapters.begin(), pass.adapters.end())) {
    const auto found = adapters_.find(index);
    if (found == adapters_.end()) continue;
    std::vector<int64_t> rows;
    for (size_t row = 0; row < pass.adapters.size(); ++row)
      if (pass.adapters[row] == index) rows.push_back(static_cast<int64_t>(row));
    const auto positions = at::tensor(rows, at::kLong).to(input.device());
    changed = changed.index_add(0, positions, change(found->second, input.index_select(0, positions), pass));
  }
  return changed;
}

void Projection::add_adapter(const std::string& path, int64_t index, std::shared_ptr<const AdapterChoice> choice,
                             const LoraConfig& config, uint64_t seed) {
  const int64_t rank = rank_of(config, path);
  const std::string& name = choice->names.at(index);
  // PEFT's start of A: Kaiming's uniform with a = sqrt(5), which is 1 / sqrt(in) to either side.
  const auto a = std::make_shared<LowRankSide>(in_, rank, Init::uniform(1 / std::sqrt(static_cast<double>(in_))));
  const auto b = std::make_shared<LowRankSide>(rank, out_, Init::filled(0));
  a->initialise(seed, base::format("{}.lora_A.{}.", path, name));
  b->initialise(seed, base::format("{}.lora_B.{}.", path, name));
  const auto& like = nf4_ ? bias_ : weight_;
  const auto device = nf4_ ? nf4_->codes.device() : weight_.device();
  const auto type = like.defined() ? like.scalar_type() : nf4_->type;
  for (const auto& side : {a, b}) side->move_to(device, type);
  register_side(*this, "lora_A", name, a);
  register_side(*this, "lora_B", name, b);
  adapters_[index] = {a, b, scale_of(config, path), config.dropout, base::format("dropout/{}.lora_A.{}", path, name)};
  choice_ = std::move(choice);
}

std::pair<at::Tensor, at::Tensor> Projection::adapter(int64_t index) const {
  const auto found = adapters_.find(index);
  if (found == adapters_.end()) return {};
  return {found->second.a->weight(), found->second.b->weight()};
}

int64_t Projection::largest_rank() const {
  int64_t rank = 0;
  for (const auto& [index, adapter] : adapters_) rank = std::max(rank, adapter.a->weight().size(0));
  return rank;
}

void Projection::merge_adapter(int64_t index) {
  const auto found = adapters_.find(index);
  if (found == adapters_.end()) return;
  if (nf4_)
    throw base::ConfigError("an adapter cannot be merged into 4-bit weights", "open the base without quantizing it");
  const at::NoGradGuard no_grad;
  const auto& [a, b, scale, dropout, stream] = found->second;
  const auto product = at::matmul(b->weight().to(at::kFloat), a->weight().to(at::kFloat)).mul(scale);
  weight_.copy_(weight_.to(at::kFloat).add(in_out_ ? product.t() : product));
}

void Projection::drop_adapters() {
  if (adapters_.empty()) return;
  unregister_module("lora_A");
  unregister_module("lora_B");
  adapters_.clear();
}

void Projection::train_rows(const std::vector<int64_t>& tokens) {
  HYPERION_CHECK(weight_.defined() && !in_out_, "rows of an output are trained where it is whole");
  rows_ = register_module(kTokenRows, std::make_shared<TokenRows>(tokens, weight_));
}

void Projection::merge_rows() {
  if (!rows_) return;
  const at::NoGradGuard no_grad;
  weight_.copy_(rows_->put_into(weight_));
  unregister_module(kTokenRows);
  rows_ = nullptr;
}

void Projection::quantize() {
  if (nf4_) return;
  nf4_ = kernels::nf4_quantize(weight_.detach());
  forget_parameter("weight");
  weight_ = at::Tensor();
}

void Projection::quantize_as(const Projection& other) {
  HYPERION_CHECK(other.nf4_ && !nf4_, "one of the two is in 4 bits");
  nf4_ = other.nf4_;
  forget_parameter("weight");
  weight_ = at::Tensor();
}

void Projection::keep_packed(const std::vector<kernels::Nf4Stretch>& stretches, std::vector<int64_t> shape) {
  nf4_ = kernels::nf4_part(*nf4_, stretches, std::move(shape));
}

void Projection::leave_packed() {
  for (auto* piece : {&nf4_->codes, &nf4_->magnitudes, &nf4_->group_scales}) piece->reset();
}

std::vector<at::Tensor> Projection::packed() const {
  if (!nf4_ || !nf4_->codes.defined()) return {};
  return {nf4_->codes, nf4_->magnitudes, nf4_->group_scales};
}

void Projection::move_held(at::Device device) {
  if (!packed().empty()) nf4_ = kernels::move(*nf4_, device);
}

}  // namespace hyperion::nn
