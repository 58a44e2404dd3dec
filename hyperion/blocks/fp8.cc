#include "hyperion/blocks/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "hyperion/blocks/fp8_math.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/gemm.h"
#include "hyperion/kernels/gemm_gpu.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {

using kernels::as_rows;
using kernels::Bfloat16;
using kernels::on_gpu;
using kernels::pointer;
using kernels::stream_of;

namespace {

using Part = Fp8Scales::Part;

Fp8Type type_of(Part part) { return part == Fp8Scales::gradient ? Fp8Type::e5m2 : Fp8Type::e4m3; }
at::ScalarType scalar_of(Part part) { return part == Fp8Scales::gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn; }

// GPU kernels take bf16; whatever else there is goes the plain way.
bool is_gpu_bf16(const at::Tensor& tensor) { return tensor.is_cuda() && tensor.scalar_type() == at::kBFloat16; }

void work_out(const Fp8Numbers& numbers, const at::Tensor& like) {
  if (like.is_cuda()) return on_gpu([&] { fp8_numbers_gpu(numbers, stream_of(like)); });
  for (int64_t i = numbers.first; i < numbers.first + numbers.count; ++i) fp8_number(numbers, i);
}

// The factor of a matrix by its own largest value, which `find` raises the number at its argument to.
template <class Find>
Fp8Factor measured(const at::Tensor& like, Part part, Find find) {
  // Of the three parts the inverses, apart as products want them, then a row of scales and one of largest values.
  const auto own = at::zeros({5, kFp8Apart}, like.options().dtype(at::kFloat));
  find(own[4][part]);
  auto* const inverse = pointer<float>(own);
  work_out({inverse + 3 * kFp8Apart, inverse, inverse + 4 * kFp8Apart, nullptr, part, 1, 3, 0, /*shift=*/false}, own);
  return {own[3][part], own[part][0]};
}

template <class Find>
Fp8Factor factor_of(const at::Tensor& like, const Fp8Linear& map, Part part, const Fp8Forms& forms, Find find) {
  if (forms.factor.scale.defined()) return forms.factor;
  return map.measured_first() ? measured(like, part, find) : Fp8Factor{map.scale(part), map.inverse(part)};
}

// `values` in plain operations.
Fp8Matrix plain(const at::Tensor& values, const Fp8Linear& map, Part part, const Fp8Forms& forms) {
  const auto wide = values.to(at::kFloat);
  const auto sums = forms.sums ? wide.sum(0).to(values.scalar_type()) : at::Tensor();
  if (map.by_rows()) {
    Fp8Matrix matrix{{}, {}, {}, {}, sums};
    const auto narrow = [&](const at::Tensor& rows, at::Tensor& form, at::Tensor& inverse) {
      const double limit = fp8_largest(type_of(part));
      const auto most = rows.abs().amax(1);
      form = (rows * (limit / most.clamp_min(0x1p-100)).unsqueeze(1)).clamp(-limit, limit).to(scalar_of(part));
      inverse = most / limit;
    };
    if (forms.straight) narrow(wide, matrix.straight, matrix.inverse);
    if (forms.transposed) narrow(wide.t().contiguous(), matrix.transposed, matrix.transposed_inverse);
    return matrix;
  }
  const auto largest = map.largest(part), here = wide.abs().max();
  largest.copy_(largest.maximum(here));
  const auto factor = factor_of(wide, map, part, forms, [&](const at::Tensor& own) { own.copy_(here); });
  const double limit = fp8_largest(type_of(part));
  const auto narrow = (wide * factor.scale).clamp(-limit, limit).to(scalar_of(part));
  return {forms.straight ? narrow : at::Tensor(),
          forms.transposed ? narrow.t().contiguous() : at::Tensor(),
          factor.inverse,
          factor.inverse,
          sums,
          factor};
}

// Runs `make(tiles)` once, or twice where the scale must first follow the values.
template <class Make>
Fp8Matrix tiled(const at::Tensor& like, int64_t rows, int64_t columns, const Fp8Linear& map, Part part,
                const Fp8Forms& forms, Make make) {
  HYPERION_CHECK(rows % 4 == 0 && columns % 8 == 0, "matrices in 8 bits have sides of multiples of 16");
  Fp8Tiles tiles{rows, columns, type_of(part), nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr};
  Fp8Matrix matrix;
  if (map.by_rows()) {
    const auto fp32 = like.options().dtype(at::kFloat);
    if (forms.straight) matrix.inverse = at::zeros({rows}, fp32);
    if (forms.transposed) matrix.transposed_inverse = at::zeros({columns}, fp32);
    tiles.largest_of_rows = pointer<float>(matrix.inverse);
    tiles.largest_of_columns = pointer<float>(matrix.transposed_inverse);
    make(tiles);
  } else {
    matrix.factor = factor_of(like, map, part, forms, [&](const at::Tensor& own) {
      tiles.largest = pointer<float>(own);
      make(tiles);
    });
    tiles.largest = pointer<float>(map.largest(part));
    tiles.scale = pointer<float>(matrix.factor.scale);
    matrix.inverse = matrix.transposed_inverse = matrix.factor.inverse;
  }
  const auto options = like.options().dtype(scalar_of(part));
  if (forms.straight) matrix.straight = at::empty({rows, columns}, options);
  if (forms.transposed) matrix.transposed = at::empty({columns, rows}, options);
  at::Tensor partial;
  if (forms.sums)
    partial = at::empty({on_gpu([&] { return fp8_tile_rows(rows); }), columns}, like.options().dtype(at::kFloat));
  tiles.straight = pointer<uint8_t>(matrix.straight), tiles.transposed = pointer<uint8_t>(matrix.transposed);
  tiles.sums = pointer<float>(partial);
  make(tiles);
  if (map.by_rows()) {  // the largest of each row becomes what gives its values back
    const double limit = fp8_largest(type_of(part));
    if (forms.straight) matrix.inverse.div_(limit);
    if (forms.transposed) matrix.transposed_inverse.div_(limit);
  }
  if (forms.sums) matrix.sums = kernels::column_sums(partial).to(like.scalar_type());
  return matrix;
}

}  // namespace

