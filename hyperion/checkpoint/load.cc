#include "hyperion/checkpoint/load.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/profile/span.h"

namespace hyperion::checkpoint {
namespace {

using base::CorruptError;
using base::format;
using base::Path;

// A folder renamed by hand would otherwise change which checkpoint is the newest.
void check_step(const Path& step_folder, int64_t step) {
  const auto name = parse_step_folder(step_folder.filename().string());
  if (name && name->step != step)
    throw CorruptError(format("{} holds the manifest of step {}", step_folder.string(), step));
}

// What a file says one of its tensors is a part of.
struct Origin {
  std::string of;
  strategy::Placement placement;
};

int64_t count_of(const std::vector<int64_t>& shape, const std::string& place) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && count > kMost / size)) throw CorruptError(place + " names an impossible shape");
    count *= size;
  }
  return count;
}

// `count`: how many elements the part has.
void check_placement(const strategy::Placement& placement, int64_t count, const std::string& place) {
  const auto& whole = placement.whole;
  const auto& offset = placement.offset;
  const auto& size = placement.size;
  const int64_t begin = placement.begin, parts = placement.parts, across = placement.dim;
  int64_t room = count_of(whole, place);
  if (!offset.empty() || !size.empty()) {
    bool inside = offset.size() == whole.size() && size.size() == whole.size() && parts > 0 && across >= 0 &&
                  across < std::ssize(whole) && whole[static_cast<size_t>(across)] % parts == 0;
    for (size_t dim = 0; inside && dim < whole.size(); ++dim) {
      const int64_t length = static_cast<int64_t>(dim) == across ? whole[dim] / parts : whole[dim];
      inside = offset[dim] >= 0 && size[dim] > 0 && offset[dim] <= length - size[dim];
    }
    if (!inside) throw CorruptError(place + " is of a box that is not inside its tensor");
    room = count_of(size, place) * parts;
  }
  if (begin < 0) throw CorruptError(place + " begins before its tensor");
  if (count > room || begin > room - count) throw CorruptError(place + " reaches beyond its tensor");
}

Origin origin_of(const std::string& text, const std::string& place) {
  try {
    const auto json = base::parse_json(text, place);
    Origin origin{json.at("of").get<std::string>(), {}};
    origin.placement.whole = json.at("shape").get<std::vector<int64_t>>();
    origin.placement.begin = json.at("begin").get<int64_t>();
    if (!json.contains("offset") && !json.contains("size")) return origin;
    origin.placement.offset = json.at("offset").get<std::vector<int64_t>>();
    origin.placement.size = json.at("size").get<std::vector<int64_t>>();
    if (!json.contains("parts") && !json.contains("dim")) return origin;
    origin.placement.parts = json.at("parts").get<int64_t>();
    origin.placement.dim = json.at("dim").get<int64_t>();
    return origin;
  } catch (const nlohmann::json::exception&) {
    throw CorruptError(place + " does not say what it is a slice of");
  }
}

void add_piece(OpenedCheckpoint& opened, const std::shared_ptr<const Shard>& shard, const std::string& stored) {
  const SafetensorsFile& file = shard->file();
  const auto& shape = file.shape(stored);
  const at::ScalarType type = file.dtype(stored);
  const std::string place = format("{}: slice \"{}\"", shard->path().string(), stored);
  const int64_t count = count_of(shape, place);
  const auto cut = file.metadata().find(stored);
  if (cut == file.metadata().end()) {
    const auto [entry, fresh] =
        opened.tensors.try_emplace(stored, OpenedCheckpoint::Entry{shape, type, {}, /*whole=*/true});
    if (!fresh && !entry->second.whole)
      throw CorruptError(format("{}: tensor \"{}\" is there whole and in slices", opened.path.string(), stored));
    if (!fresh)
      throw CorruptError(format("{}: tensor \"{}\" is also in another shard", shard->path().string(), stored));
    entry->second.pieces.push_back({shard, stored, strategy::runs_of({}, count)});
    return;
  }
  const Origin origin = origin_of(cut->second, place);
  check_placement(origin.placement, count, place);
  const auto [entry, fresh] =
      opened.tensors.try_emplace(origin.of, OpenedCheckpoint::Entry{origin.placement.whole, type, {}, /*whole=*/false});
  OpenedCheckpoint::Entry& whole = entry->second;
  if (whole.whole)
    throw CorruptError(format("{}: tensor \"{}\" is there whole and in slices", opened.path.string(), origin.of));
  if (whole.shape != origin.placement.whole || whole.type != type || shape.size() != 1)
    throw CorruptError(place + " is not of the tensor that the others are of");
  whole.pieces.push_back({shard, stored, strategy::runs_of(origin.placement, count)});
}

