#include "hyperion/checkpoint/save.h"

#include <cerrno>
#include <cstring>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/step_folder.h"

namespace hyperion::checkpoint {
namespace {

using base::FileError;
using base::format;
using base::Path;

constexpr const char* kShardName = "shard-0.safetensors";
constexpr const char* kFullDiskHint =
    "free some space, lower the number of checkpoints kept, or choose another folder with HYPERION_RUNS";

void pass(const char* point, const Path& path) {
  if (base::fault_point(point) == base::Fault::disk_full)
    throw FileError(format("cannot write {}", path.string()), ENOSPC, kFullDiskHint);
}

FileError with_hint(const FileError& error) {
  const bool full = error.code() == ENOSPC || error.code() == EDQUOT;
  // A FileError adds the system's words for its code; they are already there.
  std::string what = error.what();
  const std::string words = format(": {}", std::strerror(error.code()));
  if (what.ends_with(words)) what.resize(what.size() - words.size());
  return {what, error.code(), full ? kFullDiskHint : "check the disk; earlier checkpoints are as they were"};
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

void write_content(base::FileSystem& files, const Path& partial, const Snapshot& snapshot) {
  files.create_folders(partial);
  pass("checkpoint.before_shard", partial);
  const WrittenFile shard = write_safetensors(files, partial / kShardName, snapshot.tensors);
  pass("checkpoint.before_manifest", partial);
  const Manifest manifest{snapshot.step,
                          base::utc_text(base::real_clock().unix_seconds()),
                          snapshot.version,
                          {{kShardName, shard.bytes, shard.xxh3_128}},
                          snapshot.state};
  // Its rename also syncs the folder, and with it the shard's name.
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

void remove_old(base::FileSystem& files, const Path& folder, int64_t written, int64_t keep) {
  int64_t kept = 1;
  for (const CheckpointEntry& entry : list_checkpoints(files, folder)) {
    if (entry.step == written || kept++ < keep) continue;
    try_or_warn("remove " + entry.path.string(), [&] { discard(files, entry.path, entry.step); });
  }
}

void write_and_place(base::FileSystem& files, const Path& partial, const Path& complete, const Snapshot& snapshot) {
  try {
    write_content(files, partial, snapshot);
    pass("checkpoint.before_rename", partial);
    put_in_place(files, partial, complete, snapshot.step);
  } catch (...) {
    try_or_warn("remove " + partial.string(), [&] { files.remove_all(partial); });
    throw;
  }
}

}  // namespace

Path save_checkpoint(base::FileSystem& files, const Path& folder, const Snapshot& snapshot, int64_t keep) {
  HYPERION_CHECK(keep >= 1 && snapshot.step >= 0, "a checkpoint needs keep >= 1 and step >= 0");
  const base::OperationScope scope("checkpoint.save");
  const Path partial = folder / step_folder_name(snapshot.step, StepFolderKind::partial);
  const Path complete = folder / step_folder_name(snapshot.step);
  sweep(files, folder);
  try {
    write_and_place(files, partial, complete, snapshot);
  } catch (const FileError& error) {
    if (!error.hint().empty()) throw;
    throw with_hint(error);
  }
  pass("checkpoint.after_rename", complete);
  remove_old(files, folder, snapshot.step, keep);
  return complete;
}

}  // namespace hyperion::checkpoint
