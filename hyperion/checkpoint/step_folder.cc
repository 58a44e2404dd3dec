#include "hyperion/checkpoint/step_folder.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"

namespace hyperion::checkpoint {
namespace {

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// Decimal as we write it: no sign, no leading zero.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const size_t digits = end - text.data();
  if (error != std::errc() || text[0] == '-' || (text[0] == '0' && digits > 1)) return {};
  text.remove_prefix(digits);
  return number;
}

CheckpointEntry describe(base::FileSystem& files, int64_t step, const base::Path& path) {
  CheckpointEntry entry{step, path, 0, {}};
  const base::Path manifest_path = path / kManifestName;
  try {
    const std::string text = base::read_description(files, manifest_path);
    const Manifest manifest = parse_manifest(text, manifest_path.string());
    entry.bytes = text.size();
    for (const ManifestFile& file : manifest.files) entry.bytes += file.hashes.bytes;
    entry.created = manifest.created;
  } catch (const base::Error&) {
    // Listed all the same: loading it tells what is wrong.
  }
  return entry;
}

}  // namespace

std::string step_folder_name(int64_t step, StepFolderKind kind) {
  if (kind == StepFolderKind::complete) return base::format("step-{}", step);
  return base::format(".step-{}.{}-{}", step, kind == StepFolderKind::partial ? "partial" : "replaced", ::getpid());
}

std::optional<StepFolderName> parse_step_folder(const std::string& name) {
  std::string_view rest = name;
  const bool hidden = take(rest, ".");
  if (!take(rest, "step-")) return {};
  const auto step = take_number(rest);
  if (!step) return {};
  if (!hidden) return rest.empty() ? std::optional(StepFolderName{*step, StepFolderKind::complete}) : std::nullopt;
  const bool partial = take(rest, ".partial-");
  if (!partial && !take(rest, ".replaced-")) return {};
  if (!take_number(rest) || !rest.empty()) return {};
  return StepFolderName{*step, partial ? StepFolderKind::partial : StepFolderKind::replaced};
}

std::vector<CheckpointEntry> list_checkpoints(base::FileSystem& files, const base::Path& folder) {
  std::map<int64_t, base::Path, std::greater<>> newest_first;
  for (const base::Path& path : files.list(folder)) {
    const auto name = parse_step_folder(path.filename().string());
    if (!name || name->kind == StepFolderKind::partial || !files.exists(path / kManifestName)) continue;
    if (name->kind == StepFolderKind::complete)
      newest_first[name->step] = path;
    else
      newest_first.try_emplace(name->step, path);
  }
  std::vector<CheckpointEntry> entries;
  for (const auto& [step, path] : newest_first) entries.push_back(describe(files, step, path));
  return entries;
}

}  // namespace hyperion::checkpoint
