#include "hyperion/interop/deepspeed_keys.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/printable.h"

namespace hyperion::interop {

using base::format;
using base::Json;

namespace {

constexpr size_t kLongestShown = 40;

std::string shown_value(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= kLongestShown ? text : text.substr(0, kLongestShown) + "...";
}

bool is_switched_off(const Json& value) {
  if (value.is_object()) {
    const auto enabled = value.find("enabled");
    return value.empty() || (enabled != value.end() && *enabled == false);
  }
  return value.is_null() || value == false || value == 0 || value == "none";
}

}  // namespace

DeepSpeedKeys::DeepSpeedKeys(const Json& object, std::string path, DeepSpeedFindings& found)
    : object_(object), path_(std::move(path)), found_(found) {}

bool DeepSpeedKeys::has(const std::string& key) const { return object_.contains(key) && !object_[key].is_null(); }
bool DeepSpeedKeys::is_auto(const std::string& key) const { return has(key) && object_[key] == "auto"; }

const Json* DeepSpeedKeys::at(const std::string& key) {
  const bool first = read_.insert(key).second;
  if (!has(key)) return nullptr;
  if (!is_auto(key)) return &object_[key];
  if (first) note(key, "\"auto\": hyperion's own default holds");
  return nullptr;
}

void DeepSpeedKeys::wrong_type(const std::string& key, const char* wanted) {
  refuse(key, format("must be {}, not {}", wanted, shown_value(object_[key])));
}

std::optional<int64_t> DeepSpeedKeys::whole(const std::string& key, int64_t low, int64_t high) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  const double number = value->is_number() ? value->get<double>() : 0.5;  // 5e8 is how many write it
  if (number != std::floor(number)) {
    wrong_type(key, "a whole number");
    return {};
  }
  if (number < static_cast<double>(low) || number > static_cast<double>(high)) {
    refuse(key, format("{} is out of range: {} to {}", shown_value(*value), low, high));
    return {};
  }
  return static_cast<int64_t>(number);
}

std::optional<double> DeepSpeedKeys::number(const std::string& key) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  if (value->is_number()) return value->get<double>();
  wrong_type(key, "a number");
  return {};
}

std::optional<bool> DeepSpeedKeys::flag(const std::string& key) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(key, "true or false");
  return {};
}

std::optional<std::string> DeepSpeedKeys::word(const std::string& key) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  wrong_type(key, "a string");
  return {};
}

std::optional<std::pair<double, double>> DeepSpeedKeys::pair(const std::string& key) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  if (value->is_array() && value->size() == 2 && (*value)[0].is_number() && (*value)[1].is_number())
    return std::pair((*value)[0].get<double>(), (*value)[1].get<double>());
  wrong_type(key, "a list of two numbers");
  return {};
}

std::optional<DeepSpeedKeys> DeepSpeedKeys::object(const std::string& key) {
  const Json* const value = at(key);
  if (value == nullptr) return {};
  if (value->is_object()) return DeepSpeedKeys(*value, path_ + key + ".", found_);
  wrong_type(key, "an object");
  return {};
}

DeepSpeedKeys DeepSpeedKeys::object_or_empty(const std::string& key) {
  static const Json empty = Json::object();
  const auto there = object(key);
  return there ? *there : DeepSpeedKeys(empty, path_ + key + ".", found_);
}

void DeepSpeedKeys::set(const std::string& key, const std::string& setting, const std::string& value,
                        const std::string& more) {
  found_.recipe.settings.push_back({setting, value, path_ + key + (more.empty() ? "" : ": " + more)});
}

void DeepSpeedKeys::note(const std::string& key, const std::string& why) {
  read_.insert(key);
  found_.recipe.notes.push_back(format("{}{}: {}", path_, key, why));
}

void DeepSpeedKeys::refuse(const std::string& key, const std::string& why) {
  read_.insert(key);
  found_.refusals.push_back(format("{}{}: {}", path_, base::printable_line(key), why));
}

void DeepSpeedKeys::note_all(const DeepSpeedNotes& keys) {
  for (const auto& [key, why] : keys) {
    read_.insert(key);
    if (has(key)) note(key, why);
  }
}

void DeepSpeedKeys::refuse_used(const DeepSpeedNotes& keys) {
  for (const auto& [key, why] : keys) {
    read_.insert(key);
    if (has(key) && !is_switched_off(object_[key])) refuse(key, why);
  }
}

void DeepSpeedKeys::refuse_unread() {
  const std::vector<std::string> known(read_.begin(), read_.end());
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    const auto near = base::nearest(key, known.data(), known.data() + known.size());
    refuse(key, near.empty() ? "is no key of DeepSpeed's that is known here" : format("did you mean {}?", near));
  }
}

}  // namespace hyperion::interop