Fp8Scales::Fp8Scales(int64_t linears, at::Device device, Fp8Options options) : options_(options) {
  HYPERION_CHECK(linears > 0 && options.history > 0, "scales of some linears, over some steps");
  const auto fp32 = at::TensorOptions().device(device).dtype(at::kFloat);
  scale_ = at::ones({3 * linears}, fp32), inverse_ = at::ones({3 * linears, kFp8Apart}, fp32);
  largest_ = at::zeros({3 * linears}, fp32), history_ = at::zeros({options.history, 3 * linears}, fp32);
}

void Fp8Scales::follow(const at::Tensor& largest, bool shift) {
  work_out({pointer<float>(scale_), pointer<float>(inverse_), pointer<float>(largest), pointer<float>(history_), 0,
            scale_.numel(), scale_.numel(), history_.size(0), shift},
           scale_);
}

void Fp8Scales::next_step() {
  follow(largest_, /*shift=*/true);
  fresh_ = false;
}

void Fp8Scales::history_changed() {
  fresh_ = !(history_.max().item<float>() > 0);
  follow(std::get<0>(history_.max(0)).contiguous(), /*shift=*/false);
}

at::Tensor Fp8Linear::scale(Part part) const { return scales_->scale_[3 * index_ + part]; }
at::Tensor Fp8Linear::inverse(Part part) const { return scales_->inverse_[3 * index_ + part][0]; }
at::Tensor Fp8Linear::largest(Part part) const { return scales_->largest_[3 * index_ + part]; }
bool Fp8Linear::by_rows() const { return scales_->options_.scale == Fp8Scale::rows; }
bool Fp8Linear::measured_first() const { return scales_->fresh_ || scales_->options_.scale == Fp8Scale::current; }

Fp8Matrix fp8_matrix(const at::Tensor& values, const Fp8Linear& map, Part part, const Fp8Forms& forms) {
  if (!is_gpu_bf16(values)) return plain(values, map, part, forms);
  const auto rows = values.contiguous();
  return tiled(rows, rows.size(0), rows.size(1), map, part, forms, [&](const Fp8Tiles& tiles) {
    on_gpu([&] { fp8_values_gpu(pointer<const Bfloat16>(rows), tiles, stream_of(rows)); });
  });
}

Fp8Matrix fp8_norm(const at::Tensor& input, const kernels::NormWeights& weights,
                   const kernels::NormStatistics& statistics, const Fp8Linear& map, const Fp8Forms& forms) {
  if (!is_gpu_bf16(input))
    return plain(as_rows(kernels::normalize_again(input, weights, statistics)), map, Fp8Scales::input, forms);
  const auto rows = as_rows(input).contiguous();
  const Fp8NormInput norm{pointer<const Bfloat16>(rows), pointer<const Bfloat16>(weights.weight),
                          pointer<const Bfloat16>(weights.bias), pointer<const float>(statistics.mean),
                          pointer<const float>(statistics.inverse)};
  return tiled(rows, rows.size(0), rows.size(1), map, Fp8Scales::input, forms,
               [&](const Fp8Tiles& tiles) { on_gpu([&] { fp8_norm_gpu(norm, tiles, stream_of(rows)); }); });
}

