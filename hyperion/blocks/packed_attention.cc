#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/base/error.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/library_attention.h"
#include "hyperion/blocks/packed_attention_math.h"
#include "hyperion/blocks/rope.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/kernels/part_sums.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::blocks {

using kernels::maybe;
using kernels::on_gpu;
using kernels::or_none;
using kernels::pointer;
using kernels::stream_of;
using kernels::with_type;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AttentionInputs views_of(const at::Tensor& packed, const Heads& heads) {
  const auto by_head = packed.view({packed.size(0), packed.size(1), heads.queries + 2 * heads.keys, heads.width});
  const auto parts = by_head.split_with_sizes({heads.queries, heads.keys, heads.keys}, 2);
  return {parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2)};
}

Rotation rotation_of(const at::Tensor& cosines, const at::Tensor& sines) {
  if (!cosines.defined()) return {nullptr, nullptr, 1};
  return {pointer<float>(cosines), pointer<float>(sines), cosines.size(0)};
}

// The tokens of all rows behind each other, as what goes by bounds wants them: [tokens, heads, width].
AttentionInputs tokens_of(const AttentionInputs& v) {
  const auto flat = [](const at::Tensor& heads) { return heads.transpose(1, 2).flatten(0, 1); };
  return {flat(v.queries), flat(v.keys), flat(v.values)};
}

at::Tensor rows_of(const at::Tensor& tokens, const AttentionInputs& v) {
  return tokens.view({v.queries.size(0), v.queries.size(2), tokens.size(1), tokens.size(2)}).transpose(1, 2);
}

// What a query sees, beside what `causal` says: documents by their bounds, undefined where rows are whole; a window.
struct Sight {
  bool causal;
  at::Tensor bounds;
  int64_t window;
  LibraryWindow by_library() const { return library_window(causal, window); }
};

LibraryAttention attended_within(const AttentionInputs& v, const Sight& sight) {
  const auto tokens = tokens_of(v);
  const int64_t longest = v.queries.size(2);
  const auto window = sight.by_library();
  const auto all =
      at::_flash_attention_forward(tokens.queries, tokens.keys, tokens.values, sight.bounds, sight.bounds, longest,
                                   longest, 0, sight.causal, false, std::nullopt, window.left, window.right);
  return {rows_of(std::get<0>(all), v), std::get<1>(all), std::get<2>(all), std::get<3>(all)};
}

AttentionInputs gradients_within(const AttentionInputs& v, const at::Tensor& above, const LibraryAttention& a,
                                 const Sight& sight) {
  const auto tokens = tokens_of(v);
  const auto flat = [](const at::Tensor& heads) { return heads.transpose(1, 2).flatten(0, 1); };
  const int64_t longest = v.queries.size(2);
  const auto window = sight.by_library();
  const auto all = at::_flash_attention_backward(
      flat(above), tokens.queries, tokens.keys, tokens.values, flat(a.output), a.sums, sight.bounds, sight.bounds,
      longest, longest, 0, sight.causal, a.seed, a.offset, std::nullopt, window.left, window.right);
  return {rows_of(std::get<0>(all), v), rows_of(std::get<1>(all), v), rows_of(std::get<2>(all), v)};
}

