#include "hyperion/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/random.h"
#include "hyperion/base/words.h"

namespace hyperion::optim {
namespace {

at::Tensor random_tensor(const std::vector<int64_t>& sizes, const char* name, float deviation = 1, uint64_t seed = 1) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  base::fill_normal(base::stream_key(seed, name), 0, tensor.numel(), deviation, tensor.data_ptr<float>());
  return tensor;
}
at::Tensor scalar(double value) { return at::full({}, value, at::kFloat); }
std::vector<double> numbers(const at::Tensor& tensor) {
  const auto wide = tensor.detach().to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

// One parameter in double precision, by the papers' formulas.
struct Plain {
  std::vector<double> weight, first, second;
  explicit Plain(const at::Tensor& start) : weight(numbers(start)), first(weight.size()), second(weight.size()) {}

  void adamw(const std::vector<double>& gradient, double scale, double lr, int64_t step, bool decay,
             const OptimConfig& c) {
    for (size_t i = 0; i < weight.size(); ++i) {
      const double g = gradient[i] * scale;
      first[i] = c.beta1 * first[i] + (1 - c.beta1) * g;
      second[i] = c.beta2 * second[i] + (1 - c.beta2) * g * g;
      if (decay) weight[i] -= lr * c.weight_decay * weight[i];
      const double m = first[i] / (1 - std::pow(c.beta1, step)), v = second[i] / (1 - std::pow(c.beta2, step));
      weight[i] -= lr * m / (std::sqrt(v) + c.epsilon);
    }
  }
  void sgd(const std::vector<double>& gradient, double scale, double lr, bool decay, const OptimConfig& c) {
    for (size_t i = 0; i < weight.size(); ++i) {
      first[i] = c.momentum * first[i] + gradient[i] * scale;
      if (decay) weight[i] -= lr * c.weight_decay * weight[i];
      weight[i] -= lr * first[i];
    }
  }
};

void expect_near(const at::Tensor& got, const std::vector<double>& expected, double tolerance) {
  const auto values = numbers(got);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
}

// Ten updates of three odd-sized parameters, against Plain.
void expect_updates_as_plain_code(UpdateRule rule, bool narrow) {
  at::NoGradGuard no_grad;
  OptimConfig config;
  config.rule = rule;
  std::vector<nn::Parameter> parameters;
  std::vector<Plain> plain;
  const std::vector<std::vector<int64_t>> sizes = {{1}, {3, 37}, {16385, 3}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto master = random_tensor(sizes[i], "weight", 0.5, i);
    parameters.push_back({"p" + std::to_string(i), narrow ? master.to(at::kBFloat16) : master, {i != 0}, master});
    plain.emplace_back(master);
  }
  Optimizer optimizer(parameters, config);
  for (int64_t step = 1; step <= 10; ++step) {
    std::vector<at::Tensor> gradients;
    for (size_t i = 0; i < sizes.size(); ++i)
      gradients.push_back(
          random_tensor(sizes[i], "gradient", 0.1f, step * 10 + i).to(narrow ? at::kBFloat16 : at::kFloat));
    const double lr = 0.01 * static_cast<double>(step), scale = step % 2 ? 1.0 : 0.25;
    optimizer.update(gradients, scalar(scale), lr, step);
    for (size_t i = 0; i < sizes.size(); ++i)
      rule == UpdateRule::adamw ? plain[i].adamw(numbers(gradients[i]), scale, lr, step, i != 0, config)
                                : plain[i].sgd(numbers(gradients[i]), scale, lr, i != 0, config);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto &tensor = parameters[i].tensor, &master = parameters[i].master;
    expect_near(master, plain[i].weight, 2e-5);
    EXPECT_TRUE(at::equal(tensor, master.to(tensor.scalar_type()))) << i;
  }
}

TEST(AdamW, updates_as_plain_code_does) { expect_updates_as_plain_code(UpdateRule::adamw, false); }
TEST(AdamW, updates_narrow_weights_through_their_masters) { expect_updates_as_plain_code(UpdateRule::adamw, true); }
TEST(Sgd, updates_as_plain_code_does) { expect_updates_as_plain_code(UpdateRule::sgd, false); }
TEST(Sgd, updates_narrow_weights_through_their_masters) { expect_updates_as_plain_code(UpdateRule::sgd, true); }

TEST(AdamW, takes_a_strided_gradient) {
  at::NoGradGuard no_grad;
  const auto start = random_tensor({5, 3}, "weight"), gradient = random_tensor({3, 5}, "gradient");
  const auto one = start.clone(), other = start.clone();
  Optimizer({{"p", one, {true}, one}}, {}).update({gradient.t()}, scalar(1), 0.1, 1);
  Optimizer({{"p", other, {true}, other}}, {}).update({gradient.t().contiguous()}, scalar(1), 0.1, 1);
  EXPECT_TRUE(at::equal(one, other));
  EXPECT_FALSE(at::equal(one, start));
}

// At the first step both corrected moments are those of the gradient itself, so the weight moves by lr whatever the
// decays.
TEST(AdamW, corrects_its_bias_however_slow_the_moments) {
  at::NoGradGuard no_grad;
  for (const double beta2 : {0.0, 0.95, 0.999, 0.99999, 0.999999}) {
    OptimConfig config;
    config.beta1 = config.beta2 = beta2;
    const auto weight = at::full({3}, 1.0, at::kFloat);
    Optimizer({{"p", weight, {}, weight}}, config).update({at::full({3}, 0.5, at::kFloat)}, scalar(1), 0.125, 1);
    expect_near(weight, {0.875, 0.875, 0.875}, 1e-6);
  }
}

TEST(Optimizer, decays_only_where_told) {
  at::NoGradGuard no_grad;
  for (const auto rule : {UpdateRule::adamw, UpdateRule::sgd}) {
    OptimConfig config;
    config.rule = rule;
    config.weight_decay = 0.5;
    const auto kept = at::full({3}, 2.0, at::kFloat), decayed = at::full({3}, 2.0, at::kFloat);
    Optimizer optimizer({{"kept", kept, {}, kept}, {"decayed", decayed, {true}, decayed}}, config);
    const auto zero = at::full({3}, 0.0, at::kFloat);
    optimizer.update({zero, zero}, scalar(1), 0.5, 1);
    expect_near(kept, {2, 2, 2}, 0);
    expect_near(decayed, {1.5, 1.5, 1.5}, 1e-7);
  }
}

TEST(Optimizer, a_rate_of_zero_changes_no_weight) {
  at::NoGradGuard no_grad;
  for (const auto rule : {UpdateRule::adamw, UpdateRule::sgd}) {
    OptimConfig config;
    config.rule = rule;
    const auto weight = random_tensor({7}, "weight"), before = weight.clone();
    Optimizer({{"p", weight, {true}, weight}}, config).update({random_tensor({7}, "gradient")}, scalar(1), 0, 1);
    EXPECT_TRUE(at::equal(weight, before));
  }
}

TEST(Optimizer, names_all_that_a_checkpoint_must_hold) {
  at::NoGradGuard no_grad;
  const auto names = [](const Optimizer& optimizer) {
    std::vector<std::string> list;
    for (const auto& item : optimizer.state()) list.push_back(item.name);
    return list;
  };
  const auto a = random_tensor({3}, "a"), b = random_tensor({2, 2}, "b");
  OptimConfig config;
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(Optimizer({{"a", a, {true}, a}, {"b", b.to(at::kBFloat16), {true}, b}}, config)),
            (Names{"first.a", "second.a", "master.b", "first.b", "second.b"}));
  config.rule = UpdateRule::sgd;
  EXPECT_EQ(names(Optimizer({{"a", a, {true}, a}, {"b", b.to(at::kBFloat16), {true}, b}}, config)),
            (Names{"first.a", "master.b", "first.b"}));
}

TEST(Optimizer, continues_exactly_from_the_state_it_names) {
  at::NoGradGuard no_grad;
  for (const auto rule : {UpdateRule::adamw, UpdateRule::sgd}) {
    OptimConfig config;
    config.rule = rule;
    const auto gradient = [](int64_t step) { return random_tensor({9}, "gradient", 1, step).to(at::kBFloat16); };
    const auto master = random_tensor({9}, "weight");
    Optimizer whole({{"p", master.to(at::kBFloat16), {true}, master}}, config);
    for (int64_t step = 1; step <= 3; ++step) whole.update({gradient(step)}, scalar(1), 0.1, step);

    const auto other = at::full({9}, 0.0, at::kFloat), weight = other.to(at::kBFloat16);
    Optimizer resumed({{"p", weight, {true}, other}}, config);
    for (size_t i = 0; i < whole.state().size(); ++i) resumed.state()[i].tensor.copy_(whole.state()[i].tensor);
    whole.update({gradient(4)}, scalar(1), 0.1, 4);
    resumed.update({gradient(4)}, scalar(1), 0.1, 4);
    EXPECT_TRUE(at::equal(master, other)) << base::word_of(rule);
    EXPECT_TRUE(at::equal(weight, master.to(at::kBFloat16))) << base::word_of(rule);
  }
}

TEST(Optimizer, refuses_lists_that_do_not_match) {
  at::NoGradGuard no_grad;
  const auto weight = random_tensor({3}, "weight");
  EXPECT_THROW(Optimizer({{"p", weight, {true}}}, {}), base::Error);
  EXPECT_THROW(Optimizer({{"p", weight, {true}, weight.to(at::kBFloat16)}}, {}), base::Error);
  Optimizer optimizer({{"p", weight, {true}, weight}}, {});
  EXPECT_THROW(optimizer.update({}, scalar(1), 0.1, 1), base::Error);
  EXPECT_THROW(optimizer.update({random_tensor({4}, "gradient")}, scalar(1), 0.1, 1), base::Error);
}

}  // namespace
}  // namespace hyperion::optim
