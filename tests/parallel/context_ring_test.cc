// Attention over samples cut by tokens, on threads that are the processes, gives what attention over whole samples
// does: outputs and gradients, of odd sizes, of fewer key heads, within documents and windows.
#include "hyperion/parallel/context_ring.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/nn/context.h"

namespace hyperion::parallel {
namespace {

using strategy::ContextMethod;

struct Sizes {
  int64_t heads, key_heads, width, length;
  int64_t window = 0;
  bool documents = false;
};

struct Attended {
  at::Tensor output;
  std::vector<at::Tensor> gradients;  // of queries, keys and values
};

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

blocks::Segments documents_of(const Sizes& sizes) {
  if (!sizes.documents) return {};
  const auto second = at::arange(sizes.length, at::kInt)
                          .ge(5)
                          .mul(5)
                          .add(at::arange(sizes.length, at::kInt).ge(sizes.length - 3).mul(sizes.length - 8));
  return blocks::Segments(at::cat({second.to(at::kInt).unsqueeze(0), at::zeros({1, sizes.length}, at::kInt)}), 3);
}

Attended attended_by(ContextMethod method, int64_t processes, const Sizes& sizes, const std::vector<at::Tensor>& whole,
                     const at::Tensor& above) {
  auto transports = comm::make_local_transports(static_cast<int>(processes), std::chrono::seconds(20));
  std::vector<Attended> all(static_cast<size_t>(processes));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < processes; ++i)
    threads.emplace_back([&, i] {
      try {
        comm::Group group("context", std::move(transports[static_cast<size_t>(i)]));
        ContextRing ring(group, method);
        nn::Pass pass;
        pass.reference = true;
        pass.context = &ring, pass.tokens = strategy::token_cut(method, processes, i, sizes.length);
        pass.segments = documents_of(sizes);
        const auto own = [&](const at::Tensor& tensor) { return nn::tokens_of(tensor, pass.tokens, 2); };
        std::vector<at::Tensor> inputs;
        for (const auto& tensor : whole) inputs.push_back(own(tensor).detach().clone().requires_grad_());
        const auto output = nn::attend_in_context(inputs[0], inputs[1], inputs[2], sizes.window, pass);
        all[static_cast<size_t>(i)] = {output.detach(), torch::autograd::grad({output}, inputs, {own(above)})};
      } catch (const base::Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  const auto put_together = [&](const auto& of) {
    const auto out = at::zeros_like(of(all[0])).repeat({1, 1, processes, 1});
    for (int64_t i = 0; i < processes; ++i) {
      const auto places =
          nn::tokens_of(at::arange(sizes.length), strategy::token_cut(method, processes, i, sizes.length), 0);
      out.index_copy_(2, places, of(all[static_cast<size_t>(i)]));
    }
    return out;
  };
  Attended found{put_together([](const auto& one) { return one.output; }), {}};
  for (size_t which = 0; which < 3; ++which)
    found.gradients.push_back(put_together([which](const auto& one) { return one.gradients[which]; }));
  return found;
}

void expect_as_whole(ContextMethod method, int64_t processes, const Sizes& sizes) {
  const auto inputs_of = [&](int64_t heads) {
    return at::randn({2, heads, sizes.length, sizes.width}).requires_grad_();
  };
  const std::vector<at::Tensor> whole{inputs_of(sizes.heads), inputs_of(sizes.key_heads), inputs_of(sizes.key_heads)};
  const auto above = at::randn({2, sizes.heads, sizes.length, sizes.width});
  const auto expected =
      blocks::causal_attention_reference(whole[0], whole[1], whole[2], {{}, documents_of(sizes), sizes.window});
  const auto gradients = torch::autograd::grad({expected}, whole, {above});
  const auto found = attended_by(method, processes, sizes, whole, above);
  EXPECT_LT(distance(found.output, expected.detach()), 1e-5);
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(distance(found.gradients[i], gradients[i]), 1e-5) << i;
}

TEST(ContextRing, attends_as_one_process_does_to_whole_samples) {
  for (const int64_t processes : {1, 2, 3, 4}) {
    const int64_t length = 2 * 3 * processes + (processes == 1 ? 12 : 2 * processes);
    for (const bool documents : {false, true})
      for (const int64_t window : {0, 3})
        expect_as_whole(ContextMethod::ring, processes, {6, 2, 5, length, window, documents});
    expect_as_whole(ContextMethod::ring, processes, {3, 3, 7, length});
  }
}

TEST(ContextUlysses, attends_as_one_process_does_to_whole_samples) {
  for (const int64_t processes : {1, 2, 3, 4})
    for (const int64_t key_heads : {1, 2, 3, 4, 12})
      expect_as_whole(ContextMethod::ulysses, processes, {12, key_heads, 5, 12, key_heads == 2 ? 4 : 0, key_heads < 3});
}

}  // namespace
}  // namespace hyperion::parallel
