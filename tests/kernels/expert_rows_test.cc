#include "hyperion/kernels/expert_rows.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "hyperion/base/format.h"
#include "hyperion/device/graph.h"
#include "hyperion/kernels/top_k.h"
#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

using testing::relative_error;

double rows_tolerance(at::ScalarType type) { return type == at::kFloat ? 1e-5 : type == at::kBFloat16 ? 1e-2 : 2e-3; }

class Experts : public testing::OnDevice {};

struct RowsCase {
  int64_t tokens, experts, choices, width;
};
const RowsCase kRowsCases[] = {{1, 1, 1, 1},      {7, 4, 2, 5},     {300, 8, 2, 64},
                               {1000, 60, 4, 24}, {513, 130, 1, 8}, {64, 3, 3, 1032}};

std::string rows_text(const RowsCase& c) {
  return base::format("{} {} {} {}", c.tokens, c.experts, c.choices, c.width);
}

TEST_P(Experts, are_the_likeliest_with_the_gradients_of_plain_operations) {
  for (const auto& c : kRowsCases)
    for (const bool normalized : {false, true})
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(rows_text(c));
        // No two equal, in any type: whose turn it is among equals is not plain operations' to say.
        const auto logits =
            at::randn({c.tokens, c.experts}).argsort(int64_t{-1}).to(at::kFloat).mul(0.125).sub(4).to(type);
        const auto above = at::randn({c.tokens, c.choices});
        const auto leaf = logits.to(GetParam()).clone().requires_grad_();
        const auto plain = logits.to(at::kFloat).clone().requires_grad_();
        const auto [experts, weights] = top_k(leaf, c.choices, normalized);
        const auto [wanted, shares] = top_k_reference(plain, c.choices, normalized);
        EXPECT_TRUE(experts.cpu().equal(wanted));
        EXPECT_LT(relative_error(weights.detach().cpu(), shares.detach()), 1e-5);
        weights.backward(above.to(GetParam()));
        shares.backward(above);
        const auto wrong = leaf.grad().cpu().to(at::kFloat).sub(plain.grad()).norm().item<double>();
        EXPECT_LT(wrong, rows_tolerance(type) * plain.grad().norm().item<double>() + 1e-6);
      }
}

TEST_P(Experts, of_equals_or_of_nothing_but_nans_are_the_first_each_once) {
  const auto nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, nan, inf, -inf}) {
    const auto [experts, weights] = top_k(at::full({3, 40}, value).to(GetParam()), 3, true);
    for (int64_t c = 0; c < 3; ++c) EXPECT_TRUE(experts.select(1, c).eq(c).all().item<bool>()) << value;
  }
}

TEST_P(Experts, get_their_rows_in_the_tokens_order) {
  for (const auto& c : kRowsCases)
    for (const auto& [capacity, limit] :
         {std::pair{int64_t{0}, int64_t{0}}, std::pair{int64_t{1}, int64_t{1}},
          std::pair{c.tokens / 3 + 1, c.tokens / 3 + 1}, std::pair{c.tokens / 3 + 1, c.tokens / 7 + 1}}) {
      SCOPED_TRACE(rows_text(c));
      const bool limited = limit < capacity;  // then some go nowhere too
      const auto chosen = at::randint(limited ? -1 : 0, c.experts, {c.tokens, c.choices}, at::kLong);
      Capacity room{capacity};
      if (limited) room.limit = at::full({}, limit, at::kInt).to(GetParam());
      const auto places = expert_places(chosen.to(GetParam()), c.experts, room);
      const auto row_of = places.row_of.cpu(), slot_of = places.slot_of.cpu(), ends = places.ends.cpu();
      const auto* expert = chosen.const_data_ptr<int64_t>();
      std::vector<std::vector<int32_t>> queues(static_cast<size_t>(c.experts));
      for (int32_t slot = 0; slot < c.tokens * c.choices; ++slot)
        if (expert[slot] >= 0) queues[static_cast<size_t>(expert[slot])].push_back(slot);
      std::vector<int32_t> rows, wanted_ends, wanted_rows(static_cast<size_t>(c.tokens * c.choices), -1);
      for (const auto& queue : queues) {
        const size_t count = capacity == 0 ? queue.size() : static_cast<size_t>(capacity);
        const size_t taken = capacity == 0 ? count : std::min(queue.size(), static_cast<size_t>(limit));
        for (size_t i = 0; i < count; ++i) {
          if (i < taken) wanted_rows[static_cast<size_t>(queue[i])] = static_cast<int32_t>(rows.size());
          rows.push_back(i < taken ? queue[i] : -1);
        }
        wanted_ends.push_back(static_cast<int32_t>(rows.size()));
      }
      const auto same = [](const at::Tensor& tensor, const std::vector<int32_t>& wanted) {
        const auto* data = tensor.const_data_ptr<int32_t>();
        return std::vector<int32_t>(data, data + tensor.numel()) == wanted;
      };
      EXPECT_TRUE(same(slot_of, rows));
      EXPECT_TRUE(same(row_of, wanted_rows));
      EXPECT_TRUE(same(ends, wanted_ends));
    }
}

