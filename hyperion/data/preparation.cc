#include "hyperion/data/preparation.h"

#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/version.h"
#include "hyperion/data/prepared.h"
#include "hyperion/records/input_files.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;
using base::Json;

constexpr const char* kJournal = "journal.json";
constexpr const char* kJournalHash = "xxh3_128";  // of its other members
constexpr int kFormat = 1;                        // of what is made: another one makes another set of the same inputs

// Each file's hash, by several threads.
std::vector<std::string> hashes_of(const std::vector<base::Path>& inputs, int threads, uint64_t total,
                                   const std::function<void(uint64_t, uint64_t)>& progress) {
  std::vector<std::string> hashes(inputs.size());
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> done{0};
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex mutex;
  const auto work = [&](bool first) {
    try {
      for (size_t i = next++; i < inputs.size() && !failed; i = next++) {
        base::Hasher hasher;
        base::read_in_pieces(inputs[i], [&](std::string_view piece) {
          base::throw_if_stopped("reading the inputs");
          hasher.update(piece);
          done += piece.size();
          if (first && progress) progress(done, total);
        });
        hashes[i] = hasher.hex();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception(), failed = true;
    }
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads && i < static_cast<int>(inputs.size()); ++i) helpers.emplace_back(work, false);
  work(true);
  helpers.clear();
  if (error) std::rethrow_exception(error);
  return hashes;
}

// Size and time of a file, as a text that changes with either.
std::string seen(const base::Path& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
  const auto size = std::filesystem::file_size(path, error);
  return error ? "gone" : format("{} {}", size, time);
}

// How messages call a setting that the record keeps under another name.
std::string setting_name(const std::string& key) {
  if (key == "bytes") return "whether prepare.tokenizer is \"bytes\"";
  if (key == "digest") return "the classes, or which files they have";
  return "prepare." + key;
}

std::vector<std::string> setting_differences(const Json& before, const Json& now, size_t left_out) {
  std::vector<std::string> list;
  for (const auto& [key, value] : now.items()) {
    const Json was = before.value(key, Json());
    if (was == value || (key == "on_bad" && left_out == 0)) continue;
    if (key == "bytes" || key == "digest")
      list.push_back(setting_name(key));
    else
      list.push_back(format("{} was {}{}, and is {}", setting_name(key), was.dump(),
                            key == "on_bad" ? format(" and left out {}", left_out) : "", value.dump()));
  }
  return list;
}

std::string input_difference(const Json& before, const Json& now) {
  if (before.size() != now.size())
    return format("it was made of {} files, and there are {}", before.size(), now.size());
  for (size_t i = 0; i < now.size(); ++i)
    if (before[i].value("xxh3_128", Json()) != now[i].at("xxh3_128"))
      return format("{} holds something else than {} did", now[i].at("path").get<std::string>(),
                    before[i].value("path", "file " + std::to_string(i + 1)));
  return "";
}

// What sets `prepared`, the record of a set, apart from what is asked for.
std::string difference_of(const Json& prepared, const PreparedFrom& from, const std::string& settings,
                          const Json& inputs, base::FileSystem& files) {
  auto list = setting_differences(prepared.value("settings", Json::object()), Json::parse(settings),
                                  prepared.value("skipped", Json::array()).size());
  if (auto other = input_difference(prepared.value("inputs", Json::array()), inputs); !other.empty())
    list.push_back(std::move(other));
  std::set<std::string> kept;  // hashes of the tokenizer's files
  for (const auto& [name, facts] : prepared.at("files").items())
    if (name.starts_with(kSetTokenizer)) kept.insert(facts.value("digest", ""));
  for (const auto& path : from.tokenizer)
    if (!kept.contains(base::hash_hex(files.read(path)))) list.push_back(format("{} is another", path.string()));
  if (list.empty()) return format("it is of version {}", prepared.value("version", "unknown"));
  std::string all;
  for (const auto& one : list) all += (all.empty() ? "" : "; ") + one;
  return all;
}

}  // namespace

Preparation::Preparation(base::FileSystem& files, base::Path output, const PreparedFrom& from, int threads,
                         const std::function<void(uint64_t, uint64_t)>& progress)
    : files_(files),
      output_(output.has_filename() ? std::move(output) : output.parent_path()),
      partial_(output_.string() + ".partial"),
      settings_(from.settings),
      inputs_(std::make_unique<Json>(Json::array())),
      journal_(std::make_unique<Json>()) {
  uint64_t total = 0;
  for (const auto& path : from.inputs) records::check_utf8_path(path);
  for (const auto& path : from.inputs) {
    total += files.size(path);
    seen_.push_back(seen(path));
  }
  const auto hashes = hashes_of(from.inputs, threads, total, progress);
  std::string content;
  for (size_t i = 0; i < hashes.size(); ++i) {
    inputs_->push_back(
        {{"path", from.inputs[i].string()}, {"bytes", files.size(from.inputs[i])}, {"xxh3_128", hashes[i]}});
    content += hashes[i] + "\n";
  }
  for (const auto& path : from.tokenizer) content += base::hash_hex(files.read(path)) + "\n";
  const auto key = [&](const Json& settings) {
    return base::hash_hex(format("{} {}\n", kFormat, settings.dump()) + content);
  };
  Json settings = Json::parse(settings_);
  key_ = key(settings);
  settings["on_bad"] = settings.at("on_bad") == "skip" ? "fail" : "skip";
  other_key_ = key(settings);
  take_up(from);
}
Preparation::~Preparation() = default;

