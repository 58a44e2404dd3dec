// manifest.json, written last into a checkpoint: what the step was, and size and hashes of every other file. Its own
// last member is a checksum over all bytes before it, so that a flipped bit in the manifest is found too.
#pragma once
#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

struct ManifestFile {
  std::string name;  // plain, in the manifest's folder
  FileHashes hashes;
};

// 1 has one hash a file, over all of it; 2 has blocks.
inline constexpr uint64_t kOldestFormat = 1, kFormat = 2;

struct Manifest {
  int64_t step = 0;
  std::string created;  // UTC, "2026-11-15T01:40:00Z"
  std::string version;  // of the program that wrote it
  std::vector<ManifestFile> files;
  std::string state = "{}";  // a JSON object of the caller's: schedule, cursor, seed
  uint64_t format = kFormat;
};

std::string manifest_text(const Manifest& manifest);

// Checks the checksum, then every member. Throws CorruptError that names `place` and what is wrong.
Manifest parse_manifest(std::string_view text, const std::string& place);

// What it says of one file, for those who write theirs to tell whoever writes the manifest.
std::string file_text(const ManifestFile& file);
ManifestFile parse_file(std::string_view text, const std::string& place);

}  // namespace hyperion::checkpoint
