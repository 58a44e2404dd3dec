// Files that are read whole, with the reader's own limit on how long one may be.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::base {

// What describes something else, as config.json, manifest.json and an index do, is never longer than this.
constexpr uint64_t kLongestDescription = uint64_t{64} << 20;

// A regular file of at most `most` bytes; anything else is a FileError, so that no pipe, device or giant can hang the
// program or fill its memory.
std::string read_at_most(FileSystem& files, const Path& path, uint64_t most);
inline std::string read_description(FileSystem& files, const Path& path) {
  return read_at_most(files, path, kLongestDescription);
}

// What a user names to be read once: a file, or a pipe as from <(...), to its end. Longer than `most` is a FileError.
std::string read_to_end(const Path& path, uint64_t most = kLongestDescription);

}  // namespace hyperion::base