Fp8Matrix fp8_activation(const at::Tensor& input, kernels::Activation kind, const Fp8Linear& map,
                         const Fp8Forms& forms) {
  const auto rows = as_rows(input).contiguous();
  if (!is_gpu_bf16(rows)) return plain(kernels::activate(rows, kind), map, Fp8Scales::input, forms);
  const int64_t columns = rows.size(1) / (kind == kernels::Activation::gated_silu ? 2 : 1);
  return tiled(rows, rows.size(0), columns, map, Fp8Scales::input, forms, [&](const Fp8Tiles& tiles) {
    on_gpu([&] { fp8_activation_gpu(kind, pointer<const Bfloat16>(rows), nullptr, nullptr, tiles, stream_of(rows)); });
  });
}

std::pair<at::Tensor, Fp8Matrix> fp8_activation_gradient(const at::Tensor& input, const at::Tensor& upstream,
                                                         kernels::Activation kind, const Fp8Linear& map,
                                                         const Fp8Factor& factor) {
  const auto rows = as_rows(input).contiguous();
  const Fp8Forms forms{.transposed = true, .factor = factor};
  if (!is_gpu_bf16(rows)) {
    const auto found = kernels::activation_gradients(rows, upstream, kind, {.value = true});
    return {found.input, plain(found.again, map, Fp8Scales::input, forms)};
  }
  const auto above = upstream.contiguous();
  auto gradient = at::empty_like(rows);
  auto again = tiled(rows, above.size(0), above.size(1), map, Fp8Scales::input, forms, [&](const Fp8Tiles& tiles) {
    on_gpu([&] {
      fp8_activation_gpu(kind, pointer<const Bfloat16>(rows), pointer<const Bfloat16>(above),
                         pointer<Bfloat16>(gradient), tiles, stream_of(rows));
    });
  });
  return {gradient, again};
}

at::Tensor fp8_gemm(const Fp8Gemm& p, at::ScalarType type) {
  const int64_t rows = p.a.size(0), columns = p.b.size(0), k = p.a.size(1);
  HYPERION_CHECK(k == p.b.size(1), "the inner sides of a product are equal");
  if (p.a.is_cuda() && type == at::kBFloat16) {
    const auto of = [](const at::Tensor& t) {
      return t.scalar_type() == at::kFloat8_e5m2 ? kernels::GemmType::e5m2 : kernels::GemmType::e4m3;
    };
    auto out = at::empty({rows, columns}, p.a.options().dtype(type));
    const auto added = p.added.defined() ? p.added.contiguous() : p.added;
    const kernels::RawGemm raw{.a = p.a.const_data_ptr(),
                               .b = p.b.const_data_ptr(),
                               .c = pointer<const void>(added),
                               .bias = pointer<const void>(p.bias),
                               .d = out.data_ptr(),
                               .rows = rows,
                               .columns = columns,
                               .k = k,
                               .transpose_a = false,
                               .transpose_b = true,
                               .type = of(p.a),
                               .out = kernels::GemmType::bf16,
                               .may_round_to_tf32 = false,
                               .b_type = of(p.b),
                               .a_inverse = pointer<const float>(p.a_inverse),
                               .b_inverse = pointer<const float>(p.b_inverse),
                               .by_rows = p.a_inverse.dim() == 1,
                               .fast = p.fast};
    if (on_gpu([&] { return kernels::gemm_gpu(raw, device::is_tuning(), stream_of(p.a)); })) return out;
  }
  const auto a_inverse = p.a_inverse.dim() == 0 ? p.a_inverse : p.a_inverse.unsqueeze(1);
  auto out = at::mm(p.a.to(at::kFloat), p.b.to(at::kFloat).t()) * a_inverse * p.b_inverse;
  if (p.bias.defined()) out += p.bias;
  if (p.added.defined()) out += p.added;
  return out.to(type);
}

bool fp8_fits(int64_t rows, int64_t in, int64_t out) { return rows % 16 == 0 && in % 16 == 0 && out % 16 == 0; }

}  // namespace hyperion::blocks
