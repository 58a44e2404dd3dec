// A value of a template. Copies share what they hold, so that handing a value on costs the same however large it is;
// whoever changes one changes its own copy. Nests at most kMaxNesting deep. What it holds counts against the budget of
// the rendering that makes it.
#pragma once
#include <concepts>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hyperion/text/jinja_budget.h"

namespace hyperion::text::jinja {

constexpr int kMaxNesting = 1000;  // of lists and mappings: about where Python gives up

class Value {
 public:
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;  // in the order of its making

  Value() = default;  // undefined
  Value(std::nullptr_t) : held_(nullptr) {}
  Value(double real) : held_(real) {}
  Value(std::string text) : held_(std::make_shared<const Words>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  template <std::same_as<bool> Truth>
  Value(Truth truth) : held_(truth) {}
  template <std::integral Whole>
  requires(!std::same_as<Whole, bool>) Value(Whole whole) : held_(static_cast<int64_t>(whole)) {}
  static Value list(List items = {});
  static Value map() { return Value(Held(std::make_shared<Mapping>())); }
  static Value of(const nlohmann::ordered_json& json);

  bool is_undefined() const { return is<std::monostate>(); }
  bool is_none() const { return is<std::nullptr_t>(); }
  bool is_bool() const { return is<bool>(); }
  bool is_whole() const { return is<int64_t>() || is<uint64_t>(); }
  bool is_real() const { return is<double>(); }
  bool is_number() const { return is_whole() || is_real(); }
  bool is_text() const { return is<Text>(); }
  bool is_list() const { return is<std::shared_ptr<Sequence>>(); }
  bool is_map() const { return is<std::shared_ptr<Mapping>>(); }
  bool same_kind(const Value& other) const { return held_.index() == other.held_.index(); }
  // The very same list or mapping, which need not be looked into.
  bool same_object(const Value& other) const;

  // Each of a value of that kind only.
  bool as_bool() const { return std::get<bool>(held_); }
  int64_t as_whole() const;  // of a number or a bool, cut towards zero
  double as_real() const;    // likewise
  const std::string& text() const { return std::get<Text>(held_)->text; }
  const List& items() const { return std::get<std::shared_ptr<Sequence>>(held_)->items; }
  const Map& pairs() const { return std::get<std::shared_ptr<Mapping>>(held_)->pairs; }
  std::string number_text() const;                // as Python writes it
  const Value* find(std::string_view key) const;  // null where the mapping has no such key

  // Of a list and of a mapping; throw Fault where it would nest too deep.
  void push_back(Value value);
  void set(const std::string& key, Value value);

 private:
  static constexpr size_t kOverhead = 64;  // of a piece of memory and of what counts its holders
  struct Words {
    explicit Words(std::string from) : text(std::move(from)), held(kOverhead + text.capacity()) {}
    std::string text;
    HeldBytes held;
  };
  using Text = std::shared_ptr<const Words>;
  struct Sequence {
    List items;
    int depth = 1;
    HeldBytes held{kOverhead};
  };
  struct Mapping {
    Map pairs;
    int depth = 1;
    HeldBytes held{kOverhead};
  };
  // uint64_t: only what is beyond int64_t.
  using Held = std::variant<std::monostate, std::nullptr_t, bool, int64_t, uint64_t, double, Text,
                            std::shared_ptr<Sequence>, std::shared_ptr<Mapping>>;

  explicit Value(Held held) : held_(std::move(held)) {}
  template <class Kind>
  bool is() const {
    return std::holds_alternative<Kind>(held_);
  }
  int depth() const;
  template <class Holder>
  Holder& own(int inner);  // to be changed, for an element that is `inner` deep

  Held held_;
};

}  // namespace hyperion::text::jinja
