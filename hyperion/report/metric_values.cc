#include "hyperion/report/metric_values.h"

#include <optional>
#include <string_view>
#include <utility>

#include "hyperion/report/metric_fields.h"

namespace hyperion::report {
namespace {

// "memory_peak" -> "memory/peak"; "loss" -> "train/loss".
std::string name_of_step_value(std::string_view key) {
  for (const std::string_view group : {"memory", "gpu", "expert", "comm", "checkpoint"})
    if (key.starts_with(group) && key.size() > group.size() && key[group.size()] == '_')
      return std::string(group) + "/" + std::string(key.substr(group.size() + 1));
  if (key == "energy_j") return "gpu/energy_j";
  if (key == "tokens_per_s" || key == "tflops" || key == "mfu") return "speed/" + std::string(key);
  return (key.ends_with("_ms") ? "time/" : "train/") + std::string(key);
}

// Keeps what is a number, but for the keys that every record is filed under.
template <class NameOf>
struct Collect {
  explicit Collect(NameOf name) : name_of(std::move(name)) {}

  NameOf name_of;
  std::vector<NamedValue> values;

  void operator()(std::string_view key, double value) {
    if (key != "step" && key != "unix_s") values.push_back({name_of(key), value});
  }
  void operator()(std::string_view key, int64_t value) { (*this)(key, static_cast<double>(value)); }
  void operator()(std::string_view, const std::string&) {}
  template <class T>
  void operator()(std::string_view key, const std::optional<T>& value) {
    if (value) (*this)(key, *value);
  }
};

}  // namespace

std::vector<NamedValue> named_values(const StepRecord& record) {
  Collect collect(name_of_step_value);
  each_field(record, collect);
  return std::move(collect.values);
}

std::vector<NamedValue> named_values(const EvalRecord& record) {
  // The means of an epoch's training are no validation, nor what a step says of itself.
  const std::string group = record.split == "training" ? "epoch" : record.split;
  Collect collect([&](std::string_view key) { return group + "/" + std::string(key); });
  each_eval_field(record, collect);
  return std::move(collect.values);
}

std::vector<double> step_ends(const std::vector<StepRecord>& steps, double begun) {
  std::vector<double> ends;
  ends.reserve(steps.size());
  for (const auto& step : steps) {
    begun = step.unix_s.value_or(begun + step.step_ms / 1e3);
    ends.push_back(begun);
  }
  return ends;
}

}  // namespace hyperion::report
