#include "hyperion/kernels/embedding.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/blocks/block_ops.h"
#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

using testing::relative_error;

constexpr at::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};
double tolerance(at::ScalarType type) { return type == at::kFloat ? 1e-5 : type == at::kBFloat16 ? 1e-2 : 2e-3; }

class Embedding : public testing::OnDevice {};

struct Case {
  int64_t rows, width, texts, length;
};
// Below, at and above what a block, a warp and a digit hold.
const Case kCases[] = {{1, 1, 1, 1},      {3, 5, 2, 7},        {50, 8, 3, 32},      {700, 24, 1, 33},
                       {513, 64, 5, 211}, {33, 1032, 2, 64},   {60000, 16, 4, 300}, {300000, 3, 2, 1030},
                       {33, 24, 5, 1000}, {2000, 264, 2, 1100}};  // the last four: too much to look through row by row

std::string text(const Case& c) { return base::format("{} {} {} {}", c.rows, c.width, c.texts, c.length); }

// Some ids often, as words are.
at::Tensor draw(const Case& c) {
  const auto ids = at::randint(c.rows, {c.texts, c.length}, at::kLong);
  return at::randint(3, {c.texts, c.length}, at::kLong).gt(0).mul(ids);
}

TEST_P(Embedding, gives_rows_and_sums_their_gradients_as_plain_operations_do) {
  for (const auto& c : kCases)
    for (const auto type : kTypes) {
      SCOPED_TRACE(text(c));
      const auto ids = draw(c);
      const auto table = at::randn({c.rows, c.width}).to(type),
                 above = at::randn({c.texts, c.length, c.width}).to(type);
      const auto leaf = table.to(GetParam()).clone().requires_grad_();
      const auto plain = table.to(at::kDouble).clone().requires_grad_();
      const auto out = kernels::embedding(leaf, ids.to(GetParam()));
      const auto wanted = at::embedding(plain, ids);
      EXPECT_TRUE(out.detach().cpu().to(at::kDouble).equal(wanted.detach()));
      out.backward(above.to(GetParam()));
      wanted.backward(above.to(at::kDouble));
      EXPECT_LT(relative_error(leaf.grad().cpu(), plain.grad()), tolerance(type));
    }
}

TEST_P(Embedding, adds_the_places_of_each_text) {
  for (const auto& c : kCases)
    for (const auto type : kTypes) {
      SCOPED_TRACE(text(c));
      const auto ids = draw(c);
      const int64_t first = c.length / 2;
      const auto table = at::randn({c.rows, c.width}).to(type),
                 above = at::randn({c.texts, c.length, c.width}).to(type);
      const auto rows = at::randn({first + c.length + 3, c.width}).to(type);
      const auto leaf = table.to(GetParam()).clone().requires_grad_(),
                 positions = rows.to(GetParam()).clone().requires_grad_();
      const auto plain = table.to(at::kDouble).clone().requires_grad_(),
                 where = rows.to(at::kDouble).clone().requires_grad_();
      const auto out = embedding_at(leaf, ids.to(GetParam()), positions, first);
      const auto wanted = embedding_at_reference(plain, ids, where, first);
      EXPECT_LT(relative_error(out.detach().cpu(), wanted.detach()), tolerance(type));
      out.backward(above.to(GetParam()));
      wanted.backward(above.to(at::kDouble));
      EXPECT_LT(relative_error(leaf.grad().cpu(), plain.grad()), tolerance(type));
      EXPECT_LT(relative_error(positions.grad().cpu(), where.grad()), tolerance(type));
    }
}

