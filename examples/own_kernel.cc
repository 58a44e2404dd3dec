// tinyllama with a kernel of one's own: the gate of its feed-forward parts, silu(gate) * up, in one pass over memory
// each way, where plain operations make two forward and four backward and keep one tensor more. docs/workshop walks
// through it. Built as build/<preset>/bin/own_kernel, it is `hyperion` with one family more:
//   own_kernel train recipes/workshop/own_gate.toml
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/silu.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <nlohmann/json.hpp>

#include "hyperion/cli/program.h"
#include "hyperion/kernels/fast_exp.h"
#include "hyperion/models/decoder_fields.h"
#include "hyperion/models/decoder_parts.h"
#include "hyperion/models/llama.h"
#include "hyperion/models/registry.h"

namespace {

using namespace hyperion;

// 1. The kernel. A row is a token, and lies in memory as a whole.
enum class Order { rows, columns };  // in which the elements are visited

template <class Each>
void visit(int64_t rows, int64_t width, Order order, const Each& each) {
  if (order == Order::rows)
    return at::parallel_for(0, rows * width, 1 << 13, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) each(i);
    });
  at::parallel_for(0, width, 16, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column)
      for (int64_t row = 0; row < rows; ++row) each(row * width + column);
  });
}

float sigmoid(float x) { return 1 / (1 + kernels::fast_exp(-x)); }

struct GatedSilu : torch::autograd::Function<GatedSilu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate, const at::Tensor& up,
                            int64_t order) {
    RECORD_FUNCTION("own::gated_silu", std::vector<c10::IValue>());
    const auto g = gate.contiguous(), u = up.contiguous(), out = at::empty_like(g);
    context->save_for_backward({g, u});
    context->saved_data["order"] = order;
    const auto *gates = g.const_data_ptr<float>(), *ups = u.const_data_ptr<float>();
    auto* outs = out.mutable_data_ptr<float>();
    visit(g.numel() / g.size(-1), g.size(-1), static_cast<Order>(order),
          [=](int64_t i) { outs[i] = gates[i] * sigmoid(gates[i]) * ups[i]; });
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    RECORD_FUNCTION("own::gated_silu_backward", std::vector<c10::IValue>());
    const auto kept = context->get_saved_variables();
    const auto upstream = gradients[0].contiguous();
    const auto of_gate = at::empty_like(kept[0]), of_up = at::empty_like(kept[1]);
    const auto *gates = kept[0].const_data_ptr<float>(), *ups = kept[1].const_data_ptr<float>(),
               *from = upstream.const_data_ptr<float>();
    auto *to_gate = of_gate.mutable_data_ptr<float>(), *to_up = of_up.mutable_data_ptr<float>();
    visit(kept[0].numel() / kept[0].size(-1), kept[0].size(-1),
          static_cast<Order>(context->saved_data.at("order").toInt()), [=](int64_t i) {
            const float s = sigmoid(gates[i]);
            to_gate[i] = from[i] * ups[i] * s * (1 + gates[i] * (1 - s));
            to_up[i] = from[i] * gates[i] * s;
          });
    return {of_gate, of_up, at::Tensor()};
  }
};

// 2. What the model is: a Llama, and which gate it has.
enum class Gate { plain, own, by_columns };

struct Config {
  models::LlamaConfig llama;
  Gate gate;
};

Config read_config(const std::string& text, const std::string& place) {
  const base::Json json = base::parse_json(text, place);
  const models::ConfigReader reader(json, place, "own_llama");
  Config config{models::read_decoder(reader), Gate::plain};
  config.llama.model_type = "own_llama";
  const std::string gate = reader.text_or("gate", "plain");
  reader.check(gate == "plain" || gate == "own" || gate == "by_columns", "gate is plain, own or by_columns");
  if (gate != "plain") config.gate = gate == "own" ? Gate::own : Gate::by_columns;
  return config;
}

std::string to_json(const Config& config) {
  constexpr const char* kWords[] = {"plain", "own", "by_columns"};
  base::Json json = models::decoder_json(config.llama);
  json["gate"] = kWords[static_cast<int>(config.gate)];
  return json.dump();
}

strategy::ModelShape shape_of(const Config& config, int64_t length) { return models::shape_of(config.llama, length); }

// 3. The part of a block that the kernel stands in, under Llama's names.
at::Tensor gated(const at::Tensor& gate, const at::Tensor& up, Gate how) {
  if (how == Gate::plain || !gate.is_cpu() || gate.scalar_type() != at::kFloat) return at::silu(gate) * up;
  return GatedSilu::apply(gate, up, static_cast<int64_t>(how == Gate::own ? Order::rows : Order::columns));
}

class FeedForward final : public nn::Module {
 public:
  FeedForward(const nn::GatedShape& shape, Gate gate, std::shared_ptr<nn::Norm> norm)
      : gate_(gate),
        half_{std::move(norm),
              {linear("gate_proj", shape.width, shape.inner, shape.init),
               linear("up_proj", shape.width, shape.inner, shape.init)},
              linear("down_proj", shape.inner, shape.width, shape.residual_init)} {}
  at::Tensor forward(const at::Tensor& input, nn::Pass& pass) override {
    const auto projected = half_.in(input, pass);
    if (projected.form != nn::Form::plain) return half_.out(projected, nn::Activation::gated_silu, pass);  // on a GPU
    return half_.out(projected, gated(projected.outputs[0], projected.outputs[1], gate_), pass);
  }

 private:
  std::shared_ptr<nn::Linear> linear(const char* name, int64_t in, int64_t out, nn::Init init) {
    return register_module(name, std::make_shared<nn::Linear>(in, out, /*with_bias=*/false, init));
  }
  Gate gate_;
  nn::PreNorm half_;
};

class OwnLlama final : public models::CausalDecoder {
 public:
  explicit OwnLlama(const Config& config) : CausalDecoder(config.llama, part(config)), config_(config) {}
  std::string config_json() const override { return to_json(config_); }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }

 private:
  static models::FeedForwardPart part(const Config& config) {
    return {"mlp", [config](int64_t, auto norm) {
              return std::make_shared<FeedForward>(models::gated_shape(config.llama, config.llama.inner, false),
                                                   config.gate, std::move(norm));
            }};
  }
  Config config_;
};

std::unique_ptr<models::Model> make(const Config& config) { return std::make_unique<OwnLlama>(config); }

}  // namespace

// 4. The family by its name, and the program around it.
int main(int argc, char** argv) {
  models::add_family(models::family<read_config, make>("own_llama", "LlamaForCausalLM"));
  cli::program(argc, argv);
}
