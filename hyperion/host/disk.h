// The disk under a folder: room, kind, and how fast it takes bytes that stay.
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/base/clock.h"
#include "hyperion/base/files.h"

namespace hyperion::host {

struct Disk {
  base::Path folder;                   // the folder asked for, or its nearest parent that exists
  uint64_t total = 0, free = 0;        // bytes; free for this user
  std::string filesystem = "unknown";  // "ext4", "overlay", "nfs4", "tmpfs" ...
  bool writable = false;
  std::string not_writable_because;  // empty where writable
};

// Never throws for what the disk is like: an absent or refused folder is a Disk that is not writable, with the reason.
Disk disk_of(const base::Path& folder, const base::Path& root = "/");

// The type of the mount that holds `path` (absolute, real), from the text of /proc/self/mountinfo.
std::string filesystem_of(const base::Path& path, const std::string& mountinfo);

struct WriteSpeed {
  uint64_t bytes = 0;  // how many were written to measure it; 0: too little space to try
  double bytes_per_second = 0;
};

// How many bytes to try with where `free` are left: 64 MiB, or a quarter of the room, 0 below 4 MiB.
uint64_t trial_bytes(uint64_t free);

// Writes `bytes` that do not compress to a file in `folder` and syncs them, timed together. The file loses its name
// before its first byte, so nothing stays behind even after a kill. Throws FileError where the disk refuses.
WriteSpeed measure_write(base::FileSystem& files, const base::Clock& clock, const base::Path& folder, uint64_t bytes);

}  // namespace hyperion::host
