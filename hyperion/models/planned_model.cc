#include "hyperion/models/planned_model.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace hyperion::models {
namespace {

using strategy::CutKind;

bool is_vocabulary(const strategy::PlannedModel& planned, const strategy::PlannedTensor& tensor) {
  return !planned.cuts.empty() && strategy::cut_of(planned.cuts, tensor.name).cut.kind == CutKind::vocabulary;
}

// Language models whose output has no weight of its own take the table's.
std::string tied_table(const strategy::PlannedModel& planned) {
  std::string table;
  for (const auto& tensor : planned.tensors) {
    if (!is_vocabulary(planned, tensor)) continue;
    if (tensor.block == planned.blocks) return {};
    table = tensor.name;
  }
  return table;
}

// Of an image's patches, with what stands beside them: the table of positions has a row each.
int64_t positions_of(const strategy::PlannedModel& planned) {
  for (const auto& tensor : planned.tensors)
    if (tensor.block == -1 && tensor.shape.size() == 3 && tensor.name.ends_with("position_embeddings"))
      return tensor.shape[1];
  return 0;
}

}  // namespace

std::optional<int64_t> block_of(const std::string& name) {
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const bool number = end > at && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(at),
                                                name.begin() + static_cast<std::ptrdiff_t>(end),
                                                [](unsigned char c) { return std::isdigit(c) != 0; });
    if (number) return std::stoll(name.substr(at, end - at));
    at = end + 1;
  }
  return {};
}

strategy::PlannedModel planned_model(Model& model, int64_t length) {
  const auto shape = model.shape(length);
  strategy::PlannedModel planned{
      .cuts = model.cuts(), .mixing = model.mixing(), .experts = model.experts(), .width = shape.width};
  if (model.parts() == nullptr) {  // one part
    for (const auto& parameter : model.parameters())
      planned.tensors.push_back({parameter.name, parameter.tensor.sizes().vec(), 0, parameter.tensor.requires_grad()});
    return planned;
  }
  planned.blocks = shape.layers;
  bool behind = false;  // the first block
  const auto add = [&](const std::string& name, const at::Tensor& tensor, bool trained) {
    const auto block = block_of(name);
    behind = behind || block.has_value();
    planned.tensors.push_back({name, tensor.sizes().vec(), block.value_or(behind ? planned.blocks : -1), trained});
  };
  for (const auto& parameter : model.parameters())
    add(parameter.name, parameter.tensor, parameter.tensor.requires_grad());
  if (model.input() == Input::tokens)
    planned.tied = tied_table(planned);
  else
    planned.image_tokens = positions_of(planned);
  const double head = 2.0 * static_cast<double>(shape.width) * static_cast<double>(shape.vocabulary);
  const double block = (shape.forward_flops_token - head) / static_cast<double>(planned.blocks);
  planned.costs = {.first = 0,
                   .blocks = std::vector<double>(static_cast<size_t>(planned.blocks), block),
                   .last = model.input() == Input::tokens ? head : 0};
  return planned;
}

}  // namespace hyperion::models
