#include "hyperion/hub/fetch.h"

#include <algorithm>
#include <cstdlib>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/host/disk.h"
#include "hyperion/hub/cache.h"
#include "hyperion/hub/download.h"

namespace hyperion::hub {
namespace {

using base::format;
using base::Path;

constexpr const char* kHub = "https://huggingface.co";

std::string endpoint() {
  const char* said = std::getenv("HF_ENDPOINT");
  return said != nullptr && *said != '\0' ? said : kHub;
}

void refuse_offline() {
  const char* said = std::getenv("HF_HUB_OFFLINE");
  std::string value = said == nullptr ? "" : said;
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (value == "1" || value == "on" || value == "yes" || value == "true")
    throw base::ConfigError(format("nothing is fetched: HF_HUB_OFFLINE = {}", said), "unset it to fetch");
}

// Bytes that are still to come, each blob once.
uint64_t bytes_missing(base::FileSystem& files, const Path& folder, const std::vector<RemoteFile>& wanted) {
  std::map<std::string, uint64_t> missing;
  for (const auto& file : wanted)
    if (!has_blob(files, folder, file)) missing[file.hash] = file.size - bytes_begun(files, folder, file);
  uint64_t bytes = 0;
  for (const auto& [hash, size] : missing)
    if (__builtin_add_overflow(bytes, size, &bytes)) return UINT64_MAX;
  return bytes;
}

void check_room(const Path& folder, uint64_t bytes, const std::string& name) {
  const auto disk = host::disk_of(folder);
  if (bytes > disk.free)
    throw base::PreflightError(format("{} still needs {}, and {} has room for {}", name, base::bytes_text(bytes),
                                      disk.folder.string(), base::bytes_text(disk.free)),
                               "free some space, or choose another cache (HF_HUB_CACHE)");
}

// The link gets its name whole, over whatever had it.
void link_blob(base::FileSystem& files, const Path& folder, const Path& snapshot, const RemoteFile& file) {
  const Path blob = blob_path(folder, file), link = snapshot / file.name;
  std::error_code error;
  if (std::filesystem::equivalent(link, blob, error)) return;
  files.create_folders(link.parent_path());
  const Path target =
      (folder / "blobs")
          .lexically_relative(folder / "snapshots" / snapshot.filename() / Path(file.name).parent_path()) /
      file.hash;
  const Path beside = base::partial_path(link);
  std::filesystem::create_symlink(target, beside, error);
  if (error)
    throw base::FileError(format("cannot link {}", link.string()), error.value(),
                          "choose a cache on a disk that knows symbolic links (HF_HUB_CACHE)");
  files.rename(beside, link);
}

void note_revision(base::FileSystem& files, const Path& folder, const Repo& repo, const std::string& commit) {
  if (is_commit(repo.revision)) return;
  const Path ref = folder / "refs" / repo.revision;
  files.create_folders(ref.parent_path());
  base::write_atomically(files, ref, commit);
}

}  // namespace

Fetched fetch(base::FileSystem& files, const FetchRequest& request,
              const std::function<void(const FetchProgress&)>& progress) {
  refuse_offline();
  const Repo& repo = request.repo;
  if (cache_folder().empty())
    throw base::ConfigError("where Hugging Face's cache lies is not known", "set HF_HOME to a folder");
  const HttpClient client(endpoint(), read_token(files), request.allow_http);
  const Listing listing = list_repo(client, repo);
  auto wanted = wanted_files(repo, listing.files, request.only);
  for (auto& file : wanted) ask_of_file(client, repo, listing.commit, file);
  // Whoever looks for a model looks for its configuration: it comes last.
  std::stable_partition(wanted.begin(), wanted.end(), [](const auto& file) { return file.name != "config.json"; });

  const Path folder = std::filesystem::absolute(repo_folder(repo)).lexically_normal();
  const uint64_t missing = bytes_missing(files, folder, wanted);
  check_room(folder, missing, repo.text());
  Fetched fetched{folder / "snapshots" / listing.commit, listing.commit, wanted.size(), 0, missing};
  uint64_t done = 0;
  const BlobSource source{files, client, repo, listing.commit, folder};
  for (const auto& file : wanted) {
    base::throw_if_stopped("fetching");
    const uint64_t begun = bytes_begun(files, folder, file);
    uint64_t come = 0;
    fetch_blob(source, file, [&](uint64_t have) {
      come = have > begun ? have - begun : 0;
      progress({file.name, done + come, missing});
    });
    done += come;
    fetched.bytes += file.size;
  }
  for (const auto& file : wanted) link_blob(files, folder, fetched.snapshot, file);
  note_revision(files, folder, repo, listing.commit);
  return fetched;
}

}  // namespace hyperion::hub
