#include "hyperion/blocks/block_ops.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <barrier>
#include <thread>

#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/attention_backend.h"
#include "hyperion/blocks/linears.h"
#include "hyperion/blocks/rope.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/kernels/gemm.h"
#include "tests/blocks/support_block_ops.h"

namespace hyperion::blocks {
namespace {

class BlockOps : public BlockOperation {};

TEST_P(BlockOps, layer_norm_and_a_map_with_the_residual) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes) {
      SCOPED_TRACE(s.width);
      agrees(
          {random({s.batch, s.length, s.width}), random({s.width}), random({s.width}), random({s.width, s.inner}, 0.1),
           random({s.inner})},
          [](const Tensors& t) -> Tensors {
            const auto [hidden, out] = norm_linear(t[0], {t[1], t[2], 1e-5}, {{t[3]}, {t[4]}, /*in_out=*/true});
            return {hidden, out};
          },
          [](const Tensors& t) -> Tensors {
            return {t[0].mul(1), plain_norm(t[0], t[1], t[2]).matmul(t[3]).add(t[4])};
          },
          type);
    }
  });
}

TEST_P(BlockOps, rms_norm_and_three_maps_side_by_side) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      for (const bool together : {false, true}) {
        SCOPED_TRACE(s.width);
        agrees(
            {random({s.batch, s.length, s.width}), random({s.width}), random({s.inner, s.width}, 0.1),
             random({3, s.width}, 0.1), random({s.inner, s.width}, 0.1), random({s.inner}), random({3}),
             random({s.inner})},
            [&](const Tensors& t) -> Tensors {
              if (together) {
                lay_together({t[2], t[3], t[4]});
                EXPECT_TRUE(joined(at::TensorList(t).slice(2, 3), 0).is_alias_of(t[3]));
              }
              const auto [hidden, out] =
                  norm_linear(t[0], {t[1], {}, 1e-5}, {{t[2], t[3], t[4]}, {t[5], t[6], t[7]}, /*in_out=*/false});
              return {hidden, out};
            },
            [](const Tensors& t) -> Tensors {
              const auto normal = plain_norm(t[0], t[1], {});
              return {t[0].mul(1), at::cat({at::linear(normal, t[2], t[5]), at::linear(normal, t[3], t[6]),
                                            at::linear(normal, t[4], t[7])},
                                           -1)};
            },
            type);
      }
  });
}

TEST_P(BlockOps, maps_side_by_side_without_a_norm) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      for (const bool frozen : {false, true}) {  // the first: the second is trained all the same
        SCOPED_TRACE(::testing::Message() << s.width << (frozen ? ", the first frozen" : ""));
        agrees(
            {random({s.batch, s.length, s.width}), random({s.inner, s.width}, 0.1), random({3, s.width}, 0.1),
             random({s.inner}), random({3})},
            [&](const Tensors& t) -> Tensors {
              if (!frozen) return {joined_linears(t[0], {{t[1], t[2]}, {t[3], t[4]}, /*in_out=*/false})};
              // Its gradient comes by another way, so that both sides have one.
              const auto out = joined_linears(t[0], {{t[1].detach(), t[2]}, {t[3].detach(), t[4]}, /*in_out=*/false});
              return {out, t[1].mul(2), t[3].mul(2)};
            },
            [&](const Tensors& t) -> Tensors {
              if (!frozen) return {at::cat({at::linear(t[0], t[1], t[3]), at::linear(t[0], t[2], t[4])}, -1)};
              return {at::cat({at::linear(t[0], t[1].detach(), t[3].detach()), at::linear(t[0], t[2], t[4])}, -1),
                      t[1].mul(2), t[3].mul(2)};
            },
            type);
        agrees(
            {random({s.batch, s.length, s.width}), random({s.width, s.inner}, 0.1)},
            [](const Tensors& t) -> Tensors {
              return {joined_linears(t[0], {{t[1]}, {}, /*in_out=*/true})};
            },
            [](const Tensors& t) -> Tensors { return {t[0].matmul(t[1])}; }, type);
      }
  });
}

TEST_P(BlockOps, map_of_an_activation_and_a_residual) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      for (const auto kind :
           {kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf, kernels::Activation::gated_silu}) {
        SCOPED_TRACE(s.width);
        const int64_t in = kind == kernels::Activation::gated_silu ? 2 * s.width : s.width;
        agrees(
            {random({s.batch, s.length, in}), random({s.width, s.inner}, 0.1), random({s.inner}),
             random({s.batch, s.length, s.inner})},
            [&](const Tensors& t) -> Tensors {
              return {activated_linear_residual(t[0], kind, {{t[1]}, {t[2]}, true}, t[3])};
            },
            [&](const Tensors& t) -> Tensors {
              return {t[3].add(kernels::activation_reference(t[0], kind).matmul(t[1]).add(t[2]))};
            },
            type);
      }
  });
}

