#include "hyperion/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <climits>
#include <optional>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/version.h"
#include "hyperion/device/device.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/memory.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/text/unicode.h"

namespace hyperion::train {

using base::ConfigError;
using base::format;
using base::Path;

// The file .lock, and the folder itself where its disk can lock folders: the file may be removed by hand.
class RunLock {
 public:
  RunLock(const Path& run, const std::string& busy) {
    take_file(run / ".lock", busy);
    folder_ = ::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0 || !is_held(folder_, LOCK_EX)) return;
    ::close(folder_);
    throw ConfigError(busy, "wait for it to end, or stop it first");
  }
  ~RunLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  bool is_of(const Path& run) const {
    struct stat held, now;
    if (folder_ < 0 || ::fstat(folder_, &held) != 0) return true;
    return ::stat(run.c_str(), &now) == 0 && now.st_dev == held.st_dev && now.st_ino == held.st_ino;
  }

  // Whether another process holds it; else it is taken, as far as that can be done here.
  static bool is_held(int descriptor, int kind) {
    return ::flock(descriptor, kind | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }

 private:
  // Who only asks whether it is held (RunFolder::in_use) has it for a moment.
  void take_file(const Path& path, const std::string& busy) {
    for (int tries = 1; !file_; ++tries) {
      try {
        file_.emplace(path, busy);
      } catch (const ConfigError&) {
        if (tries == 5) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

  std::optional<base::FileLock> file_;
  int folder_ = -1;
};

namespace {

bool is_locked(const Path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool held = RunLock::is_held(descriptor, LOCK_SH);
  ::close(descriptor);
  return held;
}

[[noreturn]] void refuse_existing(base::FileSystem& files, const Path& path) {
  if (!interop::is_run(files, path))
    throw ConfigError(format("the folder {} exists and is no run's: it has no config.resolved.toml", path.string()),
                      "choose another name: --run NAME; or move it away");
  throw ConfigError(format("the run folder {} exists already", path.string()),
                    format("go on with it: hyperion resume {}, or add --or-resume; or choose another name: --run NAME",
                           path.filename().string()));
}

[[noreturn]] void refuse_taken_name(base::FileSystem& files, const Path& path) {
  const std::string name = path.filename().string();
  if (!interop::is_run(files, path))
    throw ConfigError(format("the folder {} exists and is no run's: it has no config.resolved.toml", path.string()),
                      "choose another name, or move it away");
  throw ConfigError(format("the run folder {} exists already", path.string()),
                    format("choose another name, or remove {} first: hyperion runs rm {}", name, name));
}

// Left by a process that was killed before it wrote the configuration: it holds nothing, and its name is free.
bool stillborn(base::FileSystem& files, const Path& path) {
  for (const Path& entry : files.list(path)) {
    const std::string name = entry.filename().string();
    if (name != ".lock" && name != "logs" && !name.starts_with("config.resolved.toml.partial-")) return false;
    if (name == "logs" && !files.list(entry).empty()) return false;
  }
  return true;
}

// Half-written files of a process that was killed. The caller holds the lock, so that nobody is writing them.
void sweep(base::FileSystem& files, const Path& path) {
  for (const Path& entry : files.list(path))
    if (entry.filename().string().find(".partial-") != std::string::npos) files.remove_all(entry);
  if (files.exists(path / "traces")) sweep(files, path / "traces");
}

// Letters of other scripts are of several bytes, none of them ASCII.
bool fits_run_name(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.';
}

// Neither bytes that are no characters, nor characters that are not seen or look like a space.
bool shows_itself(const std::string& name) {
  if (!std::all_of(name.begin(), name.end(), fits_run_name) || text::valid_prefix(name) != name.size()) return false;
  const std::u32string points = text::from_utf8(name);
  return std::none_of(points.begin(), points.end(), [](char32_t point) {
    const auto kind = text::class_of(point);
    return text::is_space(kind) || kind == text::CharClass::kControl || kind == text::CharClass::kUnassigned;
  });
}

// What a run writes, and nothing that someone may have put beside it.
bool is_of_run(const std::string& name) {
  for (const char* own : {"model.json", "run.json", "metrics.jsonl", "memory.json", "ranks.json", "answers.json",
                          "pipeline.svg", "predictions.json", "report.html", "checkpoints", "logs", "tokenizer",
                          "processor", "base", "traces", "tb", "wandb", "mlruns", "stop"})
    if (name == own) return true;
  if (name.starts_with("memory.rank-") && name.ends_with(".json")) return true;
  return (name.starts_with("metrics.rank-") && name.ends_with(".csv")) || name.ends_with(".prom") ||
         name.find(".partial-") != name.npos;
}

// One that is damaged stays so: readers go by the folder's name.
void name_record(base::FileSystem& files, const Path& run, const std::string& name) {
  if (!files.exists(run / "run.json")) return;
  try {
    auto record = report::read_run_record(files, run);
    record.name = name;
    report::write_run_record(files, run, record);
  } catch (const base::CorruptError&) {
  }
}

// False where it exists already: mkdir itself decides who made it, should two start at once.
bool make_run_folder(const Path& path) {
  if (::mkdir(path.c_str(), 0755) == 0) return true;
  const int code = errno;
  if (code == EEXIST) return false;
  throw base::FileError(format("cannot create folder {}", path.string()), code,
                        "check the permissions, or choose another folder with HYPERION_RUNS");
}

}  // namespace

RunFolder RunFolder::begin(base::FileSystem& files, const Path& path, const std::string& resolved_toml) {
  auto lock = std::make_shared<const RunLock>(path, format("{} is being used by another process", path.string()));
  if (files.exists(path / "config.resolved.toml")) refuse_existing(files, path);  // another was quicker
  try {
    sweep(files, path);
    files.create_folders(path / "logs");
    base::write_atomically(files, path / "config.resolved.toml", resolved_toml);
    return {path, std::move(lock)};
  } catch (...) {
    std::error_code ignored;  // the first failure is the one to tell
    std::filesystem::remove_all(path, ignored);
    throw;
  }
}

RunFolder RunFolder::create(base::FileSystem& files, const Path& runs, const std::string& name,
                            const std::string& resolved_toml) {
  check_run_name(name);
  files.create_folders(runs);
  const Path path = runs / name;
  if (!make_run_folder(path) && !stillborn(files, path)) refuse_existing(files, path);
  return begin(files, path, resolved_toml);
}

RunFolder RunFolder::create_numbered(base::FileSystem& files, const Path& runs, const std::string& name,
                                     const std::string& resolved_toml) {
  files.create_folders(runs);
  Path path = runs / name;
  for (int number = 2; !make_run_folder(path); ++number) path = runs / format("{}-{}", name, number);
  return begin(files, path, resolved_toml);
}

bool RunFolder::is_there() const { return lock_ == nullptr || lock_->is_of(path_); }

void RunFolder::check_there(int64_t saved_step) const {
  if (is_there()) return;
  throw base::Error(format("the run's folder {} was moved or removed while it was trained", path_.string()),
                    saved_step > 0 ? format("where it still is, put it back: `hyperion resume {}` goes on from step {}",
                                            name(), saved_step)
                                   : "nothing was lost but these steps: train it again");
}

bool RunFolder::in_use(const Path& path) { return is_locked(path / ".lock") || is_locked(path); }

std::string RunFolder::status(const report::RunRecord& record) {
  return record.status == "running" && !in_use(record.folder) ? "killed" : record.status;
}

RunFolder RunFolder::open(base::FileSystem& files, const Path& path) {
  if (!interop::is_run(files, path))
    throw ConfigError(format("{} holds no config.resolved.toml", path.string()),
                      "it is not a run of hyperion's, or was never begun");
  auto lock = std::make_shared<const RunLock>(
      path, format("run {} is being trained by another process", path.filename().string()));
  sweep(files, path);
  return {path, std::move(lock)};
}

void check_run_name(const std::string& name) {
  if (name.size() > NAME_MAX)
    throw ConfigError(format("a run's name of {} bytes is too long: \"{}...\"", name.size(), name.substr(0, 40)),
                      format("it names a folder, and may have at most {} bytes", NAME_MAX));
  if (name.empty() || !shows_itself(name) || name.front() == '.' || name.front() == '-')
    throw ConfigError(
        format("\"{}\" cannot be a run's name", name),
        "use letters, digits, '-', '_' and '.', the first of them a letter, a digit or '_'; HYPERION_RUNS "
        "names the folder");
}

std::string RunFolder::remove(base::FileSystem& files) {
  std::string kept;
  for (const Path& entry : files.list(path_)) {
    const std::string name = entry.filename().string();
    if (is_of_run(name))
      files.remove_all(entry);
    else if (name != ".lock" && entry != config())
      kept += (kept.empty() ? "" : ", ") + name;
  }
  files.remove_all(config());  // last: until then it is a run, and can be removed again
  files.remove_all(path_ / ".lock");
  std::error_code not_empty;
  std::filesystem::remove(path_, not_empty);
  return kept;
}

void RunFolder::rename(base::FileSystem& files, const std::string& name) {
  check_run_name(name);
  const Path to = path_.parent_path() / name;
  if (!make_run_folder(to)) refuse_taken_name(files, to);
  try {
    name_record(files, path_, name);
    files.rename(path_, to);  // over the empty folder, which nobody else could make
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(to, ignored);
    throw;
  }
  path_ = to;
}

std::string default_run_name(const Path& recipe, double unix_seconds) {
  std::string stem = recipe.stem().string();
  std::replace_if(
      stem.begin(), stem.end(), [](char c) { return !fits_run_name(c); }, '-');
  if (const size_t first = stem.find_first_not_of(".-"); first != 0)
    stem = first == stem.npos ? "run" : stem.substr(first);
  size_t kept = 200;  // bytes, so that the name of a folder has room for the rest
  if (stem.size() > kept) {
    while ((stem[kept] & 0xC0) == 0x80) --kept;  // not inside a character
    stem.resize(kept);
  }
  if (!shows_itself(stem)) stem = "run";
  return format("{}-{}", stem, base::file_stamp(unix_seconds));
}

std::vector<std::pair<std::string, std::string>> environment_facts(const std::string& device_text) {
  char host[256] = "unknown";
  ::gethostname(host, sizeof host - 1);
  const auto cpu = host::this_cpu();
  return {{"hyperion", base::version_text()},
          {"host", host},
          {"device", device_text},
          {"cpu", format("{}, {} cores usable", cpu.model, cpu.usable_cores())},
          {"memory", base::bytes_text(host::memory().total)},
          {"threads", format("{}", device::cpu_threads())}};
}

}  // namespace hyperion::train
