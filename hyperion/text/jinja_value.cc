#include "hyperion/text/jinja_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_fault.h"

namespace hyperion::text::jinja {

Value Value::list(List items) {
  Value out(Held(std::make_shared<Sequence>()));
  auto& sequence = *std::get<std::shared_ptr<Sequence>>(out.held_);
  for (auto& item : items) {
    if (item.depth() >= kMaxNesting) throw Fault(0, base::format("a value nests more than {} deep", kMaxNesting));
    sequence.depth = std::max(sequence.depth, item.depth() + 1);
  }
  sequence.held.grow(items.capacity() * sizeof(Value));
  sequence.items = std::move(items);
  return out;
}

Value Value::of(const nlohmann::ordered_json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return Value(Held(json.get<uint64_t>()));
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    List items;
    items.reserve(json.size());
    for (const auto& each : json) items.push_back(of(each));
    return list(std::move(items));
  }
  if (json.is_object()) {
    Value out = map();
    for (const auto& [key, each] : json.items()) out.set(key, of(each));
    return out;
  }
  return nullptr;
}

bool Value::same_object(const Value& other) const {
  if (is_list() && other.is_list()) return &items() == &other.items();
  return is_map() && other.is_map() && &pairs() == &other.pairs();
}

int64_t Value::as_whole() const {
  if (is_bool()) return as_bool() ? 1 : 0;
  if (is_real()) return static_cast<int64_t>(std::get<double>(held_));
  const auto* large = std::get_if<uint64_t>(&held_);
  return large != nullptr ? static_cast<int64_t>(*large) : std::get<int64_t>(held_);
}

double Value::as_real() const {
  if (const auto* large = std::get_if<uint64_t>(&held_)) return static_cast<double>(*large);
  return is_real() ? std::get<double>(held_) : static_cast<double>(as_whole());
}

std::string Value::number_text() const {
  if (const auto* large = std::get_if<uint64_t>(&held_)) return std::to_string(*large);
  if (!is_real()) return std::to_string(as_whole());
  const double number = as_real();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);  // as Python's repr
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string out(buffer, end);
  if (plain && out.find('.') == out.npos) out += ".0";
  return out;
}

const Value* Value::find(std::string_view key) const {
  const auto& all = pairs();
  spend_on_text(all.size() * (4 + key.size() / 4));
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& pair) { return pair.first == key; });
  return found == all.end() ? nullptr : &found->second;
}

int Value::depth() const {
  if (is_list()) return std::get<std::shared_ptr<Sequence>>(held_)->depth;
  return is_map() ? std::get<std::shared_ptr<Mapping>>(held_)->depth : 0;
}

template <class Holder>
Holder& Value::own(int inner) {
  if (inner >= kMaxNesting) throw Fault(0, base::format("a value nests more than {} deep", kMaxNesting));
  auto& holder = std::get<std::shared_ptr<Holder>>(held_);
  if (holder.use_count() > 1) {
    spend_on_text(holder->held.bytes());
    holder = std::make_shared<Holder>(*holder);
  }
  holder->depth = std::max(holder->depth, inner + 1);
  return *holder;
}

void Value::push_back(Value value) {
  const int inner = value.depth();
  auto& sequence = own<Sequence>(inner);
  sequence.held.grow(sizeof(Value));
  sequence.items.push_back(std::move(value));
}

void Value::set(const std::string& key, Value value) {
  const int inner = value.depth();
  auto& [pairs, depth, held] = own<Mapping>(inner);
  spend_on_text(pairs.size() * (4 + key.size() / 4));
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.first == key; });
  if (found != pairs.end()) {
    found->second = std::move(value);
    return;
  }
  held.grow(sizeof(Map::value_type) + key.size());
  pairs.emplace_back(key, std::move(value));
}

}  // namespace hyperion::text::jinja