TEST_P(BlockOps, map_and_a_residual_without_a_bias) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      agrees(
          {random({s.batch, s.length, s.width}), random({s.inner, s.width}, 0.1), random({s.batch, s.length, s.inner})},
          [](const Tensors& t) -> Tensors {
            return {linear_residual(t[0], {{t[1]}, {}, false}, t[2])};
          },
          [](const Tensors& t) -> Tensors { return {t[2].add(at::linear(t[0], t[1]))}; }, type);
  });
}

TEST_P(BlockOps, activations_by_themselves) {
  in_each_type([&](auto type) {
    for (const auto kind :
         {kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf, kernels::Activation::gated_silu})
      for (const int64_t width : {1, 7, 64, 4096})
        agrees(
            {random({5, 2 * width}, 3)}, [&](const Tensors& t) -> Tensors { return {kernels::activation(t[0], kind)}; },
            [&](const Tensors& t) -> Tensors { return {kernels::activation_reference(t[0], kind)}; }, type);
  });
}

TEST_P(BlockOps, activations_with_a_bias) {
  in_each_type([&](auto type) {
    for (const auto kind : {kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf})
      for (const auto& [rows, width] : std::vector<std::array<int64_t, 2>>{{1, 1}, {5, 7}, {301, 64}, {33, 2056}}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width);
        agrees(
            {random({rows, width}, 2), random({width}, 2)},
            [&](const Tensors& t) -> Tensors { return {kernels::activation(t[0], kind, t[1])}; },
            [&](const Tensors& t) -> Tensors { return {kernels::activation_reference(t[0], kind, t[1])}; }, type);
      }
  });
}

// Rows of a warp, of a block and of no whole vectors; fewer rows than a block takes at once, and many more.
const std::vector<std::array<int64_t, 2>> kRows{{1, 1},      {5, 7},      {700, 64},   {1, 512},  {3, 768},
                                                {1111, 768}, {2, 1024},   {803, 1280}, {5, 2048}, {41, 5120},
                                                {6, 5121},   {29, 12288}, {2, 40000}};

TEST_P(BlockOps, norm_gradients_with_the_output_again_and_sums) {
  in_each_type([&](auto type) {
    for (const auto& [rows, width] : kRows)
      for (const bool layer : {false, true})
        for (const bool joins : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << rows << " x " << width << (layer ? " layer" : "") << (joins ? " joins" : ""));
          const auto here = [&](const at::Tensor& t) { return t.to(type).to(GetParam()); };
          const auto wide = [&](const at::Tensor& t) { return t.to(type).to(at::kDouble); };
          const auto x = random({rows, width}, 2), weight = random({width}), bias = random({width}),
                     above = random({rows, width}), residual = random({rows, width});
          const kernels::NormWeights weights{here(weight), layer ? here(bias) : at::Tensor(), 1e-5};
          const auto normal = kernels::normalize(here(x), weights);
          const auto found =
              kernels::norm_gradients(here(x), weights, normal.statistics, here(above),
                                      joins ? here(residual) : at::Tensor(), {.output = true, .sums = true});
          const auto x2 = wide(x).requires_grad_(), w2 = wide(weight).requires_grad_(),
                     b2 = wide(bias).requires_grad_();
          const auto y2 = plain_norm(x2, w2, layer ? b2 : at::Tensor());
          y2.backward(wide(above));
          const auto of_input = joins ? x2.grad().add(wide(residual)) : x2.grad();
          const double bound = 2 * tolerance(type);
          EXPECT_LT(relative_error(normal.output.cpu(), y2.detach()), bound);
          EXPECT_LT(relative_error(found.output.cpu(), y2.detach()), bound);
          if (width == 1) continue;  // a norm of one number has no gradient but rounding
          EXPECT_LT(relative_error(found.weight.cpu(), w2.grad()), 2 * bound);
          if (layer) {
            EXPECT_LT(relative_error(found.bias.cpu(), b2.grad()), 2 * bound);
          }
          EXPECT_LT(relative_error(found.input.cpu(), of_input), bound);
          are_sums(found.sums, of_input, 2 * bound);
        }
  });
}

