// Reads the fields of a Hugging Face config.json. Every refusal is a CorruptError that names the file and the field.
// For sources of this folder: it needs nlohmann/json.hpp.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hyperion/base/json.h"

namespace hyperion::models {

// Bounds on what a file may ask for, before any memory is taken.
constexpr int64_t kMostLayers = 1024, kMostHeads = 1024, kMostWidth = 1 << 18, kMostContext = 1 << 24,
                  kMostVocabulary = 1 << 22;

// As text: parsed it takes up to some 30 times as much.
constexpr size_t kMostConfigBytes = size_t{2} << 20;

class ConfigReader {
 public:
  // `json` must outlive the reader; its model_type must be `model_type`.
  ConfigReader(const base::Json& json, std::string place, const std::string& model_type);

  bool has(const char* key) const { return json_.contains(key); }  // null or not
  int64_t size(const char* key, int64_t most) const;               // in [1, most]; must be there
  // In [least, most]; `absent` also for null.
  int64_t size_or(const char* key, int64_t absent, int64_t most, int64_t least = 1) const;
  double real(const char* key) const;
  double real_or(const char* key, double absent) const;
  bool flag_or(const char* key, bool absent) const;
  double init_std() const;  // initializer_range, and kInitStd where there is none
  std::string text_or(const char* key, const std::string& absent) const;
  std::vector<int64_t> indices(const char* key, int64_t count) const;    // each in [0, count), count of them at most
  std::vector<std::string> texts(const char* key, int64_t count) const;  // count of them, or empty where absent or null
  const base::Json* object(const char* key) const;                       // null where absent or null
  // Refuses a field that is there, not null, and none of `known`: the model here is not that function.
  void expect(const char* key, const std::vector<base::Json>& known) const;
  void check(bool good, const std::string& what) const;
  // A reader of an object inside this one.
  ConfigReader inside(const char* key) const;

 private:
  ConfigReader(const base::Json& json, std::string place) : json_(json), place_(std::move(place)) {}
  const base::Json* find(const char* key) const;
  [[noreturn]] void refuse(const std::string& what) const;

  const base::Json& json_;
  std::string place_;
};

// Writes initializer_range where it is another than that of a file without one.
void write_init_std(base::Json& json, double init_std);

}  // namespace hyperion::models
