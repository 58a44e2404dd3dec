#include "hyperion/text/jinja_render.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/text/jinja_budget.h"
#include "hyperion/text/jinja_values.h"

namespace hyperion::text::jinja {
namespace {

using base::format;
using E = Expression::Kind;
using S = Statement::Kind;

constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox
constexpr int kMaxCalls = 50;

// Where a loop stands: what its variable "loop" tells.
struct LoopPlace {
  const Value::List* items;
  size_t at;

  Value part(std::string_view name) const {
    const size_t size = items->size();
    if (name == "index0") return at;
    if (name == "index") return at + 1;
    if (name == "revindex") return size - at;
    if (name == "revindex0") return size - at - 1;
    if (name == "first") return at == 0;
    if (name == "last") return at + 1 == size;
    if (name == "length") return size;
    if (name == "previtem" && at > 0) return (*items)[at - 1];
    if (name == "nextitem" && at + 1 < size) return (*items)[at + 1];
    return {};
  }
  Value whole() const {
    Value out = Value::map();
    for (const char* name :
         {"index0", "index", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"})
      out.set(name, part(name));
    return out;
  }
};

struct Variable {
  Value value;
  bool is_namespace = false;
  const Statement* macro = nullptr;
  std::optional<LoopPlace> loop = {};
};
using Scope = std::map<std::string, Variable, std::less<>>;

// A function as a value: only that it is there.
bool is_function(std::string_view name) {
  return name == "raise_exception" || name == "namespace" || name == "dict" || name == "range" ||
         name == "strftime_now";
}

enum class Flow { kNext, kBreak, kContinue };

class Renderer {
 public:
  Renderer(const Value& variables, int64_t now, std::vector<ByteRange>* generated) : now_(now), generated_(generated) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables.pairs()) scopes_.back()[name].value = value;
  }

  std::string run(const std::vector<Statement>& tree) {
    try {
      std::string out;
      whole_ = &out;
      block(tree, out);
      return out;
    } catch (Fault& fault) {
      if (fault.line == 0) fault.line = line_;
      throw;
    }
  }

 private:
  Variable* find(std::string_view name) {
    for (size_t i = scopes_.size(); i-- > 0;)
      if (const auto found = scopes_[i].find(name); found != scopes_[i].end()) return &found->second;
    return nullptr;
  }

  // A scope that ends with the C++ scope.
  struct Inner {
    explicit Inner(std::vector<Scope>& scopes) : scopes(scopes) { scopes.emplace_back(); }
    ~Inner() { scopes.pop_back(); }
    std::vector<Scope>& scopes;
  };

  Flow block(const std::vector<Statement>& tree, std::string& out) {
    for (const auto& each : tree)
      if (const Flow flow = statement(each, out); flow != Flow::kNext) return flow;
    return Flow::kNext;
  }

