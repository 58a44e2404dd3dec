#include "hyperion/blocks/segments.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "hyperion/blocks/attention.h"
#include "tests/blocks/support_attention.h"
#include "tests/support/devices.h"

namespace hyperion {
namespace {

using blocks::AttentionMask;
using blocks::Segments;
using testing::OnDevice;
using testing::plain_attention;
using testing::relative_error;

// Documents of 1 to `longest` tokens, cut at the end of each row: int32 [rows, length].
at::Tensor random_starts(int64_t rows, int64_t length, int64_t longest, uint32_t seed) {
  std::mt19937 random(seed);
  auto starts = at::empty({rows, length}, at::kInt);
  auto value = starts.accessor<int32_t, 2>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t first = 0, end; first < length; first = end) {
      end = std::min(length, first + 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(longest)));
      for (int64_t i = first; i < end; ++i) value[row][i] = static_cast<int32_t>(first);
    }
  return starts;
}

// The mask said pair by pair: bool [rows, queries, keys].
at::Tensor seen_of(const at::Tensor& starts, bool causal, int64_t window, const at::Tensor& padding) {
  const int64_t rows = starts.size(0), length = starts.size(1);
  auto seen = at::empty({rows, length, length}, at::kBool);
  auto value = seen.accessor<bool, 3>();
  const auto start = starts.accessor<int32_t, 2>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < length; ++i)
      for (int64_t j = 0; j < length; ++j) {
        const bool within = !causal || (j <= i && (window == 0 || j > i - window));
        value[row][i][j] = within && start[row][i] == start[row][j];
      }
  return padding.defined() ? seen.logical_and(padding.unsqueeze(1)) : seen;
}

using Attend = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

// The output and the gradients of queries, keys and values, of queries that see a key.
std::vector<at::Tensor> results_of(const std::vector<at::Tensor>& heads, const at::Tensor& along,
                                   const at::Tensor& seen, const Attend& attend) {
  for (const auto& t : heads) t.mutable_grad().reset();
  const auto out = attend(heads[0], heads[1], heads[2]).mul(seen.any(-1).unsqueeze(1).unsqueeze(3));
  out.backward(along);
  return {out.detach(), heads[0].grad().clone(), heads[1].grad().clone(), heads[2].grad().clone()};
}

class SegmentedAttention : public OnDevice {
 protected:
  std::vector<at::Tensor> random_heads(int64_t length, at::ScalarType type) {
    std::vector<at::Tensor> list;
    for (const int64_t heads : {4, 2, 2})
      list.push_back(here(at::randn({3, length, heads, 16})).to(type).transpose(1, 2).requires_grad_());
    return list;
  }
  at::Tensor here(const at::Tensor& tensor) { return tensor.defined() ? tensor.to(GetParam()) : tensor; }

  void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                    at::ScalarType type) {
    for (size_t i = 0; i < found.size(); ++i) {
      if (expected[i].norm().item<double>() < 1e-5) continue;  // nothing to choose, but for rounding
      EXPECT_LT(relative_error(found[i], expected[i]), type == at::kFloat ? 2e-5 : 2e-2) << "result " << i;
    }
  }
};

TEST_P(SegmentedAttention, is_that_under_the_dense_mask_in_value_and_gradient) {
  uint32_t seed = 0;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t length : {1, 7, 33, 200})
      for (const int64_t longest : {1, 5, 40, 200})
        for (const int64_t window : {0, 1, 6})
          for (const bool padded : {false, true}) {
            if (length == 200 && (type != at::kFloat || longest < 40) && !GetParam().is_cuda()) continue;  // takes long
            SCOPED_TRACE(::testing::Message() << c10::toString(type) << ", length " << length << ", documents up to "
                                              << longest << ", window " << window << ", padded " << padded);
            const auto starts = random_starts(3, length, longest, ++seed);
            at::Tensor padding;
            if (padded)
              padding = at::ones({3, length}, at::kBool), padding[1].narrow(0, length / 2, length / 3).fill_(0);
            const auto heads = random_heads(length, type);
            const auto along = here(at::randn({3, 4, length, 16})).to(type);
            const int64_t most = seed % 4 == 0 ? 0 : blocks::most_documents(starts) + seed % 3;
            const AttentionMask mask{here(padding), Segments(here(starts), most), window};
            const auto seen = here(seen_of(starts, true, window, padding));
            const auto expected = results_of(heads, along, seen, [&](const auto& q, const auto& k, const auto& v) {
              return plain_attention(q, k, v, seen);
            });
            expect_equal(results_of(heads, along, seen,
                                    [&](const auto& q, const auto& k, const auto& v) {
                                      return blocks::causal_attention(q, k, v, mask);
                                    }),
                         expected, type);
            expect_equal(results_of(heads, along, seen,
                                    [&](const auto& q, const auto& k, const auto& v) {
                                      return blocks::causal_attention_reference(q, k, v, mask);
                                    }),
                         expected, type);
            if (window > 0) continue;
            const auto all = here(seen_of(starts, false, 0, padding));
            const auto both_ways = results_of(heads, along, all, [&](const auto& q, const auto& k, const auto& v) {
              return plain_attention(q, k, v, all);
            });
            expect_equal(results_of(heads, along, all,
                                    [&](const auto& q, const auto& k, const auto& v) {
                                      return blocks::attention(q, k, v, mask);
                                    }),
                         both_ways, type);
            expect_equal(results_of(heads, along, all,
                                    [&](const auto& q, const auto& k, const auto& v) {
                                      return blocks::attention_reference(q, k, v, mask);
                                    }),
                         both_ways, type);
          }
}

