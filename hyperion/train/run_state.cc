#include "hyperion/train/run_state.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/interop/peft.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/train/config.h"

namespace hyperion::train {
namespace {

using base::format;
using base::Json;

constexpr int64_t kMostSteps = 1'000'000'000, kMostSamples = 1 << 20;  // of a run, and of a step: as in config.cc
constexpr double kMostScale = 0x1p100, kMostSeconds = 1e12, kMostLoss = 1e300;

// Reads members of an object and refuses what they may not be.
class StateMembers {
 public:
  StateMembers(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) throw base::CorruptError(format("{} is no object", place_));
  }

  bool has(const char* name) const { return object_.contains(name); }
  StateMembers inner(const char* name) const { return {at(name), format("{}.{}", place_, name)}; }

  int64_t whole(const char* name, int64_t low, int64_t high) const {
    const Json& value = at(name);
    const bool fits = value.is_number_integer() && !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
    if (!fits || value.get<int64_t>() < low || value.get<int64_t>() > high)
      refuse(name, format("is {}, not a whole number from {} to {}", shown(value), low, high));
    return value.get<int64_t>();
  }
  int64_t whole_or(const char* name, int64_t otherwise, int64_t low, int64_t high) const {
    return has(name) ? whole(name, low, high) : otherwise;
  }
  uint64_t bits(const char* name) const {
    const Json& value = at(name);
    if (!value.is_number_unsigned()) refuse(name, format("is {}, not a whole number", shown(value)));
    return value.get<uint64_t>();
  }
  double real(const char* name, double high) const {
    const Json& value = at(name);
    if (!value.is_number() || !(value.get<double>() >= 0) || !(value.get<double>() <= high))
      refuse(name, format("is {}, not a number from 0 to {:g}", shown(value), high));
    return value.get<double>();
  }
  std::string text_or_empty(const char* name) const {
    if (!has(name)) return {};
    if (!at(name).is_string()) refuse(name, format("is {}, not text", shown(at(name))));
    return at(name).get<std::string>();
  }
  std::string object_text(const char* name) const {
    if (!at(name).is_object()) refuse(name, format("is {}, not an object", shown(at(name))));
    return at(name).dump();
  }
  const Json& at(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) throw base::CorruptError(format("{} has no {}", place_, name));
    return *found;
  }
  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw base::CorruptError(format("{}.{} {}", place_, name, why));
  }

 private:
  static std::string shown(const Json& value) {
    const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    return text.size() <= 40 ? text : text.substr(0, 37) + "...";
  }

  const Json& object_;
  std::string place_;
};

Json validations_json(const Validations& known) {
  const auto found = [](const Validations::Found& one) { return Json{{"step", one.step}, {"loss", one.loss}}; };
  Json json = {{"waited", known.waited}, {"last", known.last}};
  if (known.mark) json["mark"] = found(*known.mark);
  if (known.best) json["best"] = found(*known.best);
  return json;
}

Validations validations_of(const StateMembers& members, int64_t step) {
  const auto found = [&](const char* name) {
    const auto inner = members.inner(name);
    return Validations::Found{inner.whole("step", 0, step), inner.real("loss", kMostLoss)};
  };
  Validations known;
  known.waited = members.whole("waited", 0, step);
  known.last = members.whole("last", 0, step);
  if (members.has("mark")) known.mark = found("mark");
  if (members.has("best")) known.best = found("best");
  return known;
}

// What older checkpoints held in place of all settings.
constexpr std::pair<const char*, const char*> kOwnMembers[] = {{"seed", "train.seed"},
                                                               {"precision", "train.precision"}};
constexpr std::pair<const char*, const char*> kScheduleMembers[] = {
    {"shape", "optim.schedule"}, {"peak", "optim.lr"}, {"warmup", "optim.warmup"}, {"steps", "train.steps"}};

std::string settings_of_state(const StateMembers& state, const Json& json) {
  if (state.has("settings")) {
    const Json& settings = state.at("settings");
    state.object_text("settings");
    for (const auto& [member, name] : kOwnMembers)
      if (state.has(member) && settings.contains(name) && settings[name] != json[member])
        state.refuse(member,
                     format("is {}, and its settings say {} = {}", json[member].dump(), name, settings[name].dump()));
    return settings.dump();
  }
  Json few = Json::object();
  for (const auto& [member, name] : kOwnMembers)
    if (state.has(member)) few[name] = json[member];
  if (!state.has("schedule")) return few.dump();
  state.object_text("schedule");
  for (const auto& [member, name] : kScheduleMembers)
    if (json["schedule"].contains(member)) few[name] = json["schedule"][member];
  return few.dump();
}

Json value_json(const base::Setting& setting) {
  return std::visit([](const auto& value) { return Json(*value); }, setting.value);
}