template <class T>
HeadGradient<T> place_of(const at::Tensor& gradient) {
  HYPERION_CHECK(gradient.stride(3) == 1, "a head's elements lie together");
  return {pointer<T>(gradient), gradient.size(1), gradient.stride(0), gradient.stride(2), gradient.stride(1)};
}

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& packed,
                            const std::optional<at::Tensor>& cosines, const std::optional<at::Tensor>& sines,
                            const Heads& heads, const Sight& sight) {
    if (cosines) rotate_packed(packed, heads, *cosines, *sines);
    const auto views = views_of(packed, heads);
    const auto backend = sight.bounds.defined() ? AttentionBackend::flash : library_backend(views, sight.causal);
    const auto a =
        sight.bounds.defined() ? attended_within(views, sight) : library_attention(views, sight.causal, backend);
    context->save_for_backward(
        {packed, or_none(cosines), or_none(sines), a.output, a.sums, a.seed, a.offset, sight.bounds});
    auto& data = context->saved_data;
    data["queries"] = heads.queries, data["keys"] = heads.keys, data["width"] = heads.width;
    data["causal"] = sight.causal, data["window"] = sight.window;
    data["cudnn"] = backend == AttentionBackend::cudnn;
    data["sums"] = kernels::bias_sums_requested(packed);
    return a.output.transpose(1, 2).reshape({packed.size(0), packed.size(1), heads.queries * heads.width});
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    auto& data = context->saved_data;
    const Heads heads{data.at("queries").toInt(), data.at("keys").toInt(), data.at("width").toInt()};
    const auto& packed = kept[0];
    const auto above =
        upstream[0].reshape({packed.size(0), packed.size(1), heads.queries, heads.width}).transpose(1, 2);
    const Sight sight{data.at("causal").toBool(), kept[7], data.at("window").toInt()};
    const LibraryAttention a{kept[3], kept[4], kept[5], kept[6]};
    const auto views = views_of(packed, heads);
    const auto found = sight.bounds.defined() ? gradients_within(views, above, a, sight)
                                              : library_gradients(views, above, a, sight.causal,
                                                                  data.at("cudnn").toBool() ? AttentionBackend::cudnn
                                                                                            : AttentionBackend::flash);
    auto out = at::empty(packed.sizes(), packed.options());
    at::Tensor sums, partial;
    if (data.at("sums").toBool() && packed.numel() > 0) {
      sums = at::empty({packed.size(2)}, packed.options());
      partial = at::empty({on_gpu([&] { return pack_heads_parts(packed.size(0) * packed.size(1)); }), packed.size(2)},
                          packed.options().dtype(at::kFloat));
    }
    int64_t left = 0;
    with_type(packed.scalar_type(), [&]<class T>(T) {
      const PackHeads<T> all{{place_of<T>(found.queries), place_of<T>(found.keys), place_of<T>(found.values)},
                             pointer<T>(out),
                             packed.size(0),
                             packed.size(1),
                             heads.width,
                             pointer<T>(sums),
                             pointer<float>(partial)};
      left = on_gpu([&] { return pack_heads_gpu(all, rotation_of(kept[1], kept[2]), stream_of(packed)); });
    });
    kernels::add_up_for_leaves({partial, left, {sums}}, {});
    if (sums.defined()) kernels::leave_bias_sums(out, sums);
    return {out, {}, {}, {}, {}};
  }
};

// Plain operations, for types and devices the library has no kernel for.
at::Tensor by_parts(const at::Tensor& packed, const Heads& heads, const at::Tensor& cosines, const at::Tensor& sines,
                    const PackedSight& sight) {
  auto v = views_of(packed, heads);
  if (cosines.defined()) {
    const auto table = [&](const at::Tensor& half) {
      const auto whole = at::cat({half, half}, -1).to(packed.scalar_type());
      return whole.view({whole.size(0) / packed.size(1), 1, packed.size(1), heads.width});
    };
    const auto c = table(cosines), s = table(sines);
    v.queries = rope(v.queries, c, s), v.keys = rope(v.keys, c, s);
  }
  const AttentionMask mask{.segments = sight.segments, .window = sight.window};
  const auto mixed = sight.causal ? causal_attention(v.queries, v.keys, v.values, mask)
                                  : attention(v.queries, v.keys, v.values, {.segments = sight.segments});
  return mixed.transpose(1, 2).reshape({packed.size(0), packed.size(1), heads.queries * heads.width});
}

}  // namespace

void rotate_packed(const at::Tensor& packed, const Heads& heads, const at::Tensor& cosines, const at::Tensor& sines) {
  with_type(packed.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      const PackedHeads<T> all{pointer<T>(packed), packed.size(0) * packed.size(1), heads.queries + 2 * heads.keys,
                               heads.width};
      rotate_heads_gpu(all, heads.queries + heads.keys, rotation_of(cosines, sines), stream_of(packed));
    });
  });
}

at::Tensor packed_attention(const at::Tensor& packed, const Heads& heads, const at::Tensor& cosines,
                            const at::Tensor& sines, const PackedSight& sight) {
  const int64_t rows = packed.size(0), length = packed.size(1);
  const bool hides = sight.causal && sight.window > 0 && length > sight.window;
  Sight seen{sight.causal, {}, hides ? sight.window : 0};
  if (!attends_by_bounds(packed, heads.width) || length < 2) return by_parts(packed, heads, cosines, sines, sight);
  if (sight.segments.defined()) {
    seen.bounds = sight.segments.bounds();
    if (!seen.bounds.defined()) return by_parts(packed, heads, cosines, sines, sight);
  } else if (hides) {  // the forms without bounds are not told of a window
    seen.bounds = at::arange(0, rows * length + 1, length, packed.options().dtype(at::kInt));
  }
  return PackedAttention::apply(packed.contiguous(), maybe(cosines), maybe(sines), heads, seen);
}

}  // namespace hyperion::blocks
