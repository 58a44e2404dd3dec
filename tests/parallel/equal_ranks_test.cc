#include "hyperion/parallel/equal_ranks.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/comm/local_transport.h"

namespace hyperion::parallel {
namespace {

// What each of three ranks throws where `spoil` changes its weights.
std::vector<std::string> errors_of(const std::function<void(int rank, at::Tensor& first, at::Tensor& second)>& spoil) {
  auto transports = comm::make_local_transports(3);
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      comm::Group group("test", std::move(transports[static_cast<size_t>(rank)]));
      auto first = at::zeros({5, 3}), second = at::zeros({7}, at::kBFloat16);
      spoil(rank, first, second);
      try {
        check_equal(group, {{"first", first}, {"second", second}});
      } catch (const base::Error& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  return errors;
}

TEST(EqualRanks, the_same_weights_pass) {
  for (const auto& error : errors_of([](int, at::Tensor&, at::Tensor&) {})) EXPECT_EQ(error, "");
}

TEST(EqualRanks, one_bit_on_one_rank_is_found_and_named_on_all) {
  const auto errors = errors_of([](int rank, at::Tensor&, at::Tensor& second) {
    if (rank == 2) second[6] = 1e-30;
  });
  for (const auto& error : errors)
    EXPECT_EQ(error, "the weights of rank 2 are not those of rank 0; the first that differs is second");
}

}  // namespace
}  // namespace hyperion::parallel
