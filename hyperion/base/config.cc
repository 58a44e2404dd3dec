#include "hyperion/base/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/other_words.h"

namespace hyperion::base {
namespace {

std::string real_text(double value) {
  std::string text = format("{}", value);
  if (text.find_first_of(".en") == text.npos) text += ".0";
  return text;
}

std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string toml_text(const std::vector<std::string>& texts) {
  std::string out;
  for (const auto& text : texts) out += (out.empty() ? "" : ", ") + toml_text(text);
  return "[" + out + "]";
}

bool toml_holds(const std::string& text) {
  try {
    return !toml::parse("text = " + toml_text(text)).empty();
  } catch (const toml::parse_error&) {
    return false;
  }
}

std::string type_name(const Setting& setting) {
  const char* names[] = {"a whole number", "a number", "true or false", "text", "a list of texts", "text"};
  return names[setting.value.index()];
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

int64_t clamped(double value) {
  if (value >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return value <= -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(value);
}

std::string range_text(const Setting& setting) {
  const auto end = [&](double value) {
    return setting.value.index() == 0 ? format("{}", clamped(value)) : format("{:g}", value);
  };
  return format("{} to {}", end(setting.range.low), end(setting.range.high));
}

// "updates in all: 1 to 1000000000"
std::string allowed_text(const Setting& setting) {
  return format("{}: {}{}{}", setting.meaning, range_text(setting), setting.unit.empty() ? "" : " ", setting.unit);
}

[[noreturn]] void wrong_type(const Setting& setting, const std::string& got, const std::string& place) {
  throw ConfigError(format("{} must be {}, not {}, {}", setting.name(), type_name(setting), got, place),
                    setting.value.index() < 2
                        ? allowed_text(setting)
                        : format("for example {} = {}; {}", setting.key, setting.default_text, setting.meaning));
}

void check_range(const Setting& setting, double value, const std::string& shown, const std::string& place) {
  if (value >= setting.range.low && value <= setting.range.high) return;  // NaN fails both
  throw ConfigError(format("{} = {} is out of range, {}", setting.name(), shown, place), allowed_text(setting));
}

void assign(Setting& setting, int64_t value, const std::string& place) {
  check_range(setting, static_cast<double>(value), format("{}", value), place);
  *std::get<int64_t*>(setting.value) = value;
}
void assign(Setting& setting, double value, const std::string& place) {
  check_range(setting, value, format("{:g}", value), place);
  *std::get<double*>(setting.value) = value;
}
void check_text(const Setting& setting, const std::string& value, const std::string& place) {
  if (!toml_holds(value))
    throw ConfigError(format("{} is not UTF-8 text, {}", setting.name(), place),
                      "the run's record must hold it as TOML");
}
void assign(Setting& setting, std::vector<std::string> values, const std::string& place) {
  for (const auto& value : values) check_text(setting, value, place);
  *std::get<std::vector<std::string>*>(setting.value) = std::move(values);
}
void assign(Setting& setting, const std::string& value, const std::string& place) {
  check_text(setting, value, place);
  if (!setting.choices.empty() &&
      std::find(setting.choices.begin(), setting.choices.end(), value) == setting.choices.end()) {
    const auto near = choice_meant(value, setting.choices);
    throw ConfigError(format("{} = \"{}\" is not one of {}, {}", setting.name(), value, joined(setting.choices), place),
                      near.empty() ? setting.meaning : format("did you mean \"{}\"?", near));
  }
  if (auto* const* text = std::get_if<std::string*>(&setting.value))
    **text = value;
  else
    std::get<WrittenValue>(setting.value).read(value);
}

bool is_text(const Setting& setting) {
  return std::holds_alternative<std::string*>(setting.value) || std::holds_alternative<WrittenValue>(setting.value);
}

void assign_node(Setting& setting, const toml::node& node, const std::string& place) {
  const auto got = [&] {
    std::ostringstream type;
    type << node.type();
    return "a TOML " + type.str();
  };
  if (setting.value.index() == 0 && node.is_integer()) return assign(setting, *node.value<int64_t>(), place);
  // Not node.value<double>(): it is empty for whole numbers that a double cannot hold exactly.
  if (setting.value.index() == 1 && node.is_integer())
    return assign(setting, static_cast<double>(node.as_integer()->get()), place);
  if (setting.value.index() == 1 && node.is_floating_point())
    return assign(setting, node.as_floating_point()->get(), place);
  if (setting.value.index() == 2 && node.is_boolean()) {
    *std::get<bool*>(setting.value) = *node.value<bool>();
    return;
  }
  if (is_text(setting) && node.is_string()) return assign(setting, *node.value<std::string>(), place);
  if (setting.value.index() == 4 && node.is_string())
    return assign(setting, std::vector<std::string>{*node.value<std::string>()}, place);
  if (setting.value.index() == 4 && node.is_array()) {
    std::vector<std::string> values;
    for (const auto& element : *node.as_array()) {
      if (element.is_number())
        values.push_back(format("{}", *element.value<double>()));
      else if (element.is_string())
        values.push_back(*element.value<std::string>());
      else
        wrong_type(setting, "an array of other things", place);
    }
    return assign(setting, std::move(values), place);
  }
  wrong_type(setting, got(), place);
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t from = 0; from < text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return parts;
}

template <class T>
bool whole(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

void assign_text(Setting& setting, const std::string& text, const std::string& place) {
  if (setting.value.index() == 4 && text.starts_with('[')) {
    try {
      const auto table = toml::parse("list = " + text);
      return assign_node(setting, *table.get("list"), place);
    } catch (const toml::parse_error& error) {
      throw ConfigError(format("{} = {} is no list: {}, {}", setting.name(), text, error.description(), place),
                        "write a,b or [\"a\", \"b\"]");
    }
  }
  if (setting.value.index() == 4) return assign(setting, split_at_commas(text), place);
  if (is_text(setting)) return assign(setting, text, place);
  if (setting.value.index() == 2) {
    const bool yes = text == "true" || text == "1", no = text == "false" || text == "0";
    if (!yes && !no) wrong_type(setting, toml_text(text), place);
    *std::get<bool*>(setting.value) = yes;
    return;
  }
  if (setting.value.index() == 0) {
    int64_t value = 0;
    if (!whole(text, value)) wrong_type(setting, toml_text(text), place);
    return assign(setting, value, place);
  }
  double value = 0;
  if (!whole(text, value)) wrong_type(setting, toml_text(text), place);
  assign(setting, value, place);
}

std::string choice_of_section(const std::string& word, const std::vector<std::string>& sections) {
  const std::string meant = section_meant(word);
  if (std::find(sections.begin(), sections.end(), meant) != sections.end()) return meant;
  return nearest(word, sections.data(), sections.data() + sections.size());
}

std::string place_of(const toml::source_region& source, const std::string& file) {
  return format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

[[noreturn]] void refuse_toml(const toml::parse_error& error, const std::string& file) {
  const std::string_view what = error.description();
  const std::string place = place_of(error.source(), file);
  const size_t from = what.find('\''), to = what.rfind('\'');
  if (what.find("cannot redefine existing") != what.npos && from < to) {
    const auto name = what.substr(from + 1, to - from - 1);
    if (what.find("table header") != what.npos)
      throw ConfigError(format("[{}] is there twice, {}", name, place), "put all its keys under one of the two");
    throw ConfigError(format("{} is set twice, {}", name, place), "leave one of them out");
  }
  throw ConfigError(format("{}, {}", what, place), "the recipe must be TOML");
}

// HYPERION_OPTIM_LR for HYPERION_OPTIM__LR.
void warn_of_one_underscore(const std::vector<Setting>& settings, const std::string& variable) {
  const auto upper = [](std::string word) {
    for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return word;
  };
  for (const auto& setting : settings)
    if (upper(variable) == upper(format("HYPERION_{}_{}", setting.section, setting.key)))
      log_warn(format("{} is ignored: for {} set {}, with two underscores before the key", variable, setting.name(),
                      upper(format("HYPERION_{}__{}", setting.section, setting.key))));
}

}  // namespace

std::string Setting::text() const {
  switch (value.index()) {
    case 0:
      return format("{}", *std::get<int64_t*>(value));
    case 1:
      return real_text(*std::get<double*>(value));
    case 2:
      return *std::get<bool*>(value) ? "true" : "false";
    case 3:
      return toml_text(*std::get<std::string*>(value));
    case 4:
      return toml_text(*std::get<std::vector<std::string>*>(value));
    default:
      return toml_text(*std::get<WrittenValue>(value));
  }
}

Settings::Section Settings::section(const std::string& name, const std::string& meaning) {
  sections_.emplace_back(name, meaning);
  return {*this, name};
}

using Section = Settings::Section;
Section& Section::integer(const char* key, int64_t& value, Range range, const char* meaning, const char* unit) {
  owner_.settings_.push_back({name_, key, meaning, unit, &value, range, {}, format("{}", value)});
  return *this;
}
Section& Section::real(const char* key, double& value, Range range, const char* meaning, const char* unit) {
  owner_.settings_.push_back({name_, key, meaning, unit, &value, range, {}, real_text(value)});
  return *this;
}
Section& Section::flag(const char* key, bool& value, const char* meaning) {
  owner_.settings_.push_back({name_, key, meaning, "", &value, {}, {}, value ? "true" : "false"});
  return *this;
}
Section& Section::text(const char* key, std::string& value, const char* meaning) {
  owner_.settings_.push_back({name_, key, meaning, "", &value, {}, {}, toml_text(value)});
  return *this;
}
Section& Section::list(const char* key, std::vector<std::string>& value, const char* meaning) {
  owner_.settings_.push_back({name_, key, meaning, "", &value, {}, {}, toml_text(value)});
  return *this;
}
Section& Section::add(const char* key, WrittenValue value, std::vector<std::string> choices, const char* meaning) {
  owner_.settings_.push_back({name_, key, meaning, "", value, {}, std::move(choices), toml_text(*value)});
  return *this;
}

Setting& Settings::find(const std::string& section, const std::string& key, const std::string& place) {
  std::vector<std::string> keys, sections;
  std::string owners;  // of a key that stands in the wrong section
  for (auto& setting : settings_) {
    if (setting.section == section && setting.key == key) return setting;
    keys.push_back(setting.section == section ? setting.key : setting.name());
    if (setting.key == key) owners += (owners.empty() ? "" : " or ") + setting.name();
  }
  bool known_section = false;
  for (const auto& [name, meaning] : sections_) {
    known_section |= name == section;
    sections.push_back(name);
  }
  std::string near;
  if (known_section) {
    near = nearest(key, keys.data(), keys.data() + keys.size());
    if (!near.empty() && near.find('.') == near.npos) near = section + "." + near;
  } else if (const auto other = choice_of_section(section, sections); !other.empty()) {
    near = key.empty() ? "" : other + "." + key;
  }
  if (!owners.empty() && (near.empty() || owners.find(near) == owners.npos)) near = owners;
  for (const auto& setting : settings_)
    if (key.empty() && setting.key == section) near = setting.name();
  const std::string name = key.empty() ? section : section + "." + key;
  const std::string other_word = owners.empty() ? setting_hint(key.empty() ? section : key) : "";
  throw ConfigError(format("unknown setting {}, {}", name, place), !other_word.empty() ? other_word
                                                                   : near.empty()
                                                                       ? "`hyperion train --help` lists all settings"
                                                                       : format("did you mean {}?", near));
}

void Settings::check_section(const std::string& section, const std::string& place) const {
  std::vector<std::string> names;
  for (const auto& [name, meaning] : sections_) names.push_back(name);
  if (std::find(names.begin(), names.end(), section) != names.end()) return;
  const auto near = choice_of_section(section, names);
  throw ConfigError(format("unknown section [{}], {}", section, place),
                    near.empty() ? "the sections are " + joined(names) : format("did you mean [{}]?", near));
}

void Settings::outside_section(const std::string& name, const std::string& place) const {
  for (const auto& [section, meaning] : sections_)
    if (section == name)
      throw ConfigError(format("{} must be a section, {}", name, place),
                        format("write [{}], and its settings below", name));
  std::string owners;
  for (const auto& setting : settings_)
    if (setting.key == name) owners += format("{}[{}]", owners.empty() ? "" : " or ", setting.section);
  const std::string meant = setting_hint(name);
  throw ConfigError(format("{} stands outside any section, {}", name, place),
                    !owners.empty()  ? format("put it under {}", owners)
                    : !meant.empty() ? format("{} (settings stand under a [section] header)", meant)
                                     : "put it under a [section] header");
}

void Settings::read_toml(std::string_view text, const std::string& file) {
  toml::table table;
  try {
    table = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    refuse_toml(error, file);
  }
  for (const auto& [section, node] : table) {
    const std::string name(section.str());
    const auto* keys = node.as_table();
    if (keys == nullptr) outside_section(name, place_of(section.source(), file));
    if (keys->empty()) check_section(name, place_of(node.source(), file));
    for (const auto& [key, value] : *keys) {
      const std::string place = place_of(key.source(), file);
      Setting& setting = find(name, std::string(key.str()), place);
      assign_node(setting, value, place_of(value.source(), file));
      setting.origin = place;
    }
  }
}

void Settings::read_environment(const char* const* environment) {
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const size_t equals = entry.find('=');
    if (!entry.starts_with("HYPERION_") || equals == entry.npos) continue;
    const std::string variable(entry.substr(0, equals));
    const size_t cut = variable.find("__", 8);
    if (cut == variable.npos) {
      warn_of_one_underscore(settings_, variable);
      continue;
    }
    const auto lower = [](std::string word) {
      for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      return word;
    };
    Setting& setting = find(lower(variable.substr(9, std::max<size_t>(cut, 9) - 9)), lower(variable.substr(cut + 2)),
                            "environment variable " + variable);
    assign_text(setting, std::string(entry.substr(equals + 1)), "environment variable " + variable);
    setting.origin = variable;
  }
}

void Settings::set(const std::string& name, const std::string& value, const std::string& origin) {
  const size_t dot = name.find('.');
  Setting& setting = find(name.substr(0, dot), dot == name.npos ? "" : name.substr(dot + 1), origin);
  assign_text(setting, value, origin);
  setting.origin = origin;
}

const Setting& Settings::at(const std::string& name) const {
  for (const auto& setting : settings_)
    if (setting.name() == name) return setting;
  throw Error(format("no setting is called {}", name));
}

std::string Settings::toml(bool with_origin) const {
  std::string out;
  for (const auto& [section, meaning] : sections_) {
    out += format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const auto& setting : settings_) {
      if (setting.section != section) continue;
      const std::string line = format("{} = {}", setting.key, setting.text());
      out += with_origin ? format("{:<40} # {}\n", line, setting.origin) : line + "\n";
    }
  }
  return out;
}

std::string Settings::help() const {
  std::string out;
  for (const auto& [section, meaning] : sections_) {
    out += format("\n[{}] {}\n", section, meaning);
    for (const auto& setting : settings_) {
      if (setting.section != section) continue;
      std::string allowed = joined(setting.choices);
      if (setting.value.index() == 4) allowed = "several: a,b";
      if (setting.value.index() < 2) allowed = range_text(setting) + (setting.unit.empty() ? "" : " " + setting.unit);
      out += format("  --{:<28} {} (default {}{}{})\n", setting.name(), setting.meaning, setting.default_text,
                    allowed.empty() ? "" : "; ", allowed);
    }
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> values_of(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& setting : settings.all()) values.emplace_back(setting.name(), setting.text());
  return values;
}

}  // namespace hyperion::base
