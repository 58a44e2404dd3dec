#include "hyperion/checkpoint/difference.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "hyperion/base/format.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/safetensors_header.h"

namespace hyperion::checkpoint {
namespace {

using base::format;

constexpr int64_t kPiece = int64_t{1} << 20;  // elements compared at a time

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.contiguous(), y = b.contiguous();
  return x.scalar_type() == y.scalar_type() && x.nbytes() == y.nbytes() &&
         (x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0);
}

// Two values that are not finite and have the same bits, or are both no number, are equal.
TensorDifference compare_values(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  TensorDifference found{.of = a.numel()};
  double squares = 0, norm = 0;
  const auto flat_a = a.reshape(-1), flat_b = b.reshape(-1);
  for (int64_t at = 0; at < found.of; at += kPiece) {
    const int64_t count = std::min(kPiece, found.of - at);
    const auto x = flat_a.narrow(0, at, count).to(at::kDouble).contiguous(),
               y = flat_b.narrow(0, at, count).to(at::kDouble).contiguous();
    const double *first = x.const_data_ptr<double>(), *second = y.const_data_ptr<double>();
    for (int64_t i = 0; i < count; ++i) {
      if (std::isfinite(first[i])) norm += first[i] * first[i];
      if (first[i] == second[i] || (std::isnan(first[i]) && std::isnan(second[i]))) continue;
      ++found.elements;
      const double by = std::isnan(first[i] - second[i]) ? INFINITY : std::abs(first[i] - second[i]);
      found.largest = std::max(found.largest, by), squares += by * by;
    }
  }
  found.relative = norm > 0 ? std::sqrt(squares / norm) : squares > 0 ? INFINITY : 0;
  return found;
}

std::map<std::string, const StoredTensor*> by_plain_name(const TensorSet& set) {
  std::map<std::string, const StoredTensor*> found;
  for (const auto& [name, stored] : set.tensors) found[set.plain_name(name)] = &stored;
  return found;
}

}  // namespace

std::string shape_words(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t size : shape) text += format("{}{}", text.empty() ? "" : ", ", size);
  return "[" + text + "]";
}

std::string type_words(at::ScalarType type) {
  for (const auto& known : tensor_types())
    if (known.dtype == type) return std::string(known.name);
  return "?";
}

std::vector<TensorDifference> differences(const TensorSet& first, const TensorSet& second) {
  const auto here = by_plain_name(first), there = by_plain_name(second);
  std::set<std::string> names;
  for (const auto* set : {&here, &there})
    for (const auto& [name, stored] : *set) names.insert(name);
  const auto all = static_cast<int64_t>(first.bytes() + second.bytes());
  int64_t done = 0;
  ReadingLine progress("comparing");
  std::vector<TensorDifference> found;
  for (const auto& name : names) {
    const auto a = here.find(name), b = there.find(name);
    if (a == here.end() || b == there.end()) {
      found.push_back({.name = name, .mismatch = "only in " + (a == here.end() ? second.place : first.place)});
      continue;
    }
    const StoredTensor &x = *a->second, &y = *b->second;
    if (x.shape != y.shape) {
      found.push_back({.name = name, .mismatch = format("{} and {}", shape_words(x.shape), shape_words(y.shape))});
      continue;
    }
    const at::Tensor one = x.read(), other = y.read();
    progress.show(done += static_cast<int64_t>(x.bytes + y.bytes), all);
    if (same_bits(one, other)) continue;
    TensorDifference values = compare_values(one, other);
    values.name = name;
    if (x.type != y.type) values.mismatch = format("{} and {}", type_words(x.type), type_words(y.type));
    found.push_back(std::move(values));
  }
  return found;
}

}  // namespace hyperion::checkpoint
