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

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;
using base::Json;

constexpr const char* kJournal = "journal.json";
constexpr int kFormat = 1;  // of what is made: another one makes another set of the same inputs

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
  std::vector<std::thread> helpers;
  for (int i = 1; i < threads && i < static_cast<int>(inputs.size()); ++i) helpers.emplace_back(work, false);
  work(true);
  for (auto& helper : helpers) helper.join();
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
  for (const auto& path : from.inputs) {
    total += files.size(path);
    seen_.push_back(seen(path));
  }
  const auto hashes = hashes_of(from.inputs, threads, total, progress);
  std::string all = format("{} {}\n", kFormat, from.settings);
  for (size_t i = 0; i < hashes.size(); ++i) {
    inputs_->push_back(
        {{"path", from.inputs[i].string()}, {"bytes", files.size(from.inputs[i])}, {"xxh3_128", hashes[i]}});
    all += hashes[i] + "\n";
  }
  for (const auto& path : from.tokenizer) all += base::hash_hex(files.read(path)) + "\n";
  key_ = base::hash_hex(all);
  take_up();
}
Preparation::~Preparation() = default;

uint64_t Preparation::input_bytes() const {
  uint64_t sum = 0;
  for (const auto& input : *inputs_) sum += input.at("bytes").get<uint64_t>();
  return sum;
}

void Preparation::take_up() {
  if (files_.exists(output_)) {
    const base::Path record = output_ / kSetRecord;
    if (!files_.exists(record))
      throw ConfigError(format("{} already exists, and is no prepared set", output_.string()),
                        "name another prepare.output");
    if (read_set_record(files_, output_).value("key", Json()) != key_)
      throw ConfigError(format("{} was prepared from other inputs or settings", output_.string()),
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
  if (journal.is_object() && journal.value("key", Json()) == key_) {
    *journal_ = std::move(journal);
    return;
  }
  base::log_info(journal.is_object()
                     ? format("{} was begun from other inputs or settings; beginning anew", partial_.string())
                     : format("{} cannot be read; beginning anew", (partial_ / kJournal).string()));
  for (const auto& path : files_.list(partial_))
    if (path.filename() != "lock") files_.remove_all(path);
}

void Preparation::write_journal(const Json& journal) {
  Json all = journal;
  all["key"] = key_;
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
