#include "hyperion/parallel/quantized.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "hyperion/comm/local_transport.h"

namespace hyperion::parallel {
namespace {

at::Tensor numbers(int64_t rows, int64_t count) {
  return at::arange(rows * count, at::kFloat)
      .mul(0.73)
      .sin()
      .mul(at::arange(1, rows + 1, at::kFloat).repeat_interleave(count))
      .view({rows, count});
}

TEST(Quantized, numbers_come_back_within_half_a_level_of_their_block) {
  for (const int bits : {8, 4})
    for (const int64_t count : {1, 16, 127, 128, 129, 1000}) {
      const auto rows = numbers(3, count);
      const auto packed = pack(rows, bits);
      EXPECT_EQ(packed.size(1), packed_bytes(count, bits));
      const auto back = unpack(packed, count, bits);
      for (int64_t row = 0; row < 3; ++row)
        for (int64_t first = 0; first < count; first += kQuantisedBlock) {
          const int64_t many = std::min(kQuantisedBlock, count - first);
          const auto block = rows[row].narrow(0, first, many);
          const double level = block.abs().max().item<double>() / (bits == 8 ? 127 : 7);
          EXPECT_LE(block.sub(back[row].narrow(0, first, many)).abs().max().item<double>(), 0.5001 * level);
        }
    }
}

TEST(Quantized, zeros_stay_zeros_and_what_is_not_finite_shows) {
  const auto zeros = at::zeros({1, 300});
  EXPECT_TRUE(unpack(pack(zeros, 4), 300, 4).eq(0).all().item<bool>());
  auto broken = numbers(1, 300);
  broken[0][140] = NAN;
  EXPECT_FALSE(unpack(pack(broken, 8), 300, 8).isfinite().all().item<bool>());
  broken[0][140] = INFINITY;
  EXPECT_FALSE(unpack(pack(broken, 4), 300, 4).isfinite().all().item<bool>());
}

// 3 nodes of 2 ranks.
TEST(Quantized, reduces_over_nodes_to_each_rank_its_own_piece) {
  constexpr int kNodes = 3, kLocal = 2, kRanks = kNodes * kLocal;
  constexpr int64_t kPiece = 160;
  std::vector<std::vector<std::unique_ptr<comm::Transport>>> nodes, places;
  for (int i = 0; i < kNodes; ++i) nodes.push_back(comm::make_local_transports(kLocal));
  for (int i = 0; i < kLocal; ++i) places.push_back(comm::make_local_transports(kNodes));
  const auto flats = numbers(kRanks, kRanks * kPiece);
  std::vector<at::Tensor> sums(kRanks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const int node = rank / kLocal, place = rank % kLocal;
      comm::Group within("node", std::move(nodes[node][place])), across("across", std::move(places[place][node]));
      sums[rank] = at::full({kPiece}, 1.0f);
      reduce_quantized({within, across}, sums[rank], flats[rank], "test", /*add=*/rank % 2 == 1, /*bits=*/4).wait();
    });
  for (auto& thread : threads) thread.join();
  const auto exact = flats.sum(0).view({kRanks, kPiece});
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto off = sums[rank].sub(rank % 2 == 1 ? 1 : 0).sub(exact[rank]).abs().max().item<double>();
    EXPECT_LT(off, 0.12 * flats.abs().sum(0).max().item<double>()) << rank;
    EXPECT_GT(off, 0) << "4 bits cannot be exact here";
  }
}

}  // namespace
}  // namespace hyperion::parallel