TEST_P(SegmentedAttention, of_few_queries_over_many_keys_is_the_end_of_the_whole) {
  const auto starts = here(random_starts(3, 29, 12, 5));
  const auto heads = random_heads(29, at::kFloat);
  for (const int64_t window : {0, 4}) {
    const auto whole = blocks::causal_attention_reference(heads[0], heads[1], heads[2],
                                                          {.segments = Segments(starts), .window = window});
    for (const int64_t last : {1, 6, 28}) {
      const auto end = [&](const at::Tensor& tensor, int64_t along) { return tensor.narrow(along, 29 - last, last); };
      const AttentionMask mask{.segments = Segments(end(starts, 1)), .window = window};
      EXPECT_LT(relative_error(blocks::causal_attention(end(heads[0], 2), heads[1], heads[2], mask), end(whole, 2)),
                2e-5);
      EXPECT_LT(
          relative_error(blocks::causal_attention_reference(end(heads[0], 2), heads[1], heads[2], mask), end(whole, 2)),
          2e-5);
    }
  }
}

TEST_P(SegmentedAttention, of_rows_of_one_document_each_is_plain_attention) {
  const auto heads = random_heads(17, at::kFloat);
  const AttentionMask mask{.segments = Segments(here(at::full({3, 17}, 0, at::kInt)))};
  EXPECT_LT(relative_error(blocks::causal_attention(heads[0], heads[1], heads[2], mask),
                           blocks::causal_attention(heads[0], heads[1], heads[2])),
            2e-5);
}

// Each document goes by itself there, so that the library is asked for the same as of one alone.
TEST(SegmentedAttentionOnCpu, of_long_rows_gives_each_document_what_it_gives_alone_to_the_bit) {
  const int64_t rows = 2, length = 400;
  const auto starts = random_starts(rows, length, 150, 3);
  std::vector<at::Tensor> heads;
  for (const int64_t count : {4, 2, 2}) heads.push_back(at::randn({rows, length, count, 32}).transpose(1, 2));
  for (const int64_t window : {0, 20})
    for (const bool causal : {true, false}) {
      const auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Segments& segments) {
        const AttentionMask mask{.segments = segments, .window = causal ? window : 0};
        return causal ? blocks::causal_attention(q, k, v, mask) : blocks::attention(q, k, v, mask);
      };
      const auto all = attend(heads[0], heads[1], heads[2], Segments(starts));
      for (int64_t row = 0; row < rows; ++row)
        for (int64_t first = 0; first < length;) {
          const auto count = starts[row].eq(first).sum().item<int64_t>();
          const auto own = [&](const at::Tensor& t) { return t.narrow(0, row, 1).narrow(2, first, count); };
          EXPECT_TRUE(own(all).equal(attend(own(heads[0]), own(heads[1]), own(heads[2]), {}))) << row << " " << first;
          first += count;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, SegmentedAttention, ::testing::ValuesIn(testing::devices()), testing::device_name);

TEST(Segments, make_each_dense_form_once_for_all_their_copies) {
  const Segments segments(random_starts(2, 9, 4, 1)), copy = segments;
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
  EXPECT_TRUE(same(segments.visible({9, true, 0}), copy.visible({9, true, 0})));
  EXPECT_TRUE(same(segments.added_to_scores({9, true, 3}, at::kFloat), copy.added_to_scores({9, true, 3}, at::kFloat)));
  EXPECT_FALSE(same(segments.visible({9, true, 0}), segments.visible({9, true, 3})));
  EXPECT_FALSE(same(segments.visible({9, true, 0}), segments.visible({9, false, 0})));
  EXPECT_EQ(segments.added_to_scores({9, true, 3}, at::kBFloat16).scalar_type(), at::kBFloat16);
  EXPECT_FALSE(Segments().defined());
}

TEST_P(SegmentedAttention, knows_where_documents_begin_among_all_tokens) {
  for (const int64_t longest : {1, 3, 40}) {
    const auto starts = random_starts(3, 11, longest, 7);
    std::vector<int32_t> begins;
    for (int32_t token = 0; token < 33; ++token)
      if (starts[token / 11][token % 11].item<int32_t>() == token % 11) begins.push_back(token);
    const int64_t most = blocks::most_documents(starts);
    for (const int64_t room : {most, most + 2}) {
      auto expected = begins;
      expected.resize(static_cast<size_t>(3 * room + 1), 33);
      const Segments segments(here(starts), room);
      const auto bounds = segments.bounds().cpu();
      ASSERT_EQ(bounds.scalar_type(), at::kInt);
      EXPECT_EQ(
          std::vector<int32_t>(bounds.const_data_ptr<int32_t>(), bounds.const_data_ptr<int32_t>() + bounds.numel()),
          expected);
      EXPECT_TRUE(segments.bounds().is_same(Segments(segments).bounds()));
    }
    EXPECT_FALSE(Segments(here(starts)).bounds().defined());
  }
}

TEST(Segments, that_see_ahead_refuse_keys_of_a_cache) {
  const Segments segments(random_starts(2, 3, 4, 1));
  EXPECT_ANY_THROW(segments.visible({5, false, 0}));
  EXPECT_ANY_THROW(Segments(at::full({2, 3}, 0, at::kLong)));
}

}  // namespace
}  // namespace hyperion
