#include "hyperion/checkpoint/tensor_set.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace hyperion::checkpoint {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;  // elements that are doubles at a time

template <class Use>
void each_element(const at::Tensor& tensor, Use use) {
  const at::NoGradGuard no_grad;
  const auto flat = tensor.reshape(-1);
  for (int64_t at = 0; at < flat.numel(); at += kPiece) {
    const auto piece = flat.narrow(0, at, std::min(kPiece, flat.numel() - at)).to(at::kDouble).contiguous();
    const double* values = piece.const_data_ptr<double>();
    for (int64_t i = 0; i < piece.numel(); ++i) use(values[i]);
  }
}

size_t files_of(const OpenedCheckpoint::Entry& entry) {
  std::set<const Shard*> files;
  for (const auto& piece : entry.pieces) files.insert(piece.shard.get());
  return files.size();
}

uint64_t bytes_of(const std::vector<int64_t>& shape, at::ScalarType type) {
  uint64_t bytes = c10::elementSize(type);
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

}  // namespace

uint64_t TensorSet::bytes() const {
  uint64_t sum = 0;
  for (const auto& [name, stored] : tensors) sum += stored.bytes;
  return sum;
}

TensorSet tensors_of(OpenedCheckpoint checkpoint) {
  TensorSet set{checkpoint.path.string(), /*checkpoint=*/true, {}};
  const auto kept = std::make_shared<const OpenedCheckpoint>(std::move(checkpoint));
  for (const auto& [name, entry] : kept->tensors)
    set.tensors[name] = {entry.shape, entry.type, files_of(entry), bytes_of(entry.shape, entry.type),
                         [kept, name = name] { return kept->tensor(name); }};
  return set;
}

void add_tensors(TensorSet& set, const std::shared_ptr<const SafetensorsFile>& file) {
  for (const auto& name : file->names())
    set.tensors[name] = {file->shape(name), file->dtype(name), 1, file->bytes(name).size(),
                         [file, name] { return file->tensor(name); }};
}

std::string TensorSet::plain_name(const std::string& name) const {
  return checkpoint && is_weight(name) ? name.substr(kWeightPrefix.size()) : name;
}

TensorFacts facts_of(const at::Tensor& tensor) {
  TensorFacts facts{.elements = tensor.numel()};
  double squares = 0, sum = 0, low = INFINITY, high = -INFINITY;
  each_element(tensor, [&](double value) {
    if (!std::isfinite(value)) {
      ++facts.not_finite;
      return;
    }
    squares += value * value, sum += value;
    low = std::min(low, value), high = std::max(high, value);
  });
  const int64_t counted = facts.elements - facts.not_finite;
  if (counted == 0) return facts;
  facts.norm = std::sqrt(squares), facts.mean = sum / static_cast<double>(counted);
  facts.low = low, facts.high = high;
  facts.histogram.resize(TensorFacts::kBins);
  const double scale = high > low ? TensorFacts::kBins / (high - low) : 0;
  each_element(tensor, [&](double value) {
    if (!std::isfinite(value)) return;
    const double bin = std::min<double>((value - low) * scale, TensorFacts::kBins - 1);
    ++facts.histogram[static_cast<size_t>(bin > 0 ? bin : 0)];
  });
  return facts;
}

}  // namespace hyperion::checkpoint