TEST_P(Embedding, sums_runs_of_any_length_to_the_same_bits_each_time) {
  // One id alone, all over; then stretches of 1, 2, 31, 32, 33, 64, 100 and 2000 of one.
  std::vector<at::Tensor> stretches;
  for (const int64_t length : {1, 2, 31, 32, 33, 64, 100, 2000})
    stretches.push_back(at::full({length}, static_cast<int64_t>(stretches.size()), at::kLong));
  const auto once = at::cat(stretches);
  for (const auto& ids : {at::full({5000}, int64_t{7}, at::kLong), once, at::cat({once, once})}) {
    const auto above = at::randn({ids.size(0), 40});
    const auto wanted = at::zeros({9, 40}, at::kDouble).index_add(0, ids, above.to(at::kDouble));
    at::Tensor before;
    for (int turn = 0; turn < 3; ++turn) {
      const auto leaf = at::zeros({9, 40}).to(GetParam()).requires_grad_();
      kernels::embedding(leaf, ids.to(GetParam())).backward(above.to(GetParam()));
      EXPECT_LT(relative_error(leaf.grad().cpu(), wanted), 1e-5);
      EXPECT_TRUE(!before.defined() || before.equal(leaf.grad()));
      before = leaf.grad();
    }
  }
}

// Tied: the table's gradient is the sum of both, and of two passes in a row twice that.
TEST_P(Embedding, adds_its_gradient_to_that_of_the_output_it_is_tied_to) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool tied : {true, false}) {
      const auto ids = at::randint(50, {2, 40}, at::kLong), targets = at::randint(50, {2, 40}, at::kLong);
      const auto values = at::randn({50, 16}).mul(0.5).to(type), others = tied ? values : at::randn({50, 16}).to(type);
      const auto run = [&](const at::Tensor& table, const at::Tensor& head, bool ours) {
        const auto device = table.device();
        const auto hidden = ours ? kernels::embedding(table, ids.to(device)) : at::embedding(table, ids.to(device));
        if (ours) return blocks::linear_cross_entropy(hidden.tanh(), head, targets.to(device));
        return at::cross_entropy_loss(at::linear(hidden.tanh(), head).flatten(0, 1), targets.flatten());
      };
      const auto leaf = values.to(GetParam()).clone().requires_grad_();
      const auto head = tied ? leaf : others.to(GetParam()).clone().requires_grad_();
      const auto plain = values.to(at::kDouble).clone().requires_grad_();
      const auto plain_head = tied ? plain : others.to(at::kDouble).clone().requires_grad_();
      for (int pass = 1; pass <= 2; ++pass) {
        run(leaf, head, true).backward();
        run(plain, plain_head, false).backward();
        EXPECT_LT(relative_error(leaf.grad().cpu(), plain.grad()), tolerance(type)) << tied << " pass " << pass;
        EXPECT_LT(relative_error(head.grad().cpu(), plain_head.grad()), tolerance(type)) << tied << " pass " << pass;
      }
    }
}

// Times that PyTorch fills a tensor with zeros while it lives, on any thread.
std::atomic<int> zeros_made;
class CountZeros {
 public:
  CountZeros()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
          if (std::string_view(function.name()) == "aten::zeros") ++zeros_made;
          return std::unique_ptr<at::ObserverContext>();
        }))) {
    zeros_made = 0;
  }
  ~CountZeros() { at::removeCallback(handle_); }
  CountZeros(const CountZeros&) = delete;

 private:
  at::CallbackHandle handle_;
};

TEST_P(Embedding, makes_no_second_gradient_of_a_table_that_is_tied) {
  for (const bool tied : {true, false}) {
    const auto leaf = at::randn({50, 16}).to(GetParam()).requires_grad_();
    const auto head = tied ? leaf : at::randn({50, 16}).to(GetParam()).requires_grad_();
    const auto ids = at::randint(50, {2, 40}, at::kLong).to(GetParam());
    const auto loss = blocks::linear_cross_entropy(kernels::embedding(leaf, ids), head, ids);
    const CountZeros count;
    loss.backward();
    EXPECT_EQ(zeros_made, tied ? 0 : 1);
  }
}

TEST_P(Embedding, refuses_numbers_beyond_the_table_or_gives_none) {
  const auto table = at::randn({4, 8}).to(GetParam());
  const auto ids = at::full({1}, int64_t{4}, at::kLong).to(GetParam());
  if (GetParam().is_cpu()) {
    EXPECT_THROW(kernels::embedding(table, ids), base::Error);
  } else {
    EXPECT_TRUE(kernels::embedding(table, ids).isnan().all().item<bool>());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Embedding, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::kernels
