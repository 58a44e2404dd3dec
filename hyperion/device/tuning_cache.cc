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

Json fields_of(const TuningKey& key, const Tuning& tuning) {
  return {{"gpu", key.gpu},    {"library", key.library},    {"what", key.what},
          {"way", tuning.way}, {"us", tuning.microseconds}, {"usual_us", tuning.usual}};
}

std::string line_of(const TuningKey& key, const Tuning& tuning) {
  Json fields = fields_of(key, tuning);
  fields["hash"] = base::hash_hex(fields_of(key, tuning).dump());
  return fields.dump() + "\n";
}

// Nothing where the line is not one of ours, whole.
std::optional<std::pair<TuningKey, Tuning>> entry_of(std::string_view line) {
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
  const TuningKey key{text("gpu"), text("library"), text("what")};
  const Tuning tuning{text("way"), number("us"), number("usual_us")};
  if (text("hash") != base::hash_hex(fields_of(key, tuning).dump())) return {};
  return std::pair{key, tuning};
}

base::Path users_file() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  base::Path folder;
  if (cache != nullptr && cache[0] == '/') {
    folder = cache;
  } else if (home != nullptr && home[0] == '/') {
    folder = base::Path(home) / ".cache";
  }
  if (folder.empty()) return folder;
  const base::Path file = folder / "hyperion" / "tuning.jsonl";
  std::error_code unimportant;  // what was measured under the name of version 0.1 is kept
  if (!std::filesystem::exists(file, unimportant))
    std::filesystem::rename(folder / "hyperion" / "choices.jsonl", file, unimportant);
  return file;
}

std::atomic<bool> measuring = false;

}  // namespace

TuningCache::TuningCache(base::Path file, base::FileSystem& files) : file_(std::move(file)), files_(files) {}

std::map<TuningKey, Tuning> TuningCache::on_disk() {
  std::map<TuningKey, Tuning> found;
  if (file_.empty() || !files_.exists(file_)) return found;
  if (files_.size(file_) > kLargest) {
    base::log_warn(base::format("{} is too large to be a list of tunings, and is passed over", file_.string()));
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

void TuningCache::read() {
  if (std::exchange(was_read_, true)) return;
  try {
    all_ = on_disk();
  } catch (const base::Error& error) {
    told_ = true;
    base::log_warn(base::format("what was measured before cannot be read: {}", error.what()));
  }
}

void TuningCache::write() {
  files_.create_folders(file_.parent_path());
  // Two that add to the file at once take turns, so that neither loses the other's.
  std::optional<base::FileLock> lock;
  for (int turn = 0; !lock; ++turn) {
    try {
      lock.emplace(file_.string() + ".lock", "another process writes its tunings");
    } catch (const base::ConfigError&) {
      if (turn == kTurns) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  for (auto& [key, tuning] : on_disk()) all_.try_emplace(key, tuning);
  std::string text;
  for (const auto& [key, tuning] : all_) text += line_of(key, tuning);
  base::write_atomically(files_, file_, text);
}

std::optional<Tuning> TuningCache::find(const TuningKey& key) {
  const std::lock_guard lock(mutex_);
  read();
  const auto found = all_.find(key);
  if (found == all_.end()) return {};
  met_.try_emplace(key, Met{found->second, false});
  return found->second;
}

void TuningCache::keep(const TuningKey& key, const Tuning& tuning) {
  const std::lock_guard lock(mutex_);
  read();
  all_[key] = tuning;
  met_[key] = {tuning, true};
  if (file_.empty()) return;
  try {
    write();
  } catch (const base::Error& error) {
    if (!std::exchange(told_, true))
      base::log_warn(base::format("what is measured lasts for this run alone: {}", error.what()));
  }
}

std::map<TuningKey, Tuning> TuningCache::all() {
  const std::lock_guard lock(mutex_);
  read();
  return all_;
}

void TuningCache::clear() {
  const std::lock_guard lock(mutex_);
  all_.clear();
  met_.clear();
  was_read_ = true;
  if (!file_.empty()) files_.remove_all(file_);
}

std::map<TuningKey, TuningCache::Met> TuningCache::met() {
  const std::lock_guard lock(mutex_);
  return met_;
}

TuningCache& tuning_cache() {
  static TuningCache tunings(users_file());
  return tunings;
}

void set_tuning(bool on) { measuring = on; }
bool is_tuning() { return measuring; }

}  // namespace hyperion::device
