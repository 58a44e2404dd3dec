#include "hyperion/strategy/cut.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {
namespace {

using base::ConfigError;
using base::format;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Whether the rest of a name fits the rest of a pattern; `last` becomes the number at its last #.
bool fits(const char* pattern, const char* name, int64_t& last) {
  if (*pattern == '\0') return *name == '\0';
  if (*pattern == '#') {
    if (!is_digit(*name)) return false;
    char* end = nullptr;
    const int64_t number = std::strtoll(name, &end, 10);
    int64_t later = -1;
    if (!fits(pattern + 1, end, later)) return false;
    last = later >= 0 ? later : number;
    return true;
  }
  if (*pattern != '*') return *pattern == *name && fits(pattern + 1, name + 1, last);
  for (const char* rest = name; *rest != '\0';)
    if (fits(pattern + 1, ++rest, last)) return true;
  return false;
}

const char* unit_name(const Cut& cut) {
  switch (cut.kind) {
    case CutKind::heads:
      return "heads";
    case CutKind::key_value_heads:
      return "key and value heads";
    case CutKind::row:
      return cut.units > 0 ? "heads" : "inputs";
    case CutKind::vocabulary:
      return "rows";
    default:
      return "outputs";
  }
}

std::string divisors(int64_t number) {
  constexpr int64_t kMostShown = 64;
  std::string text;
  for (int64_t size = 1; size <= std::min(number, kMostShown); ++size)
    if (number % size == 0) text += format("{}{}", text.empty() ? "" : ", ", size);
  return text;
}

[[noreturn]] void refuse_cut(const Cut& cut, const std::string& name, int64_t units, int64_t size) {
  const std::string sizes = cut.kind == CutKind::vocabulary ? format("no more than {}", units)
                            : cut.kind == CutKind::key_value_heads
                                ? format("{}, or a multiple of {}", divisors(units), units)
                                : divisors(units);
  throw ConfigError(format("{} cannot be cut among {} processes: it has {} {}", name, size, units, unit_name(cut)),
                    "sizes of tp that do: " + sizes);
}

struct Range {
  int64_t begin, end;
};

// Of the units of a part, those that a process holds.
Range held_units(const Cut& cut, const std::string& name, int64_t units, int64_t size, int64_t index) {
  const bool shared = cut.kind == CutKind::key_value_heads && units < size && size % units == 0;
  const bool uneven = cut.kind == CutKind::vocabulary && units >= size;
  if (units % size != 0 && !shared && !uneven) refuse_cut(cut, name, units, size);
  const int64_t begin = units * index / size;
  return {begin, shared ? begin + 1 : units * (index + 1) / size};
}

bool is_cut(const Cut& cut) { return cut.kind != CutKind::none && cut.kind != CutKind::row_bias; }

// Of the sides of an adapter, stored [rank, in] and [out, rank], the one beside what is cut is cut alike.
Cut adapter_cut(Cut cut, bool input_side) {
  const bool by_inputs = cut.kind == CutKind::row;
  if (!is_cut(cut)) return {.copies = cut.copies};
  if (by_inputs != input_side) return {.copies = Copies::partial};
  cut.dim = by_inputs ? 1 : 0;
  return cut;
}

FoundCut own_cut(const std::vector<CutRule>& rules, const std::string& name) {
  for (const auto& rule : rules) {
    int64_t number = -1;
    if (fits(rule.pattern.c_str(), name.c_str(), number))
      return {rule.cut, rule.experts, rule.experts > 0 ? number : -1};
  }
  throw ConfigError("nothing says how " + name + " may be cut among processes",
                    "such a model can share its batch and its state alone: leave tp and ep out");
}

}  // namespace

bool matches(const CutRule& rule, const std::string& name) {
  int64_t number = -1;
  return fits(rule.pattern.c_str(), name.c_str(), number);
}

FoundCut cut_of(const std::vector<CutRule>& rules, const std::string& name) {
  const auto layer = [&](const char* adapter) {
    const size_t at = name.find(adapter);
    return at == name.npos ? std::string() : name.substr(0, at) + ".weight";
  };
  for (const bool input_side : {true, false})
    if (const auto weight = layer(input_side ? ".lora_A." : ".lora_B."); !weight.empty()) {
      auto found = own_cut(rules, weight);
      found.cut = adapter_cut(found.cut, input_side);
      return found;
    }
  if (const auto table = layer(".token_adapter."); !table.empty())
    return {{.copies = is_cut(own_cut(rules, table).cut) ? Copies::partial : Copies::same}};
  return own_cut(rules, name);
}

std::vector<Placement> boxes_of(const Cut& cut, const std::string& name, const std::vector<int64_t>& whole,
                                int64_t size, int64_t index) {
  HYPERION_CHECK(index >= 0 && index < size, "a process is one of those it shares with");
  if (!is_cut(cut) || size == 1) return {{.whole = whole}};
  const auto dim = static_cast<size_t>(cut.dim);
  const auto parts = std::max<int64_t>(1, static_cast<int64_t>(cut.parts.size()));
  HYPERION_CHECK(dim < whole.size() && whole[dim] % (parts * std::max<int64_t>(1, cut.units)) == 0,
                 "the cut of " + name + " is not of its shape");
  const int64_t length = whole[dim] / parts, units = cut.units > 0 ? cut.units : length;
  const auto [begin, end] = held_units(cut, name, units, size, index);
  std::vector<Placement> boxes;
  for (int64_t part = 0; part < parts; ++part) {
    Placement box{.whole = whole, .offset = std::vector<int64_t>(whole.size()), .size = whole};
    box.offset[dim] = part * length + begin * (length / units);
    box.size[dim] = (end - begin) * (length / units);
    boxes.push_back(std::move(box));
  }
  return boxes;
}

Placement placement_of(const Cut& cut, const std::string& name, const std::vector<int64_t>& whole, int64_t size,
                       int64_t index) {
  const auto boxes = boxes_of(cut, name, whole, size, index);
  Placement all = boxes.front();
  all.parts = static_cast<int64_t>(boxes.size()), all.dim = all.parts > 1 ? cut.dim : 0;
  all.again = sharers_of(cut, size, index).first != index;
  return all;
}

Sharers sharers_of(const Cut& cut, int64_t size, int64_t index) {
  if (!is_cut(cut)) return {0, size};
  if (cut.kind != CutKind::key_value_heads || cut.units >= size) return {index, 1};
  const int64_t count = size / cut.units;
  return {index / count * count, count};
}

bool holds_expert(int64_t expert, int64_t experts, int64_t size, int64_t index) {
  if (experts % size != 0)
    throw ConfigError(format("{} experts cannot be spread over {} processes evenly", experts, size),
                      "sizes of ep that do: " + divisors(experts));
  return expert / (experts / size) == index;
}

std::vector<Placement> held_by(const Mesh& mesh, const std::vector<CutRule>& rules, const std::string& name,
                               const std::vector<int64_t>& whole) {
  const auto found = cut_of(rules, name);
  const int64_t peers = mesh.layout().ep;
  if (found.experts > 0 && !holds_expert(found.expert, found.experts, peers, mesh.expert_index())) return {};
  return boxes_of(found.cut, name, whole, mesh.size(Axis::tp), mesh.index(Axis::tp));
}

}  // namespace hyperion::strategy
