#include "hyperion/models/tree.h"

#include "hyperion/nn/projection.h"

namespace hyperion::models {

std::vector<Buffer> Tree::buffers() {
  std::vector<Buffer> list;
  for (const auto& item : named_buffers()) list.push_back({item.key(), item.value()});
  return list;
}

std::vector<at::Tensor> Tree::held() {
  std::vector<at::Tensor> list;
  for (const auto& item : list_parameters()) list.push_back(item.tensor);
  for (const auto& item : named_buffers()) list.push_back(item.value());
  visit([&](const std::string&, nn::Module& module) {
    if (const auto* projection = dynamic_cast<nn::Projection*>(&module))
      for (const auto& piece : projection->packed()) list.push_back(piece);
  });
  return list;
}

void Tree::quantize() {
  visit([](const std::string& path, nn::Module& module) {
    if (auto* projection = dynamic_cast<nn::Projection*>(&module); projection != nullptr && !nn::is_output(path))
      projection->quantize();
  });
  if (adapters_.empty())
    for (auto& item : list_parameters()) item.tensor.set_requires_grad(false);
}

}  // namespace hyperion::models
