#include "hyperion/checkpoint/damage.h"

#include <algorithm>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/read_file.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/manifest.h"
#include "hyperion/checkpoint/reading_line.h"
#include "hyperion/checkpoint/step_folder.h"

namespace hyperion::checkpoint {
namespace {

class Verifier {
 public:
  Verifier(base::FileSystem& files, const base::Path& folder)
      : files_(files), folder_(folder), progress_("verifying " + folder.string()) {}

  Verified run() {
    std::optional<Manifest> manifest;
    attempt([&] {
      const base::Path path = folder_ / kManifestName;
      const std::string text = base::read_description(files_, path);
      found_.bytes += text.size();
      manifest = parse_manifest(text, path.string());
    });
    if (!manifest) return found_;
    for (const ManifestFile& file : manifest->files) all_ += static_cast<int64_t>(file.hashes.bytes);
    for (const ManifestFile& file : manifest->files) attempt([&] { read(file); });
    if (found_.damage.empty()) attempt([&] { open_checkpoint(files_, folder_); });  // the parts fit
    return found_;
  }

 private:
  template <class Work>
  void attempt(Work work) {
    try {
      work();
    } catch (const base::Error& error) {
      found_.damage.emplace_back(error.what());
    }
  }

  void read(const ManifestFile& file) {
    const Shard shard(folder_ / file.name, file.hashes);
    found_.bytes += file.hashes.header_bytes;
    if (file.hashes.blocks.empty()) return;  // its one hash was of all of it
    for (const std::string& name : shard.file().names()) {
      const auto bytes = static_cast<int64_t>(shard.file().bytes(name).size());
      for (int64_t at = 0; at < bytes; at += shard.block_bytes()) {
        const int64_t end = std::min(bytes, at + shard.block_bytes());
        attempt([&] { shard.verify(name, at, end); });
        found_.bytes += static_cast<uint64_t>(end - at);
        progress_.show(static_cast<int64_t>(found_.bytes), all_);
      }
    }
  }

  base::FileSystem& files_;
  base::Path folder_;
  ReadingLine progress_;
  int64_t all_ = 0;
  Verified found_;
};

}  // namespace

Verified verify_checkpoint(base::FileSystem& files, const base::Path& step_folder) {
  return Verifier(files, step_folder).run();
}

}  // namespace hyperion::checkpoint
