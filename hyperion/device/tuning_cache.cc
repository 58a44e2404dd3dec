#include "hyperion/device/tuning_cache.h"

#include <atomic>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"

namespace hyperion::device {
namespace {

using base::Json;

constexpr uint64_t kLargest = 16u << 20;  // thousands of shapes take less
constexpr int kTurns = 200;               // of 5 ms: how long another process may hold the file

Json fields_of(const ChoiceFor& key, const Choice& choice) {
  return {{"gpu", key.gpu},    {"library", key.library},    {"what", key.what},
          {"way", choice.way}, {"us", choice.microseconds}, {"usual_us", choice.usual}};
}

std::string line_of(const ChoiceFor& key, const Choice& choice) {
  Json fields = fields_of(key, choice);
  fields["hash"] = base::hash_hex(fields_of(key, choice).dump());
  return fields.dump() + "\n";
}

// Nothing where the line is not one of ours, whole.
std::optional<std::pair<ChoiceFor, Choice>> entry_of(std::string_view line) {
  Json fields;
  try {
    fields = base::parse_json(line, "");
  } catch (const base::CorruptError&) {
    return {};
  }
  if (!fields.is_object()) return {};
  const auto text = [&](const char* name) {
    return fields.contains(name) && fields[name].is_string() ? fields[name].get<std::string>() : "";
  };
  const auto number = [&](const char* name) {
    return fields.contains(name) && fields[name].is_number() ? fields[name].get<double>() : 0;
  };
  const ChoiceFor key{text("gpu"), text("library"), text("what")};
  const Choice choice{text("way"), number("us"), number("usual_us")};
  if (text("hash") != base::hash_hex(fields_of(key, choice).dump())) return {};
  return std::pair{key, choice};
}

base::Path users_file() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  base::Path folder;
  if (cache != nullptr && cache[0] == '/') {
    folder = cache;
  } else if (home != nullptr && home[0] == '/') {
    folder = base::Path(home) / ".cache";
  }
  return folder.empty() ? folder : folder / "hyperion" / "choices.jsonl";
}

std::atomic<bool> measuring = false;

}  // namespace

Choices::Choices(base::Path file, base::FileSystem& files) : file_(std::move(file)), files_(files) {}

std::map<ChoiceFor, Choice> Choices::on_disk() {
  std::map<ChoiceFor, Choice> found;
  if (file_.empty() || !files_.exists(file_)) return found;
  if (files_.size(file_) > kLargest) {
    base::log_warn(base::format("{} is too large to be a list of choices, and is passed over", file_.string()));
    return found;
  }
  const std::string text = files_.read(file_);
  int64_t damaged = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (auto entry = entry_of(std::string_view(text).substr(begin, end - begin)))
      found.insert_or_assign(std::move(entry->first), std::move(entry->second));
    else
      ++damaged;
    begin = end + 1;
  }
  if (damaged > 0 && !std::exchange(told_, true))
    base::log_warn(base::format("{}: {} of its lines are damaged or another program's, and are passed over",
                                file_.string(), damaged));
  return found;
}

void Choices::read() {
  if (std::exchange(was_read_, true)) return;
  try {
    all_ = on_disk();
  } catch (const base::Error& error) {
    told_ = true;
    base::log_warn(base::format("what was measured before cannot be read: {}", error.what()));
  }
}

void Choices::write() {
  files_.create_folders(file_.parent_path());
  // Two that add to the file at once take turns, so that neither loses the other's.
  std::optional<base::FileLock> lock;
  for (int turn = 0; !lock; ++turn) {
    try {
      lock.emplace(file_.string() + ".lock", "another process writes its choices");
    } catch (const base::ConfigError&) {
      if (turn == kTurns) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  for (auto& [key, choice] : on_disk()) all_.try_emplace(key, choice);
  std::string text;
  for (const auto& [key, choice] : all_) text += line_of(key, choice);
  base::write_atomically(files_, file_, text);
}

std::optional<Choice> Choices::find(const ChoiceFor& key) {
  const std::lock_guard lock(mutex_);
  read();
  const auto found = all_.find(key);
  if (found == all_.end()) return {};
  met_.try_emplace(key, Met{found->second, false});
  return found->second;
}

void Choices::keep(const ChoiceFor& key, const Choice& choice) {
  const std::lock_guard lock(mutex_);
  read();
  all_[key] = choice;
  met_[key] = {choice, true};
  if (file_.empty()) return;
  try {
    write();
  } catch (const base::Error& error) {
    if (!std::exchange(told_, true))
      base::log_warn(base::format("what is measured lasts for this run alone: {}", error.what()));
  }
}

std::map<ChoiceFor, Choice> Choices::all() {
  const std::lock_guard lock(mutex_);
  read();
  return all_;
}

void Choices::clear() {
  const std::lock_guard lock(mutex_);
  all_.clear();
  met_.clear();
  was_read_ = true;
  if (!file_.empty()) files_.remove_all(file_);
}

std::map<ChoiceFor, Choices::Met> Choices::met() {
  const std::lock_guard lock(mutex_);
  return met_;
}

Choices& kept_choices() {
  static Choices choices(users_file());
  return choices;
}

void measure_choices(bool on) { measuring = on; }
bool measuring_choices() { return measuring; }

}  // namespace hyperion::device
