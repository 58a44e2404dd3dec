#include "hyperion/bench/figures.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/version.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/gpu.h"

namespace hyperion::bench {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& why) {
  throw base::CorruptError(place + ": not the result of a bench: " + why,
                           "name a JSON file that `hyperion bench` wrote, or the folder it lies in");
}

double number(const base::Json& json, const char* key, const std::string& place) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) refuse(place, std::string("a figure has no number \"") + key + "\"");
  return found->get<double>();
}

std::string text(const base::Json& json, const char* key, const std::string& place) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) refuse(place, std::string("there is no \"") + key + "\"");
  return found->get<std::string>();
}

Figure read_figure(const base::Json& json, const std::string& place) {
  if (!json.is_object()) refuse(place, "a figure is not an object");
  Figure figure{text(json, "name", place), text(json, "unit", place), {}};
  const auto better = text(json, "better", place);
  if (better != "lower" && better != "higher") refuse(place, "\"better\" is neither lower nor higher");
  figure.lower_is_better = better == "lower";
  if (const auto value = json.find("value"); value == json.end() || value->is_null()) return figure;
  figure.value = number(json, "value", place);
  if (!(*figure.value >= 0)) refuse(place, "\"" + figure.name + "\" is below 0");
  const auto low = json.find("low");
  figure.timed_once = low != json.end() && low->is_null();
  figure.low = figure.timed_once ? *figure.value : number(json, "low", place);
  figure.high = figure.timed_once ? *figure.value : number(json, "high", place);
  return figure;
}

}  // namespace

std::string case_name(const std::string& workload, const std::string& mode, const std::string& precision) {
  return workload + " " + mode + (precision == "bf16" ? "" : " " + precision);
}

Figure time_figure(std::string name, std::string unit, const profile::Spread& spread, double scale) {
  return {std::move(name),
          std::move(unit),
          spread.median * scale,
          spread.low * scale,
          spread.high * scale,
          /*lower_is_better=*/true,
          /*timed_once=*/spread.repeats < 2};
}

Figure single_figure(std::string name, std::string unit, std::optional<double> value, bool lower_is_better) {
  if (value && !std::isfinite(*value)) value.reset();
  return {std::move(name), std::move(unit), value, value.value_or(0), value.value_or(0), lower_is_better};
}

std::string joined_settings(const std::vector<std::string>& settings) {
  std::string text;
  for (const auto& setting : settings) text += (text.empty() ? "" : ", ") + setting;
  return text;
}

std::string settings_note(const std::vector<std::string>& settings) {
  return settings.empty() ? "" : ", with " + joined_settings(settings);
}

std::map<std::string, std::string> this_machine() {
  const auto cpu = host::this_cpu();
  std::map<std::string, std::string> facts{{"cpu", cpu.model}, {"cores", base::format("{}", cpu.usable_cores())}};
  for (const auto& gpu : host::survey_gpus().gpus)
    if (!gpu.driver.empty()) facts["driver"] = gpu.driver;
  return facts;
}

base::Json result_json(Figures figures) {
  figures.machine = this_machine();
  figures.tree = base::version_text();
  figures.time = base::utc_text(base::real_clock().unix_seconds());
  return figures_json(figures);
}

base::Json figures_json(const Figures& figures) {
  base::Json list = base::Json::array();
  for (const auto& figure : figures.list) {
    base::Json json = {{"name", figure.name},
                       {"unit", figure.unit},
                       {"value", nullptr},
                       {"better", figure.lower_is_better ? "lower" : "higher"}};
    if (figure.value) {
      json["value"] = *figure.value;
      json["low"] = figure.timed_once ? base::Json(nullptr) : base::Json(figure.low);
      json["high"] = figure.timed_once ? base::Json(nullptr) : base::Json(figure.high);
    }
    list.push_back(std::move(json));
  }
  return {{"bench", figures.bench},     {"device_name", figures.device}, {"time", figures.time},
          {"machine", figures.machine}, {"tree", figures.tree},          {"settings", figures.settings},
          {"figures", std::move(list)}};
}

Figures read_figures(const std::string& content, const std::string& place) {
  const auto json = base::parse_json(content, place);
  if (!json.is_object()) refuse(place, "it is not an object");
  Figures figures{text(json, "bench", place), text(json, "device_name", place), {}};
  const auto list = json.find("figures");
  if (list == json.end() || !list->is_array()) refuse(place, "there are no \"figures\"");
  std::map<std::string, int> met;  // two of one name are the first and the second of it
  for (const auto& figure : *list) {
    figures.list.push_back(read_figure(figure, place));
    auto& name = figures.list.back().name;
    if (const int count = ++met[name]; count > 1) name += " (" + std::to_string(count) + ")";
  }
  if (const auto settings = json.find("settings"); settings != json.end() && settings->is_array())
    for (const auto& setting : *settings)
      if (setting.is_string()) figures.settings.push_back(setting);
  if (const auto machine = json.find("machine"); machine != json.end() && machine->is_object())
    for (const auto& [name, fact] : machine->items())
      if (fact.is_string()) figures.machine[name] = fact;
  for (auto [name, said] : {std::pair{"tree", &figures.tree}, {"time", &figures.time}})
    if (const auto found = json.find(name); found != json.end() && found->is_string()) *said = *found;
  return figures;
}

}  // namespace hyperion::bench