// Every element of a tensor is in one piece.
void check_complete(const OpenedCheckpoint& opened, const std::string& name, const OpenedCheckpoint::Entry& entry) {
  std::vector<strategy::Run> runs;
  for (const auto& piece : entry.pieces) runs.insert(runs.end(), piece.runs.begin(), piece.runs.end());
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.whole < b.whole; });
  int64_t end = 0;
  for (const auto& run : runs) {
    if (run.whole != end)
      throw CorruptError(format("{}: the slices of tensor \"{}\" leave a hole or overlap at element {}",
                                opened.path.string(), name, std::min(run.whole, end)));
    end += run.count;
  }
  if (const int64_t count = count_of(entry.shape, name); end != count)
    throw CorruptError(
        format("{}: the slices of tensor \"{}\" hold {} of its {} elements", opened.path.string(), name, end, count));
}

}  // namespace

const OpenedCheckpoint::Entry& OpenedCheckpoint::entry(const std::string& name) const {
  if (const auto found = tensors.find(name); found != tensors.end()) return found->second;
  throw CorruptError(format("{} holds no tensor \"{}\"", path.string(), name));
}

at::Tensor OpenedCheckpoint::tensor(const std::string& name) const {
  const Entry& found = entry(name);
  if (found.whole) {
    const Piece& piece = found.pieces.front();
    piece.shard->verify(piece.stored, 0, INT64_MAX);
    return piece.shard->file().tensor(piece.stored);
  }
  const auto together = at::empty(found.shape, found.type);
  copy_stretch(name, 0, together.view(-1));
  return together;
}

void OpenedCheckpoint::copy_stretch(const std::string& name, int64_t begin, const at::Tensor& out) const {
  const Entry& found = entry(name);
  const auto wanted = strategy::runs_of({found.shape, begin}, out.numel());
  const auto bytes = static_cast<int64_t>(c10::elementSize(found.type));
  for (const Piece& piece : found.pieces)
    for (const auto& [from, to, count] : strategy::overlaps_of(piece.runs, wanted)) {
      piece.shard->verify(piece.stored, from * bytes, (from + count) * bytes);
      out.narrow(0, to, count).copy_(piece.shard->file().tensor(piece.stored).view(-1).narrow(0, from, count));
    }
}

void OpenedCheckpoint::verify(const std::string& prefix) const {
  int64_t all = 0, done = 0;
  const auto each = [&](const auto& use) {
    for (const auto& [name, entry] : tensors)
      if (name.starts_with(prefix))
        for (const Piece& piece : entry.pieces)
          use(piece, static_cast<int64_t>(piece.shard->file().bytes(piece.stored).size()));
  };
  each([&](const Piece&, int64_t bytes) { all += bytes; });
  ReadingLine progress("verifying " + path.string());
  each([&](const Piece& piece, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += piece.shard->block_bytes()) {
      const int64_t end = std::min(bytes, at + piece.shard->block_bytes());
      piece.shard->verify(piece.stored, at, end);
      progress.show(done += end - at, all);
    }
  });
}

OpenedCheckpoint open_checkpoint(base::FileSystem& files, const Path& step_folder) {
  const base::OperationScope scope("checkpoint.load");
  const profile::Span span("checkpoint open");
  const Path manifest_path = step_folder / kManifestName;
  Manifest manifest = parse_manifest(base::read_description(files, manifest_path), manifest_path.string());
  check_step(step_folder, manifest.step);
  OpenedCheckpoint opened;
  opened.step = manifest.step;
  opened.path = step_folder;
  opened.created = std::move(manifest.created);
  opened.version = std::move(manifest.version);
  opened.state = std::move(manifest.state);
  for (ManifestFile& file : manifest.files) {
    const auto shard = std::make_shared<const Shard>(step_folder / file.name, std::move(file.hashes));
    for (const std::string& name : shard->file().names()) add_piece(opened, shard, name);
  }
  for (const auto& [name, entry] : opened.tensors)
    if (!entry.whole) check_complete(opened, name, entry);
  return opened;
}

OpenedCheckpoint open_newest(base::FileSystem& files, const Path& folder,
                             const std::function<void(const OpenedCheckpoint&)>& check, int64_t before) {
  auto entries = list_checkpoints(files, folder);
  std::erase_if(entries, [&](const CheckpointEntry& entry) { return entry.step >= before; });
  if (entries.empty())
    throw base::ConfigError(format("no checkpoint in {}", folder.string()), "name a run that has saved at least one");
  std::string wrong;
  for (size_t i = 0; i < entries.size(); ++i) {
    try {
      auto opened = open_checkpoint(files, entries[i].path);
      if (check) check(opened);
      return opened;
    } catch (const base::Error& error) {
      // A run that goes on saving may have removed or replaced it since it was listed: there is a newer one now.
      if (!files.exists(entries[i].path)) return open_newest(files, folder, check, before);
      wrong += format("\n  step {}: {}", entries[i].step, error.what());
      if (i + 1 < entries.size())
        base::log_warn(format("checkpoint of step {} is bad, falling back to step {}: {}", entries[i].step,
                              entries[i + 1].step, error.what()));
    }
  }
  throw CorruptError(format("no checkpoint in {} is good:{}", folder.string(), wrong),
                     "restore a checkpoint folder from a copy, or start a new run");
}

}  // namespace hyperion::checkpoint