TEST_P(BlockOps, activation_gradients_with_the_value_again_and_sums) {
  in_each_type([&](auto type) {
    for (const auto& [rows, width] : kRows)
      for (const auto kind :
           {kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf, kernels::Activation::gated_silu}) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << width);
        const bool gated = kind == kernels::Activation::gated_silu;
        const auto x = random({rows, gated ? 2 * width : width}, 2).to(type), above = random({rows, width}).to(type);
        const auto found =
            kernels::activation_gradients(x.to(GetParam()), above.to(GetParam()), kind, {.value = true, .sums = true});
        const auto x2 = x.to(at::kDouble).requires_grad_();
        const auto y2 = kernels::activation_reference(x2, kind);
        y2.backward(above.to(at::kDouble));
        const double bound = 2 * tolerance(type);
        EXPECT_LT(relative_error(found.again.cpu(), y2.detach()), bound);
        EXPECT_LT(relative_error(found.input.cpu(), x2.grad()), bound);
        are_sums(found.sums, x2.grad(), 2 * bound);
      }
  });
}

// As GPT-2's: every bias's gradient comes from the pass that writes what it sums.
TEST_P(BlockOps, a_whole_block_with_biases) {
  in_each_type([&](auto type) {
    for (const auto& [batch, length, count, width] :
         std::vector<std::array<int64_t, 4>>{{2, 9, 2, 32}, {1, 33, 3, 64}, {2, 20, 12, 64}}) {
      SCOPED_TRACE(count * width);
      const int64_t u = count * width;
      const Heads heads{count, count, width};
      const double scale = 0.5 / std::sqrt(static_cast<double>(u));
      agrees(
          {random({batch, length, u}), random({u}), random({u}), random({u, 3 * u}, scale), random({3 * u}),
           random({u, u}, scale), random({u}), random({u}), random({u}), random({u, 4 * u}, scale), random({4 * u}),
           random({4 * u, u}, scale), random({u})},
          [&](const Tensors& t) -> Tensors {
            const auto [kept, qkv] = norm_linear(t[0], {t[1], t[2], 1e-5}, {{t[3]}, {t[4]}, true});
            const auto mixed = packed_attention(qkv, heads, {}, {}, {.causal = true});
            const auto middle = linear_residual(mixed, {{t[5]}, {t[6]}, true}, kept);
            const auto [on, inner] = norm_linear(middle, {t[7], t[8], 1e-5}, {{t[9]}, {t[10]}, true});
            return {activated_linear_residual(inner, kernels::Activation::gelu_tanh, {{t[11]}, {t[12]}, true}, on)};
          },
          [&](const Tensors& t) -> Tensors {
            const auto qkv = plain_norm(t[0], t[1], t[2]).matmul(t[3]).add(t[4]);
            const auto parts = qkv.view({batch, length, 3 * count, width}).transpose(1, 2).chunk(3, 1);
            const auto mixed = causal_attention_reference(parts[0], parts[1], parts[2]);
            const auto middle = mixed.transpose(1, 2).reshape({batch, length, u}).matmul(t[5]).add(t[6]).add(t[0]);
            const auto inner = plain_norm(middle, t[7], t[8]).matmul(t[9]).add(t[10]);
            return {middle.add(
                kernels::activation_reference(inner, kernels::Activation::gelu_tanh).matmul(t[11]).add(t[12]))};
          },
          type, /*slack=*/3);
    }
  });
}

TEST_P(BlockOps, norms_by_themselves) {
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      for (const bool layer : {false, true})
        agrees(
            {random({s.batch * s.length, s.width}), random({s.width}), random({s.width})},
            [&](const Tensors& t) -> Tensors {
              return {kernels::norm(t[0], {t[1], layer ? t[2] : at::Tensor(), 1e-5}).add(t[2])};
            },
            [&](const Tensors& t) -> Tensors {
              return {plain_norm(t[0], t[1], layer ? t[2] : at::Tensor()).add(t[2])};
            },
            type);
  });
}