// The tensors of a checkpoint have the shapes of the model it describes, the optimizer's too. What an adapter is
// trained beside is not there, nor is what a model of one's own has frozen.
void check_tensors(const checkpoint::OpenedCheckpoint& opened, const RunState& state, const std::string& place) {
  const nn::MetaScope only_names;
  const auto model = models::make_model(state.model, place);
  if (!state.adapter.empty()) {
    interop::parse_adapter_config(state.adapter, place);
    return;
  }
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& parameter : model->parameters()) shapes[parameter.name] = parameter.tensor.sizes().vec();
  for (const auto& buffer : model->buffers()) shapes[buffer.name] = buffer.tensor.sizes().vec();
  const auto check = [&](const std::string& name) {
    const bool weight = name.starts_with("model."), moment = name.starts_with("optimizer.");
    if (!weight && !moment) return;
    const size_t kind = name.find('.') + 1;
    const auto known = shapes.find(name.substr(weight ? kind : name.find('.', kind) + 1));
    if (known == shapes.end() || known->second != opened.shape(name))
      throw base::CorruptError(format("{}: {} is not of the model it describes, or has another shape", place, name));
    if (moment) opened.shape("model." + known->first);
  };
  for (const auto& [name, entry] : opened.tensors) check(name);
}

// As Settings::set takes it.
std::string value_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

std::string settings_json(const base::Settings& settings) {
  Json json = Json::object();
  for (const auto& setting : settings.all()) json[setting.name()] = value_json(setting);
  return json.dump();
}

void apply_settings(const std::string& json, base::Settings& settings, const std::string& place) {
  const Json values = base::parse_json(json, place);
  for (const auto& setting : settings.all()) {
    const auto found = values.find(setting.name());
    if (found == values.end()) continue;
    try {
      settings.set(setting.name(), value_text(*found), place);
    } catch (const base::ConfigError& error) {
      throw base::CorruptError(error.what());
    }
  }
}

std::string state_text(const RunState& state) {
  Json json = {{"cursor", {{"samples", state.cursor.samples}, {"hash", state.cursor.hash}}},
               {"data_digest", state.data_digest},
               {"updates", state.numbers.updates},
               {"loss_scale", state.numbers.loss_scale},
               {"good_steps", state.numbers.good_steps},
               {"threads", state.threads},
               {"seconds", state.seconds},
               {"settings", Json::parse(state.settings)},
               {"model", Json::parse(state.model)}};
  if (!state.adapter.empty()) {
    json["adapter"] = Json::parse(state.adapter);
    json["base_digest"] = state.base_digest;
  }
  if (state.end_token) json["end_token"] = *state.end_token;
  json["validations"] = validations_json(state.validations);
  return json.dump();
}

RunState parse_run_state(const std::string& text, const std::string& place, int64_t step) {
  const Json json = base::parse_json(text, place);
  const StateMembers members(json, place + ": state");
  if (step > kMostSteps) throw base::CorruptError(format("{}: no run has {} steps", place, step));
  const auto cursor = members.inner("cursor");
  RunState state;
  state.cursor = {cursor.whole("samples", step, step * kMostSamples), cursor.bits("hash")};
  state.numbers.updates = members.whole_or("updates", step, 0, step);
  if (members.has("loss_scale")) state.numbers.loss_scale = members.real("loss_scale", kMostScale);
  state.numbers.good_steps = members.whole_or("good_steps", 0, 0, step);
  state.data_digest = members.text_or_empty("data_digest");
  state.base_digest = members.text_or_empty("base_digest");
  state.threads = members.whole("threads", 1, INT32_MAX);
  state.seconds = members.real("seconds", kMostSeconds);
  state.model = members.object_text("model");
  if (members.has("adapter")) state.adapter = members.object_text("adapter");
  if (members.has("end_token")) state.end_token = members.whole("end_token", 0, INT32_MAX);
  state.validations.last = step;  // of older checkpoints nothing is known
  if (members.has("validations")) state.validations = validations_of(members.inner("validations"), step);
  state.settings = settings_of_state(members, json);
  RunConfig config;
  auto settings = bind(config);
  apply_settings(state.settings, settings, place);
  const bool known = settings.at("train.precision").origin == place;
  const bool skips = config.train.precision == Precision::fp16;  // steps whose gradients overflow
  if (known && !skips && state.numbers.updates != step)
    members.refuse("updates", format("is {}, and a run in {} has one at each of its {} steps", state.numbers.updates,
                                     base::word_of(config.train.precision), step));
  return state;
}

std::string read_known_settings(base::FileSystem& files, const base::Path& checkpoint) {
  const base::Path path = checkpoint / checkpoint::kManifestName;
  const Json json = base::parse_json(checkpoint::parse_manifest(files.read(path), path.string()).state, path.string());
  return settings_of_state(StateMembers(json, path.string() + ": state"), json);
}

std::optional<StartPoint> find_start(base::FileSystem& files, const base::Path& checkpoints, Tensors read,
                                     int64_t before) {
  const auto all = checkpoint::list_checkpoints(files, checkpoints);
  if (std::none_of(all.begin(), all.end(), [&](const auto& entry) { return entry.step < before; })) return {};
  RunState state;
  const auto check = [&](const checkpoint::OpenedCheckpoint& one) {
    const std::string place = (one.path / checkpoint::kManifestName).string();
    state = parse_run_state(one.state, place, one.step);
    check_tensors(one, state, place);
    if (read == Tensors::now) one.verify();
  };
  auto opened = checkpoint::open_newest(files, checkpoints, check, before);
  return StartPoint{std::move(opened), std::move(state), all.front().step};
}

}  // namespace hyperion::train
