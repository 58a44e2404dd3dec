// One file of a repository, fetched into blobs/ of its folder in the cache under the name of its hash.
#pragma once
#include <functional>
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/hub/listing.h"

namespace hyperion::hub {

struct BlobSource {
  base::FileSystem& files;
  const HttpClient& client;
  const Repo& repo;
  std::string commit;
  base::Path folder;  // the repository's, with blobs/ in it
};

base::Path blob_path(const base::Path& folder, const RemoteFile& file);

// Whether it is there whole.
bool has_blob(base::FileSystem& files, const base::Path& folder, const RemoteFile& file);

// How many of its bytes an earlier fetch that was stopped has left.
uint64_t bytes_begun(base::FileSystem& files, const base::Path& folder, const RemoteFile& file);

// Goes on where an earlier fetch was stopped or killed, tries again when the network fails, and waits for another
// process that fetches the same (huggingface_hub's locks). The bytes get their name once their number and hash are
// right; wrong ones are removed, and a CorruptError. `told` hears how many bytes are there.
void fetch_blob(const BlobSource& source, const RemoteFile& file, const std::function<void(uint64_t)>& told);

}  // namespace hyperion::hub
