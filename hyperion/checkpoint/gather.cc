#include "hyperion/checkpoint/gather.h"

#include <cerrno>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/safetensors_writer.h"

namespace hyperion::checkpoint {
namespace {

constexpr uint64_t kHeaderRoom = uint64_t{1} << 20;

void check_room(const base::Path& path, uint64_t bytes) {
  std::error_code unknown;
  const auto folder = std::filesystem::absolute(path).parent_path();
  const auto space = std::filesystem::space(folder, unknown);
  if (!unknown && space.available < bytes)
    throw base::FileError(base::format("{} takes {}, and {} has {} free", path.string(), base::bytes_text(bytes),
                                       folder.string(), base::bytes_text(space.available)),
                          ENOSPC, "free some space, or name a file on another disk");
}

}  // namespace

Gathered gather_into_file(base::FileSystem& files, const OpenedCheckpoint& from, const base::Path& named,
                          bool optimizer) {
  const base::Path path = base::output_file(named, ".safetensors");
  const TensorSet set = tensors_of(from);
  Gathered gathered{path};
  uint64_t bytes = 0;
  for (const auto& [name, stored] : set.tensors)
    if (optimizer || set.is_weight(name)) bytes += stored.bytes;
  check_room(path, bytes + kHeaderRoom);
  ReadingLine progress("gathering " + from.path.string());
  int64_t done = 0;
  std::vector<TensorToWrite> tensors;
  for (const auto& [name, stored] : set.tensors) {
    if (!optimizer && !set.is_weight(name)) continue;
    tensors.push_back({set.plain_name(name), stored.type, stored.shape, [&, &stored = stored] {
                         auto tensor = stored.read();
                         progress.show(done += static_cast<int64_t>(stored.bytes), static_cast<int64_t>(bytes));
                         return tensor;
                       }});
  }
  gathered.tensors = tensors.size();
  gathered.bytes =
      replace_in_turn(files, path, tensors, {{"format", "pt"}, {"hyperion.step", base::format("{}", from.step)}});
  return gathered;
}

}  // namespace hyperion::checkpoint
