// The operations that `hyperion bench kernels` times: each is one entry of the list in kernel_operations.cc.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hyperion::bench {

enum class Size { small, medium, large };
const char* name_of(Size size);

// Activations of a shape that was asked for.
struct ActivationShape {
  int64_t batch, length, width;
};
// "4x512x1024"; throws ConfigError where it is none, or more than a machine could hold.
ActivationShape activation_shape(const std::string& text);

// What an operation is to be made for. A GPU's sizes are those of the canonical workloads, a CPU's small enough to wait
// for.
struct OperationPlace {
  c10::Device device;
  at::ScalarType type;  // of activations and weights
  Size size = Size::small;
  std::optional<ActivationShape> shape = {};  // in place of the size, for operations that follow it
  int64_t shards = 1;                         // the operation is that of one of so many processes, of this axis
  const char* axis = "tp";
  std::string size_name() const;  // "medium", "4x512x1024", "large tp=2"
  bool gpu() const { return device.is_cuda(); }
  at::TensorOptions options() const { return at::TensorOptions().device(device).dtype(type); }
};

using Inputs = std::vector<at::Tensor>;
using OperationCall = std::function<at::Tensor(const Inputs& inputs)>;

// The least that must move and be reckoned, whoever does it. `bytes`: to and from memory. `flops`: multiply and add are
// two; of elementwise work a rough count, for the roofline.
struct Cost {
  double bytes = 0, flops = 0;
};

struct Operation {
  std::string shape;         // for people
  Inputs inputs;             // those that require a gradient get one in the backward
  OperationCall ours, aten;  // ours empty: not on this device; aten empty: PyTorch has no such operation
  Cost forward, backward;    // backward of no bytes: there is none to time
  bool matrix = false;       // the flops are products, and bound by the rate of products
  bool together = false;     // forward and backward are timed as one: the forward already does what the backward needs
};

struct OperationEntry {
  const char* name;
  Operation (*make)(const OperationPlace& place);
  double (*held)(const OperationPlace& place);  // bytes that making and timing it may hold at once, as an upper guess
  bool shaped = false;                          // of [tokens, width], so that it follows a shape
  int64_t (*cut)(const OperationPlace& place) = nullptr;  // how many equal parts it can be cut into; none: not at all
  const char* axis = "tp";                                // which cuts it: tp, cp or ep
};

std::vector<OperationEntry> kernel_operations();  // all of them

// By kind, one file each: operations on activations, losses and updates; products with what surrounds them.
std::vector<OperationEntry> single_operations();
std::vector<OperationEntry> weight_operations();
std::vector<OperationEntry> block_operations();

// What a feed-forward layer of GPT-2 does at a size, step by step; with dropout the map down's bias is added in the
// pass that drops.
struct MlpStep {
  const char *pass, *name;
  std::function<void()> work;
};
struct MlpSteps {
  std::string shape;
  std::vector<MlpStep> list;
};
MlpSteps mlp_steps(const OperationPlace& place, double dropout);

}  // namespace hyperion::bench