uint64_t Preparation::input_bytes() const {
  uint64_t sum = 0;
  for (const auto& input : *inputs_) sum += input.at("bytes").get<uint64_t>();
  return sum;
}

// `left_out`: whether `record` lacks something that could not be read, so that on_bad matters.
bool Preparation::is_of_this(const Json& record, bool left_out) const {
  const Json key = record.value("key", Json());
  return key == key_ || (key == other_key_ && !left_out);
}

void Preparation::take_up(const PreparedFrom& from) {
  if (files_.exists(output_)) {
    const base::Path record = output_ / kSetRecord;
    if (!files_.exists(record))
      throw ConfigError(format("{} already exists, and is no prepared set", output_.string()),
                        "name another prepare.output");
    const Json prepared = read_set_record(files_, output_);
    if (!is_of_this(prepared, !prepared.value("skipped", Json::array()).empty()))
      throw ConfigError(format("{} was prepared from other inputs or settings: {}", output_.string(),
                               difference_of(prepared, from, settings_, *inputs_, files_)),
                        "remove it to prepare it anew, or name another prepare.output");
    check_set_files(files_, output_);
    done_ = true;
    return;
  }
  if (files_.exists(partial_) && !files_.list(partial_).empty() && !files_.exists(partial_ / "lock"))
    throw ConfigError(format("{} is in the way: it is not from here", partial_.string()),
                      "move it, or name another prepare.output");
  files_.create_folders(partial_);
  lock_ = std::make_unique<base::FileLock>(partial_ / "lock", format("another process prepares {}", output_.string()));
  if (!files_.exists(partial_ / kJournal)) return;
  Json journal = Json::parse(files_.read(partial_ / kJournal), nullptr, /*allow_exceptions=*/false);
  const bool whole = journal.is_object();
  const Json hash = whole ? journal.value(kJournalHash, Json()) : Json();
  if (whole) journal.erase(kJournalHash);
  if (!whole || hash != base::hash_hex(journal.dump())) {
    const std::string what = !whole           ? "cannot be read"
                             : hash.is_null() ? "has no hash: an older version wrote it"
                                              : "is damaged: it does not have its hash";
    return begin_anew(format("{} {}", (partial_ / kJournal).string(), what));
  }
  if (!is_of_this(journal, /*left_out=*/false))  // on_bad decides again about what was bad
    return begin_anew(format("{} was begun from other inputs or settings", partial_.string()));
  *journal_ = std::move(journal);
}

void Preparation::begin_anew(const std::string& why) {
  base::log_info(why + "; beginning anew");
  *journal_ = Json();
  for (const auto& path : files_.list(partial_))
    if (path.filename() != "lock") files_.remove_all(path);
}

void Preparation::write_journal(const Json& journal) {
  Json all = journal;
  all["key"] = key_;
  all[kJournalHash] = base::hash_hex(all.dump());
  base::write_atomically(files_, partial_ / kJournal, all.dump());
}

// What was hashed must be what was read.
void Preparation::check_inputs() {
  for (size_t i = 0; i < seen_.size(); ++i) {
    const std::string path = inputs_->at(i).at("path").get<std::string>();
    if (seen(path) == seen_[i]) continue;
    files_.remove_all(partial_ / kJournal);
    throw base::CorruptError(format("{} changed while it was read", path),
                             "let nothing write to the inputs, then prepare the set again");
  }
}

void Preparation::finish(Json record) {
  check_inputs();
  const std::set<std::string> whole = {kTrainSet, kValidationSet, kSetTokenizer, kJournal, "lock"};
  for (const auto& path : files_.list(partial_))  // what a process that was killed could not take away
    if (!whole.contains(path.filename().string())) files_.remove_all(path);
  record["files"] = set_files(files_, partial_);
  record["key"] = key_;
  record["settings"] = Json::parse(settings_);
  record["inputs"] = *inputs_;
  record["version"] = base::version_text();
  base::write_atomically(files_, partial_ / kSetRecord, record.dump(2) + "\n");
  files_.rename(partial_, output_);
  for (const char* name : {kJournal, "lock"}) files_.remove_all(output_ / name);
  lock_.reset();
}

}  // namespace hyperion::data
