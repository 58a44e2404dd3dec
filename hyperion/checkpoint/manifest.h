// manifest.json, written last into a checkpoint: what the step was, and the size and hash of every other file. Its own
// last member is a checksum over all bytes before it, so that a flipped bit in the manifest is found too.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::checkpoint {

struct ManifestFile {
  std::string name;  // plain, in the manifest's folder
  uint64_t bytes = 0;
  std::string xxh3_128;
};

struct Manifest {
  int64_t step = 0;
  std::string created;  // UTC, "2026-11-15T01:40:00Z"
  std::string version;  // of the program that wrote it
  std::vector<ManifestFile> files;
  std::string state = "{}";  // a JSON object of the caller's: schedule, cursor, seed
};

std::string manifest_text(const Manifest& manifest);

// Checks the checksum, then every member. Throws CorruptError that names `place` and what is wrong.
Manifest parse_manifest(std::string_view text, const std::string& place);

// Throws CorruptError that names `place` and says whether size or hash differs. Shows a progress line where it takes
// long.
void verify_content(const ManifestFile& expected, std::string_view content, const std::string& place);

}  // namespace hyperion::checkpoint
