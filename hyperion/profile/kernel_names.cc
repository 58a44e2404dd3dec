#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "hyperion/profile/trace.h"

namespace hyperion::profile {

std::string short_kernel_name(const std::string& name) {
  std::string out;
  int depth = 0;  // of template arguments
  std::string_view rest = name;
  if (rest.starts_with("void ")) rest.remove_prefix(5);
  for (size_t i = 0; i < rest.size(); ++i) {
    constexpr std::string_view kUnnamed = "(anonymous namespace)::";
    if (rest.substr(i).starts_with(kUnnamed)) {
      i += kUnnamed.size() - 1;
    } else if (rest[i] == '<') {
      ++depth;
    } else if (rest[i] == '>') {
      depth = std::max(0, depth - 1);
    } else if (rest[i] == '(' && depth == 0) {
      break;
    } else if (depth == 0) {
      out += rest[i];
    }
  }
  return out;
}

std::vector<KernelTotal> kernel_totals(const std::vector<TracedSpan>& spans) {
  std::vector<KernelTotal> totals;
  std::unordered_map<std::string, size_t> places;
  std::unordered_map<std::string, std::string> shortened;
  for (const auto& span : spans) {
    auto [known, added] = shortened.try_emplace(span.name);
    if (added) known->second = short_kernel_name(span.name);
    const auto [place, first] = places.try_emplace(known->second, totals.size());
    if (first) totals.push_back({known->second, 0, 0});
    auto& total = totals[place->second];
    total.count += !span.continued;
    total.milliseconds += static_cast<double>(span.end - span.begin) / 1e6;
  }
  std::stable_sort(totals.begin(), totals.end(),
                   [](const KernelTotal& a, const KernelTotal& b) { return a.milliseconds > b.milliseconds; });
  return totals;
}

KernelKind kernel_kind(const std::string& name) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char letter) { return std::tolower(letter); });
  const auto has = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return small.find(word) != small.npos; });
  };
  if (small.starts_with("memcpy") || small.starts_with("memset")) return KernelKind::memory;
  if (has({"hyperion::"}))
    return has({"update_kernel", "squares_kernel", "clip_kernel"}) ? KernelKind::update : KernelKind::ours;
  // Attention's names also hold words of convolutions, and theirs those of products.
  if (has({"sdpa", "fmha", "flash", "attention", "dot_do_o", "convert_dq"})) return KernelKind::attention;
  if (has({"fprop", "dgrad", "wgrad", "conv", "cudnn"})) return KernelKind::convolution;
  if (has({"nvjet", "gemm", "gemv", "cublas", "cutlass", "splitk", "cijk_"})) return KernelKind::product;
  if (has({"adam", "sgd", "multi_tensor"})) return KernelKind::update;
  return KernelKind::torch;
}

std::string kind_text(KernelKind kind) {
  switch (kind) {
    case KernelKind::product:
      return "products";
    case KernelKind::convolution:
      return "convolutions";
    case KernelKind::attention:
      return "attention";
    case KernelKind::update:
      return "update";
    case KernelKind::ours:
      return "our other kernels";
    case KernelKind::torch:
      return "PyTorch's";
    case KernelKind::memory:
      return "copies and fills";
  }
  return "";
}

KindTimes kind_times(const std::vector<TracedSpan>& spans) {
  std::unordered_map<std::string, KernelKind> known;
  KindTimes times{};
  for (const auto& span : spans) {
    const auto [kind, added] = known.try_emplace(span.name);
    if (added) kind->second = kernel_kind(span.name);
    times[static_cast<size_t>(kind->second)] += static_cast<double>(span.end - span.begin) / 1e6;
  }
  return times;
}

}  // namespace hyperion::profile