// The same by a matrix of who goes where.
TEST_P(Experts, bring_back_weighted_sums_in_value_and_gradient) {
  for (const auto& c : kRowsCases)
    for (const int64_t capacity : {int64_t{0}, c.tokens / 3 + 1})
      for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(rows_text(c));
        if (c.tokens > 600) continue;  // the matrix would be large
        const auto places = expert_places(at::randint(c.experts, {c.tokens, c.choices}, at::kLong).to(GetParam()),
                                          c.experts, {capacity});
        const auto slot_of = places.slot_of.cpu();
        const int64_t rows = slot_of.size(0);
        auto copies = at::zeros({rows, c.tokens}, at::kDouble),
             slots = at::zeros({rows, c.tokens * c.choices}, at::kDouble);
        for (int64_t row = 0; row < rows; ++row) {
          const int64_t slot = slot_of[row].item<int64_t>();
          if (slot >= 0) copies[row][slot / c.choices] = 1, slots[row][slot] = 1;
        }
        const auto tokens = at::randn({c.tokens, c.width}).to(type), above = at::randn({c.tokens, c.width}).to(type);
        const auto shares = at::randn({c.tokens, c.choices}), factors = at::randn({rows, c.width}).to(type);
        const auto x = tokens.to(GetParam()).clone().requires_grad_(),
                   w = shares.to(GetParam()).clone().requires_grad_();
        const auto sent = to_experts(x, places);
        const auto out = from_experts(sent.mul(factors.to(GetParam())), w, places);
        out.backward(above.to(GetParam()));
        const auto wide = tokens.to(at::kDouble).requires_grad_(), wide_w = shares.to(at::kDouble).requires_grad_();
        const auto answers = copies.mm(wide).mul(factors.to(at::kDouble));
        const auto by_row = slots.mul(wide_w.reshape({1, -1})).sum(1, true);
        const auto expected = copies.t().mm(answers.mul(by_row));
        expected.backward(above.to(at::kDouble));
        EXPECT_LT(relative_error(sent.detach().cpu(), copies.mm(wide).detach()), 1e-6);
        EXPECT_LT(relative_error(out.detach().cpu(), expected.detach()), rows_tolerance(type));
        EXPECT_LT(relative_error(x.grad().cpu(), wide.grad()), 2 * rows_tolerance(type));
        EXPECT_LT(relative_error(w.grad().cpu(), wide_w.grad()), 2 * rows_tolerance(type));
      }
}

TEST_P(Experts, are_found_and_served_inside_a_graph) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "graphs are a GPU's";
  auto logits = at::randn({200, 8}).to(GetParam()), tokens = at::randn({200, 64}).to(GetParam());
  at::Tensor out;
  const auto serve = [&] {
    const auto [experts, weights] = top_k(logits, 2, true);
    const auto places = expert_places(experts, 8, {});
    return from_experts(to_experts(tokens, places), weights, places);
  };
  device::Graph graph;
  graph.record([&] { out = serve(); });
  for (int turn = 0; turn < 3; ++turn) {
    logits.copy_(at::randn({200, 8})), tokens.copy_(at::randn({200, 64}));
    graph.replay();
    EXPECT_TRUE(out.equal(serve())) << turn;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Experts, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::kernels
