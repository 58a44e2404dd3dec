// One object of DeepSpeed's JSON, read key by key, so that none goes unread in silence.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/interop/deepspeed_recipe.h"

namespace hyperion::interop {

struct DeepSpeedFindings {
  DeepSpeedRecipe recipe;
  std::vector<std::string> refusals;
};

// A key and why it has no counterpart.
using DeepSpeedNotes = std::vector<std::pair<const char*, const char*>>;

class DeepSpeedKeys {
 public:
  // `path` stands before its keys in messages: "" or "zero_optimization.". Both outlive it.
  DeepSpeedKeys(const base::Json& object, std::string path, DeepSpeedFindings& found);

  // Each is empty where the key is absent, null, "auto" (noted: our own default holds) or of another type (refused).
  std::optional<int64_t> whole(const std::string& key, int64_t low, int64_t high = 1'000'000'000'000);
  std::optional<double> number(const std::string& key);
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string> word(const std::string& key);
  std::optional<std::pair<double, double>> pair(const std::string& key);
  std::optional<DeepSpeedKeys> object(const std::string& key);
  DeepSpeedKeys object_or_empty(const std::string& key);

  bool has(const std::string& key) const;  // and it is not null
  bool is_auto(const std::string& key) const;

  void set(const std::string& key, const std::string& setting, const std::string& value, const std::string& more = {});
  void note(const std::string& key, const std::string& why);
  void refuse(const std::string& key, const std::string& why);

  // Notes those of the keys that are there.
  void note_all(const DeepSpeedNotes& keys);
  // Refuses those that are there and not false, 0 or switched off ({"enabled": false}).
  void refuse_used(const DeepSpeedNotes& keys);
  // Refuses what was not asked for by now.
  void refuse_unread();

 private:
  const base::Json* at(const std::string& key);  // null: absent, null or "auto"
  void wrong_type(const std::string& key, const char* wanted);
  const base::Json& object_;
  std::string path_;
  DeepSpeedFindings& found_;
  std::set<std::string> read_;
};

// The other parts of read_deepspeed; `narrow`: gradients are of two bytes.
void read_deepspeed_zero(DeepSpeedKeys& zero, bool narrow);
void read_deepspeed_update(DeepSpeedKeys& top);

}  // namespace hyperion::interop