TEST_P(BlockOps, attention_of_packed_heads_with_and_without_rotation) {
  struct Case {
    int64_t batch, length;
    Heads heads;
    bool causal, rotated, each_token;
    int64_t window = 0;
    std::vector<int64_t> begins = {};  // documents, in each row
  };
  const std::vector<Case> cases{{2, 16, {4, 4, 64}, true, false, false},
                                {2, 33, {4, 2, 64}, true, true, false},
                                {1, 7, {6, 1, 32}, true, true, true},
                                {3, 50, {2, 2, 80}, false, false, false},
                                {2, 17, {4, 4, 16}, true, true, false},
                                {1, 129, {3, 3, 128}, false, true, false},
                                {2, 33, {4, 2, 64}, true, true, false, 9},
                                {2, 16, {4, 4, 64}, true, false, false, 16},
                                {2, 33, {4, 2, 64}, true, true, true, 0, {0, 1, 20}},
                                {3, 300, {4, 2, 128}, true, true, true, 0, {0, 7, 135, 136, 290}},
                                {2, 33, {4, 1, 32}, true, true, true, 9, {0, 12}},
                                {2, 33, {2, 2, 64}, false, false, false, 0, {0, 5, 32}}};
  const auto agree = [&](auto type) {
    for (const auto& c : cases) {
      SCOPED_TRACE(c.length);
      const auto positions = c.each_token ? c.batch * c.length : c.length;
      const auto angles = at::rand({positions, c.heads.width / 2}).mul(6);
      const auto starts = at::zeros({c.batch, c.length}, at::kInt);
      for (const int64_t begin : c.begins) starts.narrow(1, begin, c.length - begin).fill_(begin);
      const auto segments_on = [&](at::Device device) {
        return c.begins.empty() ? Segments() : Segments(starts.to(device), std::ssize(c.begins) + 1);
      };
      const double scale = 1.2;  // tables need not be of length 1
      const auto cosines = c.rotated ? angles.cos().mul(scale) : at::Tensor(),
                 sines = c.rotated ? angles.sin().mul(scale) : at::Tensor();
      agrees(
          {random({c.batch, c.length, (c.heads.queries + 2 * c.heads.keys) * c.heads.width})},
          [&](const Tensors& t) -> Tensors {
            const auto here = [&](const at::Tensor& table) { return c.rotated ? table.to(GetParam()) : table; };
            // It turns what it is given in place: a copy, so that the leaf stays.
            return {packed_attention(t[0].clone(), c.heads, here(cosines), here(sines),
                                     {c.causal, c.window, segments_on(GetParam())})};
          },
          [&](const Tensors& t) -> Tensors {
            const auto by_head =
                t[0].view({c.batch, c.length, c.heads.queries + 2 * c.heads.keys, c.heads.width}).transpose(1, 2);
            auto parts = by_head.split_with_sizes({c.heads.queries, c.heads.keys, c.heads.keys}, 1);
            if (c.rotated) {
              const auto table = [&](const at::Tensor& half) {
                return at::cat({half, half}, -1).to(at::kDouble).view({-1, 1, c.length, c.heads.width});
              };
              for (const size_t i : {0, 1}) parts[i] = rope(parts[i], table(cosines), table(sines));
            }
            const auto group = c.heads.queries / c.heads.keys;
            const auto keys = parts[1].repeat_interleave(group, 1), values = parts[2].repeat_interleave(group, 1);
            const AttentionMask mask{.segments = segments_on(at::kCPU), .window = c.window};
            const auto mixed = c.causal ? causal_attention_reference(parts[0], keys, values, mask)
                                        : attention_reference(parts[0], keys, values, mask);
            return {mixed.transpose(1, 2).reshape({c.batch, c.length, -1})};
          },
          type, /*slack=*/3);
    }
  };
  if (!GetParam().is_cuda()) return in_each_type(agree);
  for (const auto backend : {AttentionBackend::cudnn, AttentionBackend::flash}) {
    use_attention_backend(backend);
    in_each_type(agree);
  }
  use_attention_backend({});
  device::set_tuning(true);
  in_each_type(agree);
  device::set_tuning(false);
  // Forward and backward of each shape: one hides keys and four have documents, for which there is one way; one has the
  // shape of the first.
  EXPECT_GE(device::tuning_cache().met().size(), 2 * (cases.size() - 6));
}

TEST_P(BlockOps, cross_entropy_of_a_map_holds_no_logits) {
  in_each_type([&](auto type) {
    for (const auto& [rows, width, classes] : std::vector<std::array<int64_t, 3>>{
             {1, 8, 16}, {37, 24, 1000}, {300, 64, 50}, {129, 16, 4099}, {1000, 8, 50304}}) {
      SCOPED_TRACE(classes);
      auto targets = at::randint(classes, {rows}, at::kLong);
      if (rows > 2) targets[1] = -100;
      agrees(
          {random({1, rows, width}), random({classes, width}, 0.3)},
          [&](const Tensors& t) -> Tensors {
            return {linear_cross_entropy(t[0], t[1], targets.to(GetParam())).mul(3).unsqueeze(0)};
          },
          [&](const Tensors& t) -> Tensors {
            return {
                kernels::cross_entropy_reference(at::linear(t[0], t[1]), targets).to(at::kDouble).mul(3).unsqueeze(0)};
          },
          type, /*slack=*/3);
    }
  });
}

