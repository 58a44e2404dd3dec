#include "hyperion/checkpoint/save.h"

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/clock.h"
#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/checkpoint/together.h"
#include "hyperion/profile/span.h"

namespace hyperion::checkpoint {
namespace {

using base::FileError;
using base::format;
using base::Path;

constexpr const char* kFullDiskHint =
    "free some space, lower the number of checkpoints kept, or choose another folder with HYPERION_RUNS";

void pass(const char* point, const Path& path) {
  if (base::fault_point(point) == base::Fault::disk_full)
    throw FileError(format("cannot write {}", path.string()), ENOSPC, kFullDiskHint);
}

FileError with_hint(const FileError& error) {
  const bool full = error.code() == ENOSPC || error.code() == EDQUOT;
  return {without_code(error.what(), error.code()), error.code(),
          full                                    ? kFullDiskHint
          : base::lacks_descriptors(error.code()) ? base::descriptor_hint()
                                                  : "check the disk; earlier checkpoints are as they were"};
}

// For work that must not hide the failure, or undo the success, that came before it.
template <class Work>
void try_or_warn(const std::string& doing, Work work) {
  try {
    work();
  } catch (const FileError& error) {
    base::log_warn(format("could not {}: {}", doing, error.what()));
  }
}

// Takes a folder out of the readers' sight in one step, then removes it; a crash between is mended by the next sweep.
void discard(base::FileSystem& files, const Path& path, int64_t step) {
  const Path hidden = path.parent_path() / step_folder_name(step, StepFolderKind::partial);
  files.rename(path, hidden);
  files.remove_all(hidden);
}

// What crashes left behind. An old checkpoint whose replacement never came is put back.
void sweep(base::FileSystem& files, const Path& folder) {
  for (const Path& path : files.list(folder)) {
    const auto name = parse_step_folder(path.filename().string());
    if (!name || name->kind == StepFolderKind::complete) continue;
    const Path complete = folder / step_folder_name(name->step);
    const bool put_back = name->kind == StepFolderKind::replaced && !files.exists(complete / kManifestName);
    try_or_warn("clear up " + path.string(), [&] { put_back ? files.rename(path, complete) : files.remove_all(path); });
  }
}

std::string shard_name(int rank) { return format("shard-{}.safetensors", rank); }

// Of a part of a tensor its name in the file, and what the file says of it.
std::pair<std::string, std::string> describe_part(const nn::Parameter& part) {
  const auto& held = part.placement;
  const int64_t begin = std::max<int64_t>(held.begin, 0);
  base::Json json = {{"of", part.name}, {"begin", begin}, {"shape", held.whole}};
  if (held.offset.empty()) return {format("{}@{}", part.name, begin), json.dump()};
  json["offset"] = held.offset, json["size"] = held.size;
  if (held.parts > 1) json["parts"] = held.parts, json["dim"] = held.dim;
  std::string place;
  for (const int64_t at : held.offset) place += format("{}{}", place.empty() ? "" : ",", at);
  return {format("{}@{}@{}", part.name, place, begin), json.dump()};
}

// A part is a tensor of its own in the file, of one dim; the metadata says what it is a part of.
ManifestFile write_shard(base::FileSystem& files, const Path& partial, const Snapshot& snapshot, int rank) {
  pass("checkpoint.before_shard", partial);
  std::vector<NamedTensor> tensors;
  Metadata metadata;
  for (const nn::Parameter& item : snapshot.tensors) {
    if (!item.placement.cut()) {
      tensors.push_back({item.name, item.tensor});
      continue;
    }
    auto [name, said] = describe_part(item);
    tensors.push_back({name, item.tensor.reshape(-1)});
    metadata[std::move(name)] = std::move(said);
  }
  return {shard_name(rank), write_safetensors(files, partial / shard_name(rank), tensors, metadata)};
}

void write_manifest(base::FileSystem& files, const Path& partial, const Snapshot& snapshot,
                    std::vector<ManifestFile> shards) {
  pass("checkpoint.before_manifest", partial);
  const Manifest manifest{snapshot.step, base::utc_text(base::real_clock().unix_seconds()), snapshot.version,
                          std::move(shards), snapshot.state};
  // Its rename also syncs the folder, and with it the shards' names.
  base::write_atomically(files, partial / kManifestName, manifest_text(manifest));
}

void put_in_place(base::FileSystem& files, const Path& partial, const Path& complete, int64_t step) {
  if (!files.exists(complete)) return files.rename(partial, complete);
  // A folder cannot be renamed over another. While neither bears the name, readers take the old one.
  const Path replaced = complete.parent_path() / step_folder_name(step, StepFolderKind::replaced);
  files.rename(complete, replaced);
  try {
    files.rename(partial, complete);
  } catch (const FileError&) {
    try_or_warn("put back " + complete.string(), [&] { files.rename(replaced, complete); });
    throw;
  }
  try_or_warn("remove " + replaced.string(), [&] { files.remove_all(replaced); });
}

// Of each `every` steps the first that is there.
std::set<int64_t> kept_for_ever(const std::vector<CheckpointEntry>& newest_first, int64_t every) {
  std::map<int64_t, int64_t> first;
  for (const CheckpointEntry& entry : newest_first)
    if (every > 0 && entry.step >= every) first[entry.step / every] = entry.step;
  std::set<int64_t> steps;
  for (const auto& [part, step] : first) steps.insert(step);
  return steps;
}

void remove_old(base::FileSystem& files, const Path& folder, const Snapshot& written, const Retention& retention) {
  const auto entries = list_checkpoints(files, folder);
  const auto for_ever = kept_for_ever(entries, retention.every);
  int64_t kept = 1;
  for (const CheckpointEntry& entry : entries) {
    if (entry.step == written.step || kept++ < retention.keep || entry.step == written.best ||
        for_ever.count(entry.step) != 0)
      continue;
    try_or_warn("remove " + entry.path.string(), [&] { discard(files, entry.path, entry.step); });
  }
}

// As a reader will find it, in all but the tensors' bytes: these were hashed on their way to a disk that took them.
void check_readable(base::FileSystem& files, const Path& partial) {
  try {
    open_checkpoint(files, partial);
  } catch (const base::CorruptError& error) {
    throw FileError(format("what was written does not read back: {}", error.what()), EIO);
  }
}

void write_and_place(base::FileSystem& files, const Path& partial, const Path& complete, const Snapshot& snapshot) {
  try {
    files.create_folders(partial);
    write_manifest(files, partial, snapshot, {write_shard(files, partial, snapshot, 0)});
    check_readable(files, partial);
    pass("checkpoint.before_rename", partial);
    put_in_place(files, partial, complete, snapshot.step);
  } catch (...) {
    try_or_warn("remove " + partial.string(), [&] { files.remove_all(partial); });
    throw;
  }
}

constexpr const char* kFailed = "the checkpoint could not be written by ";
constexpr const char* kUnharmed = "earlier checkpoints are as they were";

// One step of the common work.
template <class Work>
std::vector<std::string> all_do(comm::Group& ranks, Work work) {
  return together(ranks, kFailed, kUnharmed, work);
}

void write_together(base::FileSystem& files, const Path& folder, const Path& complete, const Snapshot& snapshot,
                    comm::Group& ranks) {
  const bool first = ranks.rank() == 0;
  Path partial;
  try {
    partial = all_do(ranks, [&]() -> std::string {
                if (!first) return {};
                sweep(files, folder);
                partial = folder / step_folder_name(snapshot.step, StepFolderKind::partial);
                files.create_folders(partial);
                return partial.string();
              }).front();
    const auto shards = together_for_long(
        ranks, kFailed, kUnharmed, [&] { return file_text(write_shard(files, partial, snapshot, ranks.rank())); });
    all_do(ranks, [&]() -> std::string {
      if (!first) return {};
      std::vector<ManifestFile> list;
      for (const std::string& text : shards) list.push_back(parse_file(text, "what a rank wrote"));
      write_manifest(files, partial, snapshot, std::move(list));
      check_readable(files, partial);
      pass("checkpoint.before_rename", partial);
      put_in_place(files, partial, complete, snapshot.step);
      return {};
    });
  } catch (...) {
    if (first && !partial.empty()) try_or_warn("remove " + partial.string(), [&] { files.remove_all(partial); });
    throw;
  }
}

}  // namespace

Path save_checkpoint(base::FileSystem& files, const Path& folder, const Snapshot& snapshot, const Retention& retention,
                     comm::Group* ranks) {
  HYPERION_CHECK(retention.keep >= 1 && snapshot.step >= 0, "a checkpoint needs keep >= 1 and step >= 0");
  const base::OperationScope scope("checkpoint.save");
  profile::Span span("checkpoint save");
  for (const auto& item : snapshot.tensors) span.add_bytes(static_cast<int64_t>(item.tensor.nbytes()));
  const Path partial = folder / step_folder_name(snapshot.step, StepFolderKind::partial);
  const Path complete = folder / step_folder_name(snapshot.step);
  const bool alone = ranks == nullptr || ranks->size() == 1;
  if (alone) sweep(files, folder);
  try {
    alone ? write_and_place(files, partial, complete, snapshot)
          : write_together(files, folder, complete, snapshot, *ranks);
  } catch (const FileError& error) {
    if (!error.hint().empty()) throw;
    throw with_hint(error);
  }
  base::fault_point("checkpoint.after_rename");
  if (alone || ranks->rank() == 0)
    try_or_warn("look for old checkpoints in " + folder.string(),
                [&] { remove_old(files, folder, snapshot, retention); });
  return complete;
}

void replace_state(base::FileSystem& files, const Path& step_folder, const std::string& state) {
  const Path path = step_folder / kManifestName;
  Manifest manifest = parse_manifest(base::read_description(files, path), path.string());
  manifest.state = state;
  base::write_atomically(files, path, manifest_text(manifest));
}

}  // namespace hyperion::checkpoint
