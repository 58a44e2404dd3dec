#include "hyperion/models/config_reader.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/initial_deviation.h"

namespace hyperion::models {

using base::format;
using base::Json;

ConfigReader::ConfigReader(const Json& json, std::string place, const std::string& model_type)
    : json_(json), place_(std::move(place)) {
  if (!json.is_object()) refuse("it is not a JSON object");
  if (text_or("model_type", "") != model_type) refuse(format("model_type is not \"{}\"", model_type));
}

void ConfigReader::refuse(const std::string& what) const { throw base::CorruptError(format("{}: {}", place_, what)); }

const Json* ConfigReader::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

int64_t ConfigReader::size(const char* key, int64_t most) const {
  if (find(key) == nullptr) refuse(format("{} is missing", key));
  return size_or(key, 0, most);
}

int64_t ConfigReader::size_or(const char* key, int64_t absent, int64_t most, int64_t least) const {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  // A whole number too large for int64 is unsigned to the parser, and would wrap.
  const bool small = !value->is_number_unsigned() || value->get<uint64_t>() <= static_cast<uint64_t>(most);
  const bool fits =
      small && value->is_number_integer() && value->get<int64_t>() >= least && value->get<int64_t>() <= most;
  if (!fits)
    refuse(format("{} = {} is not a whole number from {} to {}", key,
                  value->dump(-1, ' ', true, Json::error_handler_t::replace), least, most));
  return value->get<int64_t>();
}

double ConfigReader::real(const char* key) const {
  if (find(key) == nullptr) refuse(format("{} is missing", key));
  return real_or(key, 0);
}

double ConfigReader::real_or(const char* key, double absent) const {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(format("{} is not a number", key));
  return value->get<double>();
}

double ConfigReader::init_std() const {
  const double deviation = real_or("initializer_range", kInitStd);
  check(deviation >= 0, "initializer_range must not be below 0");
  return deviation;
}

bool ConfigReader::flag_or(const char* key, bool absent) const {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) refuse(format("{} is neither true nor false", key));
  return value->get<bool>();
}

std::string ConfigReader::text_or(const char* key, const std::string& absent) const {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (!value->is_string()) refuse(format("{} is not a text", key));
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::indices(const char* key, int64_t count) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() && value->size() <= static_cast<size_t>(count) &&
                    std::all_of(value->begin(), value->end(), [&](const Json& each) {
                      return each.is_number_unsigned() && each.get<uint64_t>() < static_cast<uint64_t>(count);
                    });
  if (!fits) refuse(format("{} is not a list of at most {} whole numbers from 0 to {}", key, count, count - 1));
  return value->get<std::vector<int64_t>>();
}

std::vector<std::string> ConfigReader::texts(const char* key, int64_t count) const {
  const Json* value = find(key);
  if (value == nullptr) return {};
  const bool fits = value->is_array() && value->size() == static_cast<size_t>(count) &&
                    std::all_of(value->begin(), value->end(), [](const Json& each) { return each.is_string(); });
  if (!fits) refuse(format("{} is not a list of {} texts", key, count));
  return value->get<std::vector<std::string>>();
}

const Json* ConfigReader::object(const char* key) const {
  const Json* value = find(key);
  if (value != nullptr && !value->is_object()) refuse(format("{} is not an object", key));
  return value;
}

ConfigReader ConfigReader::inside(const char* key) const {
  const Json* value = object(key);
  if (value == nullptr) refuse(format("{} is missing", key));
  return ConfigReader(*value, format("{}, {}", place_, key));
}

void ConfigReader::expect(const char* key, const std::vector<Json>& known) const {
  const Json* value = find(key);
  if (value == nullptr || std::find(known.begin(), known.end(), *value) != known.end()) return;
  std::string list;
  for (const Json& each : known) list += (list.empty() ? "" : " or ") + each.dump();
  throw base::CorruptError(
      format("{}: {} = {} is not known here", place_, key, value->dump(-1, ' ', true, Json::error_handler_t::replace)),
      format("this version knows {} = {}", key, list));
}

void ConfigReader::check(bool good, const std::string& what) const {
  if (!good) refuse(what);
}

void write_init_std(Json& json, double init_std) {
  if (init_std != kInitStd) json["initializer_range"] = init_std;
}

}  // namespace hyperion::models