// Processes that each have some of the classes, as threads: what each brings to a gather, all get.
class Meeting {
 public:
  explicit Meeting(int count) : brought_(static_cast<size_t>(count)), all_here_(count) {}
  at::Tensor gather(size_t index, const at::Tensor& own) {
    brought_[index] = own;
    all_here_.arrive_and_wait();
    const auto all = at::stack(brought_);
    all_here_.arrive_and_wait();
    return all;
  }

 private:
  Tensors brought_;
  std::barrier<> all_here_;
};

// The gradient of the weight is whole, of hidden it is a sum of shares: each loss counts as all of them.
at::Tensor loss_of_class_shards(const Tensors& t, const at::Tensor& targets, int count) {
  Meeting meeting(count);
  const int64_t classes = t[1].size(0);
  Tensors losses(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      const int64_t first = classes * i / count, end = classes * (i + 1) / count;
      // Of so many classes a piece has 128 rows.
      const ClassShards shards{first, classes << 20, [&, i](const at::Tensor& own) { return meeting.gather(i, own); }};
      losses[i] = linear_cross_entropy(t[0], t[1].narrow(0, first, end - first), targets, shards);
    });
  for (auto& thread : threads) thread.join();
  at::Tensor sum = losses[0];
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_EQ(losses[i].item<float>(), losses[0].item<float>());
    sum = sum.add(losses[i]).sub(losses[i].detach());
  }
  return sum;
}

TEST_P(BlockOps, cross_entropy_of_classes_on_several_processes_is_that_of_all) {
  in_each_type([&](auto type) {
    for (const auto& [rows, width, classes, count] : std::vector<std::array<int64_t, 4>>{
             {1, 8, 16, 2}, {37, 24, 1000, 3}, {300, 64, 53, 4}, {129, 16, 4099, 2}, {1000, 8, 50304, 2}}) {
      SCOPED_TRACE(classes);
      auto targets = at::randint(classes, {rows}, at::kLong);
      if (rows > 2) targets[1] = -100, targets[0] = classes - 1;
      agrees(
          {random({1, rows, width}), random({classes, width}, 0.3)},
          [&, shards = static_cast<int>(count)](const Tensors& t) -> Tensors {
            return {loss_of_class_shards(t, targets.to(GetParam()), shards).mul(3).unsqueeze(0)};
          },
          [&](const Tensors& t) -> Tensors {
            return {
                kernels::cross_entropy_reference(at::linear(t[0], t[1]), targets).to(at::kDouble).mul(3).unsqueeze(0)};
          },
          type, /*slack=*/3);
    }
  });
}

TEST_P(BlockOps, nothing_counted_is_a_loss_of_zero) {
  const auto hidden = random({4, 8}).to(GetParam()).requires_grad_();
  const auto weight = random({16, 8}).to(GetParam()).requires_grad_();
  const auto loss =
      linear_cross_entropy(hidden, weight, at::full({4}, -100, at::TensorOptions(GetParam()).dtype(at::kLong)));
  loss.backward();
  EXPECT_EQ(loss.item<float>(), 0);
  EXPECT_EQ(hidden.grad().abs().sum().item<float>() + weight.grad().abs().sum().item<float>(), 0);
}

TEST_P(BlockOps, products_add_up_in_fp32) {
  const auto a = random({33, 17}).to(GetParam()).to(at::kBFloat16),
             b = random({33, 21}).to(GetParam()).to(at::kBFloat16);
  auto out = at::empty({17, 21}, at::TensorOptions(GetParam()).dtype(at::kFloat));
  kernels::gemm_add(out, {.a = a, .b = b, .transpose_a = true}, /*first=*/true);
  kernels::gemm_add(out, {.a = a, .b = b, .transpose_a = true}, /*first=*/false);
  EXPECT_LT(relative_error(out.cpu(), a.cpu().to(at::kDouble).t().matmul(b.cpu().to(at::kDouble)).mul(2)),
            GetParam().is_cuda() ? 1e-6 : 1e-2);
}

TEST_P(BlockOps, sums_of_columns) {
  in_each_type([&](auto type) {
    for (const auto& [rows, columns] :
         std::vector<std::array<int64_t, 2>>{{1, 1}, {7, 3}, {1000, 8}, {4099, 777}, {5000, 1280}}) {
      const auto input = random({rows, columns}).to(type);
      EXPECT_LT(relative_error(kernels::column_sums(input.to(GetParam())).cpu(), input.to(at::kDouble).sum(0)),
                tolerance(type));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, BlockOps, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::blocks
