// Settings: each is one member of a plain struct, bound here once to its name, default, range, unit and meaning. From
// that one binding come the recipe reader, the HYPERION_SECTION__KEY variables, --section.key=value, --help and `config
// show --origin`.
//
//   struct OptimConfig { double lr = 3e-4; };
//   void describe(Settings& settings, OptimConfig& config) {
//     settings.section("optim", "the update rule").real("lr", config.lr, {0, 10}, "peak learning rate");
//   }
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hyperion/base/words.h"

namespace hyperion::base {

struct Range {
  double low, high;  // both allowed
};

// A value of a type of its own, which is written as text.
struct WrittenValue {
  void* value;
  std::string (*text_of)(const void* value);
  void (*read_into)(void* value, const std::string& text);  // may throw ConfigError

  std::string operator*() const { return text_of(value); }
  void read(const std::string& text) const { read_into(value, text); }
};

struct Setting {
  std::string section, key, meaning, unit;
  std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*, WrittenValue> value;
  Range range{0, 0};
  std::vector<std::string> choices;  // of an enum; empty: any text
  std::string default_text;
  std::string origin = "default";

  std::string name() const { return section + "." + key; }
  std::string text() const;  // as TOML writes it
};

class Settings {
 public:
  class Section {
   public:
    Section(Settings& owner, std::string name) : owner_(owner), name_(std::move(name)) {}
    Section& integer(const char* key, int64_t& value, Range range, const char* meaning, const char* unit = "");
    Section& real(const char* key, double& value, Range range, const char* meaning, const char* unit = "");
    Section& flag(const char* key, bool& value, const char* meaning);
    Section& text(const char* key, std::string& value, const char* meaning);
    // An array of texts or numbers, or one text; in a variable or on the command line so too, or with commas
    // between them.
    Section& list(const char* key, std::vector<std::string>& value, const char* meaning);
    // A type with a constructor from its text, which may throw ConfigError, and text().
    template <class T>
    Section& written(const char* key, T& value, const char* meaning) {
      return add(key,
                 {&value, [](const void* from) { return static_cast<const T*>(from)->text(); },
                  [](void* to, const std::string& text) { *static_cast<T*>(to) = T(text); }},
                 {}, meaning);
    }
    // An enum with words (words.h).
    template <class Enum>
    Section& choice(const char* key, Enum& value, const char* meaning) {
      const auto words = words_of(value);
      return add(key,
                 {&value, [](const void* from) { return std::string(word_of(*static_cast<const Enum*>(from))); },
                  [](void* to, const std::string& word) { *static_cast<Enum*>(to) = from_word<Enum>(word).value(); }},
                 {words.begin(), words.end()}, meaning);
    }

   private:
    Section& add(const char* key, WrittenValue value, std::vector<std::string> choices, const char* meaning);
    Settings& owner_;
    std::string name_;
  };
  Section section(const std::string& name, const std::string& meaning);

  // Each throws ConfigError with the place, and a did-you-mean for an unknown name. Later calls win.
  void read_toml(std::string_view text, const std::string& file);
  void read_environment(const char* const* environment);                                   // as ::environ
  void set(const std::string& name, const std::string& value, const std::string& origin);  // name is "section.key"

  const Setting& at(const std::string& name) const;
  const std::vector<Setting>& all() const { return settings_; }
  std::string toml(bool with_origin) const;  // a recipe that gives these values again
  std::string help() const;                  // one line a setting, by section

 private:
  Setting& find(const std::string& section, const std::string& key, const std::string& place);
  [[noreturn]] void outside_section(const std::string& name, const std::string& place) const;
  void check_section(const std::string& section, const std::string& place) const;
  std::vector<std::pair<std::string, std::string>> sections_;  // name, meaning
  std::vector<Setting> settings_;
};

// Names and values of all, as TOML writes them.
std::vector<std::pair<std::string, std::string>> values_of(const Settings& settings);

}  // namespace hyperion::base
