#include "hyperion/nn/fp8_linears.h"

#include "hyperion/nn/projection.h"

namespace hyperion::nn {
namespace {

// Each linear map of the tree, in its order.
template <class Use>
int64_t each_map(Module& root, Use use) {
  int64_t index = 0;
  root.visit([&](const std::string& path, Module& module) {
    if (auto* map = dynamic_cast<Projection*>(&module)) use(index++, path, *map);
  });
  return index;
}

int64_t count(Module& root) {
  return std::max<int64_t>(1, each_map(root, [](int64_t, const std::string&, Projection&) {}));
}

}  // namespace

Fp8Linears::Fp8Linears(Module& root, c10::Device device, blocks::Fp8Options options, bool measure)
    : root_(root), device_(device), measure_(measure), scales_(count(root), device, options) {
  each_map(root, [&](int64_t index, const std::string& path, Projection& map) {
    layers_.emplace_back().path = path;
    map.use_fp8(this, index);
  });
}

Fp8Linears::~Fp8Linears() {
  each_map(root_, [](int64_t, const std::string&, Projection& map) { map.use_fp8(nullptr, 0); });
}

blocks::Fp8Linear Fp8Linears::take(int64_t index, const blocks::LinearShape& shape) {
  auto& layer = layers_[static_cast<size_t>(index)];
  if (!layer.met || layer.shape != shape) {
    layer.met = true, layer.shape = shape;
    layer.taken = blocks::fp8_fits(shape.rows, shape.in, shape.out);
    if (layer.taken && measure_) {
      layer.gain = blocks::fp8_gain(shape, device_);
      layer.taken = layer.gain.pays();
    }
  }
  return layer.taken ? blocks::Fp8Linear(scales_, index) : blocks::Fp8Linear();
}

}  // namespace hyperion::nn