  Flow statement(const Statement& it, std::string& out) {
    line_ = it.line;
    spend(1);
    switch (it.kind) {
      case S::kText:
        append(out, it.text);
        return Flow::kNext;
      case S::kPrint: {
        const HeldBytes written(out.capacity());
        append(out, text_of(value_of(printed(it.expressions[0]))));
        return Flow::kNext;
      }
      case S::kIf:
        return block(holds(it.expressions[0]) ? it.body : it.other, out);
      case S::kFor:
        return loop(it, out);
      case S::kSet:
        set(it);
        return Flow::kNext;
      case S::kSetBlock: {
        const HeldBytes written(out.capacity());
        std::string text;
        {
          const Inner inner(scopes_);
          block(it.body, text);
        }
        assign(it, std::move(text), false);
        return Flow::kNext;
      }
      case S::kMacro:
        scopes_.back()[it.text] = {{}, false, &it};
        return Flow::kNext;
      case S::kGeneration: {
        if (generated_ != nullptr && &out != whole_)
          throw Fault(it.line, "a generation block is in a macro or a set block: where its text goes is not known");
        const size_t begin = out.size();
        const Inner inner(scopes_);
        const Flow flow = block(it.body, out);
        if (generated_ == nullptr) return flow;
        while (!generated_->empty() && generated_->back().begin >= begin) generated_->pop_back();  // blocks inside it
        generated_->push_back({begin, out.size()});
        return flow;
      }
      case S::kBreak:
        return Flow::kBreak;
      case S::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  void set(const Statement& it) {
    const auto& from = it.expressions[0];
    const bool makes_namespace = from.kind == E::kCall && from.children[0].kind == E::kName &&
                                 from.children[0].name == "namespace" && find("namespace") == nullptr;
    auto value = value_of(from);
    if (it.names.size() == 1) return assign(it, std::move(value), makes_namespace);
    unpack(it.names, value, scopes_.back());
  }

  void assign(const Statement& it, Value value, bool makes_namespace) {
    if (it.attribute.empty()) {
      scopes_.back()[it.names[0]] = {std::move(value), makes_namespace, nullptr};
      return;
    }
    Variable* target = find(it.names[0]);
    if (target == nullptr || !target->is_namespace)
      throw Fault(it.line, format("{}.{} is set, but {} is not a namespace", it.names[0], it.attribute, it.names[0]));
    target->value.set(it.attribute, std::move(value));
  }

  static void unpack(const std::vector<std::string>& names, const Value& value, Scope& scope) {
    if (names.size() == 1) {
      scope[names[0]] = {value, false, nullptr};
      return;
    }
    const Value parts = elements_of(value);
    if (parts.items().size() != names.size())
      throw Fault(0, format("{} values are given to {} names", parts.items().size(), names.size()));
    for (size_t i = 0; i < names.size(); ++i) scope[names[i]] = {parts.items()[i], false, nullptr};
  }

  Flow loop(const Statement& it, std::string& out) {
    Value elements = elements_of(value_of(it.expressions[0]));
    if (it.expressions.size() > 1) {
      Value::List chosen;
      for (const auto& item : elements.items()) {
        const Inner inner(scopes_);
        unpack(it.names, item, scopes_.back());
        if (truth(value_of(it.expressions[1]))) chosen.push_back(item);
      }
      elements = Value::list(std::move(chosen));
    }
    const auto& items = elements.items();
    if (items.empty()) return block(it.other, out);
    for (size_t i = 0; i < items.size(); ++i) {
      const Inner inner(scopes_);
      line_ = it.line;
      spend(4);
      scopes_.back()["loop"].loop = LoopPlace{&items, i};
      unpack(it.names, items[i], scopes_.back());
      if (block(it.body, out) == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  // Nothing is escaped, so a value marked as safe prints as it is; a sum with one would be escaped, which is refused.
  static const Expression& printed(const Expression& it) {
    return it.kind == E::kFilter && it.name == "safe" ? printed(it.children[0]) : it;
  }

  // The filters that are Python generators are true even when they give nothing.
  bool holds(const Expression& it) {
    const auto value = value_of(it);
    const bool lazy = it.kind == E::kFilter && (it.name == "map" || it.name == "items" || it.name == "reverse" ||
                                                it.name.starts_with("select") || it.name.starts_with("reject"));
    return (lazy && !value.is_text()) || truth(value);
  }

  Value value_of(const Expression& it) {
    line_ = it.line;
    spend(1);
    switch (it.kind) {
      case E::kConstant:
        return it.constant;
      case E::kName: {
        const Variable* found = find(it.name);
        if (found == nullptr) return is_function(it.name) ? Value(true) : Value();
        if (found->loop) return found->loop->whole();
        return found->macro == nullptr ? found->value : Value(true);
      }
      case E::kList: {
        Value::List out;
        for (const auto& each : it.children) out.push_back(value_of(each));
        return Value::list(std::move(out));
      }
      case E::kDict: {
        Value out = Value::map();
        for (size_t i = 0; i < it.children.size(); i += 2) {
          const auto key = value_of(it.children[i]);
          if (!key.is_text()) throw Fault(it.line, format("a key is {}, not a string", kind_name(key)));
          out.set(key.text(), value_of(it.children[i + 1]));
        }
        return out;
      }
      case E::kAttribute:
        return part(it, it.name);
      case E::kItem:
        return part(it, value_of(it.children[1]));
      case E::kSlice: {
        const auto from = value_of(it.children[1]), to = value_of(it.children[2]), step = value_of(it.children[3]);
        return slice_of(value_of(it.children[0]), from, to, step);
      }
      case E::kCall:
        return call(it);
      case E::kFilter: {
        const auto value = value_of(it.children[0]);
        const auto given = arguments(it);
        line_ = it.line;
        return apply_filter(it.name, value, given);
      }
      case E::kTest: {
        const auto value = value_of(it.children[0]);
        return apply_test(it.name, value, arguments(it));
      }
      case E::kUnary: {
        if (it.name == "not") return !holds(it.children[0]);
        return binary_operation(it.name, 0, value_of(it.children[0]));
      }
      case E::kBinary:
        return binary(it);
      case E::kCondition:
        if (holds(it.children[0])) return value_of(it.children[1]);
        return it.children.size() > 2 ? value_of(it.children[2]) : Value();
    }
    return {};
  }

  // A part of a variable without a copy of the whole.
  Value part(const Expression& it, const Value& key) {
    const auto& of = it.children[0];
    Variable* variable = of.kind == E::kName ? find(of.name) : nullptr;
    if (of.kind == E::kName && variable == nullptr)
      throw Fault(it.line, format("\"{}\" is undefined, and {} of it is asked for", of.name, text_of(key)));
    if (variable != nullptr && variable->loop) return key.is_text() ? variable->loop->part(key.text()) : Value();
    if (variable != nullptr) return item_of(variable->value, key);
    return item_of(value_of(of), key);
  }

  Value binary(const Expression& it) {
    auto left = value_of(it.children[0]);
    if (it.name == "and") return truth(left) ? value_of(it.children[1]) : left;
    if (it.name == "or") return truth(left) ? left : value_of(it.children[1]);
    const auto right = value_of(it.children[1]);
    line_ = it.line;
    return binary_operation(it.name, left, right);
  }

  Arguments arguments(const Expression& it) {
    Arguments out;
    const size_t positional = it.children.size() - it.names.size();
    for (size_t i = 1; i < positional; ++i) out.positional.push_back(value_of(it.children[i]));
    for (size_t i = 0; i < it.names.size(); ++i)
      out.named.emplace_back(it.names[i], value_of(it.children[positional + i]));
    return out;
  }

  Value call(const Expression& it) {
    const auto& of = it.children[0];
    const auto given = arguments(it);
    if (of.kind == E::kAttribute) {
      const auto object = value_of(of.children[0]);
      line_ = it.line;
      return call_method(of.name, object, given);
    }
    if (of.kind != E::kName) throw Fault(it.line, "only names and methods can be called");
    line_ = it.line;
    if (const Variable* found = find(of.name); found != nullptr) {
      if (found->macro == nullptr) throw Fault(it.line, format("{} cannot be called", of.name));
      return expand(*found->macro, given);
    }
    return function(of.name, given);
  }

  // A macro sees the variables of the whole template, not those of the loop that calls it.
  struct Outermost {
    explicit Outermost(std::vector<Scope>& scopes)
        : scopes(scopes), rest(std::make_move_iterator(scopes.begin() + 1), std::make_move_iterator(scopes.end())) {
      scopes.resize(1);
    }
    ~Outermost() { std::move(rest.begin(), rest.end(), std::back_inserter(scopes)); }
    std::vector<Scope>& scopes;
    std::vector<Scope> rest;
  };

  Value expand(const Statement& macro, const Arguments& given) {
    if (++calls_ > kMaxCalls) throw Fault(macro.line, format("the macro {} calls itself too deep", macro.text));
    if (given.positional.size() > macro.names.size())
      throw Fault(0, format("the macro {} has too many arguments", macro.text));
    const Outermost outermost(scopes_);
    const Inner inner(scopes_);
    const size_t required = macro.names.size() - macro.expressions.size();
    for (size_t i = 0; i < macro.names.size(); ++i) {
      auto value = i < given.positional.size() ? given.positional[i]
                   : i < required              ? Value()
                                               : value_of(macro.expressions[i - required]);
      for (const auto& [name, each] : given.named)
        if (name == macro.names[i]) value = each;
      scopes_.back()[macro.names[i]] = {std::move(value), false, nullptr};
    }
    std::string out;
    block(macro.body, out);
    --calls_;
    return out;
  }

  Value function(const std::string& name, const Arguments& given) {
    const auto text = [&] { return given.positional.empty() ? std::string() : text_of(given.positional[0]); };
    if (name == "raise_exception") throw Fault(line_, text(), true);
    if (name == "namespace" || name == "dict") {
      Value out = given.positional.empty() ? Value::map() : given.positional[0];
      if (!out.is_map()) throw Fault(0, format("{} is made of a mapping or of named values", name));
      for (const auto& [key, value] : given.named) out.set(key, value);
      return out;
    }
    if (name == "range") return range(given);
    if (name == "strftime_now") {
      const auto seconds = static_cast<std::time_t>(now_);
      std::tm parts{};
      gmtime_r(&seconds, &parts);
      char buffer[256];
      return std::string(buffer, std::strftime(buffer, sizeof buffer, text().c_str(), &parts));
    }
    throw Fault(0, format("the function {} is not known here", name));
  }

  static Value range(const Arguments& given) {
    int64_t parts[3] = {0, 0, 1};
    const size_t count = given.positional.size();
    if (count < 1 || count > 3) throw Fault(0, "range needs one to three numbers");
    for (size_t i = 0; i < count; ++i) {
      if (!given.positional[i].is_whole()) throw Fault(0, "range needs whole numbers");
      parts[count == 1 ? 1 : i] = given.positional[i].as_whole();
    }
    const auto [from, to, step] = parts;
    if (step == 0) throw Fault(0, "the step of range is zero");
    Value::List out;
    for (__int128 i = from; step > 0 ? i < to : i > to; i += step) {
      if (out.size() >= kMaxRange) throw Fault(0, format("a range has more than {} numbers", kMaxRange));
      out.push_back(static_cast<int64_t>(i));
    }
    spend(out.size());
    return Value::list(std::move(out));
  }

  const Budget budget_;  // the last to go: what the scopes hold counts against it
  std::vector<Scope> scopes_;
  int64_t now_;
  std::vector<ByteRange>* generated_;   // null: not wanted
  const std::string* whole_ = nullptr;  // the text itself, not one that a macro or a set block makes
  int line_ = 0, calls_ = 0;
};

bool names_in(const Expression& expression, std::string_view word) {
  return expression.name == word || (expression.constant.is_text() && expression.constant.text() == word) ||
         std::any_of(expression.children.begin(), expression.children.end(),
                     [&](const Expression& child) { return names_in(child, word); });
}

}  // namespace

std::string render(const std::vector<Statement>& tree, const Value& variables, int64_t now,
                   std::vector<ByteRange>* generated) {
  return Renderer(variables, now, generated).run(tree);
}

bool has_generation_blocks(const std::vector<Statement>& tree) {
  return std::any_of(tree.begin(), tree.end(), [](const Statement& each) {
    return each.kind == S::kGeneration || has_generation_blocks(each.body) || has_generation_blocks(each.other);
  });
}

bool names(const std::vector<Statement>& tree, std::string_view word) {
  return std::any_of(tree.begin(), tree.end(), [&](const Statement& each) {
    return names(each.body, word) || names(each.other, word) ||
           std::any_of(each.expressions.begin(), each.expressions.end(),
                       [&](const Expression& expression) { return names_in(expression, word); });
  });
}

}  // namespace hyperion::text::jinja
