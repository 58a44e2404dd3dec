// The operations that `hyperion bench kernels` times: each is one entry of the list in kernel_operations.cc.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace hyperion::bench {

enum class Size { small, medium, large };
const char* name_of(Size size);

// What an operation is to be made for. A GPU's sizes are those of the canonical workloads, a CPU's small enough to wait
// for.
struct OperationPlace {
  c10::Device device;
  at::ScalarType type;  // of activations and weights
  Size size;
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
  OperationCall ours, aten;  // aten empty: PyTorch has no such operation
  Cost forward, backward;    // backward of no bytes: there is none to time
  bool matrix = false;       // the flops are products, and bound by the rate of products
};

struct OperationEntry {
  const char* name;
  Operation (*make)(const OperationPlace& place);
  double (*held)(const OperationPlace& place);  // bytes that making and timing it may hold at once, as an upper guess
};

const std::vector<OperationEntry>& kernel_operations();

}  // namespace hyperion::bench
