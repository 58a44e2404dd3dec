// Tokens that threads, as processes, send each other's experts and get back: what each makes of its tokens, and the
// gradients of these and of the experts' weights, are those of one process that has all experts. Some get no row.
#include "hyperion/parallel/expert_wires.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/nn/expert_exchange.h"

namespace hyperion::parallel {
namespace {

constexpr int64_t kExperts = 4, kRowWidth = 3, kExpertChoices = 2;

struct TokenShare {
  at::Tensor tokens, above;
  nn::Routing routing;
  kernels::Capacity capacity;
};

// Each expert multiplies by a matrix of its own.
at::Tensor answers_of(const nn::Dispatched& given, const at::Tensor& matrices, int64_t first) {
  std::vector<at::Tensor> answers;
  const auto* ends = given.ends.const_data_ptr<int32_t>();
  for (int64_t i = 0, begin = 0; i < given.ends.numel(); begin = ends[i++])
    answers.push_back(given.rows.narrow(0, begin, ends[i] - begin).matmul(matrices[first + i]));
  return at::cat(answers);
}

struct Combined {
  at::Tensor output, of_tokens, of_matrices;
};

Combined combined_by(const TokenShare& share, const at::Tensor& matrices, nn::ExpertPeers* peers) {
  const auto tokens = share.tokens.detach().clone().requires_grad_();
  const auto own = matrices.detach().clone().requires_grad_();
  auto dispatched = nn::LocalDispatcher().dispatch(tokens, share.routing, kExperts, share.capacity);
  if (peers != nullptr) dispatched = nn::among_peers(dispatched, *peers, /*trained=*/true);
  const auto output = dispatched.combine(answers_of(dispatched, own, nn::own_experts(kExperts, peers).first));
  const auto gradients = torch::autograd::grad({output}, {tokens, own}, {share.above});
  return {output.detach(), gradients[0], gradients[1]};
}

void expect_experts_as_one(int64_t processes, int64_t capacity, int64_t chosen) {
  const auto matrices = at::randn({kExperts, kRowWidth, kRowWidth});
  std::vector<TokenShare> shares;
  for (int64_t i = 0; i < processes; ++i) {
    const int64_t tokens = 5 + i;  // as where a batch does not divide
    const auto first = at::randint(chosen, {tokens, 1}, at::kLong);
    shares.push_back({at::randn({tokens, kRowWidth}),
                      at::randn({tokens, kRowWidth}),
                      {at::cat({first, first.add(1).remainder(chosen)}, 1), at::randn({tokens, kExpertChoices})},
                      {capacity}});
  }
  auto transports = comm::make_local_transports(static_cast<int>(processes), std::chrono::seconds(20));
  std::vector<Combined> found(shares.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < shares.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        comm::Group group("experts", std::move(transports[i]));
        ExpertWires wires(group);
        found[i] = combined_by(shares[i], matrices, &wires);
      } catch (const base::Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  std::vector<at::Tensor> expected, given;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto alone = combined_by(shares[i], matrices, nullptr);
    EXPECT_TRUE(at::allclose(found[i].output, alone.output, 1e-5, 1e-6)) << processes << " " << i;
    EXPECT_TRUE(at::allclose(found[i].of_tokens, alone.of_tokens, 1e-5, 1e-6)) << processes << " " << i;
    expected.push_back(alone.of_matrices), given.push_back(found[i].of_matrices);
  }
  EXPECT_TRUE(at::allclose(at::stack(given).sum(0), at::stack(expected).sum(0), 1e-5, 1e-5)) << processes;
}

TEST(ExpertWires, bring_tokens_to_their_experts_and_home_as_in_one_process) {
  for (const int64_t processes : {1, 2, 4})
    for (const int64_t capacity : {0, 2})
      for (const int64_t chosen : {int64_t{2}, kExperts}) expect_experts_as_one(processes, capacity, chosen);
}

}  // namespace
}  // namespace hyperion::parallel
