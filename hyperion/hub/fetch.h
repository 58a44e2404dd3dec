// `hyperion fetch`: a model or a set of the hub, brought into Hugging Face's cache as huggingface_hub would.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/hub/repo.h"

namespace hyperion::hub {

struct FetchRequest {
  Repo repo;
  std::vector<std::string> only;  // patterns of file names, of which one must fit; empty: all that is of use
  bool allow_http = false;        // also from another machine, in the open
};

struct FetchProgress {
  std::string file;
  uint64_t bytes = 0, bytes_in_all = 0;  // of what was not there
};

struct Fetched {
  base::Path snapshot;  // the folder, absolute
  std::string commit;
  size_t files = 0;
  uint64_t bytes = 0, bytes_fetched = 0;
};

// Files become visible in the snapshot, and the revision is noted, once all have been fetched and verified. Throws
// ConfigError for what the hub refuses or has not, NetworkError, CorruptError for a wrong hash, PreflightError where
// the disk has no room for it, Interrupted: the next call goes on where it was.
Fetched fetch(base::FileSystem& files, const FetchRequest& request,
              const std::function<void(const FetchProgress&)>& progress);

}  // namespace hyperion::hub
