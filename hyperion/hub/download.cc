#include "hyperion/hub/download.h"

#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/hub/blob_hash.h"

namespace hyperion::hub {
namespace {

using base::CorruptError;
using base::format;
using base::Path;

constexpr int kMostTries = 5;  // one after the other without a byte
constexpr const char* kDoing = "fetching";

Path incomplete_path(const Path& folder, const RemoteFile& file) {
  return blob_path(folder, file).string() + ".incomplete";
}

void wait_a_while(std::chrono::milliseconds time) {
  for (constexpr std::chrono::milliseconds kStep(50); time.count() > 0; time -= kStep) {
    base::throw_if_stopped(kDoing);
    std::this_thread::sleep_for(kStep);
  }
}

// What is there of a file, at its end the hash of it.
class BlobPart {
 public:
  BlobPart(base::FileSystem& files, Path path, const RemoteFile& file)
      : files_(files), path_(std::move(path)), file_(file) {
    hash_.emplace(file.hash, file.size);
    if (files.exists(path_) && files.size(path_) > file.size) files.resize(path_, 0);
    out_ = files.open_append(path_);
    base::read_in_pieces(path_, [&](std::string_view bytes) {
      base::throw_if_stopped(kDoing);
      hash_->update(bytes), have_ += bytes.size();
    });
  }

  uint64_t have() const { return have_; }

  void restart() {
    files_.resize(path_, 0);
    hash_.emplace(file_.hash, file_.size);
    have_ = 0;
  }

  void append(std::string_view bytes) {
    if (bytes.size() > file_.size - have_) refuse(format("is longer than the {} bytes told", file_.size));
    out_->append(bytes);
    hash_->update(bytes), have_ += bytes.size();
  }

  void finish(const Path& blob) {
    if (const std::string hash = hash_->hex(); hash != file_.hash)
      refuse(format("has the hash {}, and should have {}", hash, file_.hash));
    out_->sync();
    out_.reset();
    files_.rename(path_, blob);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) {
    out_.reset();
    files_.remove_all(path_);
    throw CorruptError(format("{} as it came {}; it was removed", file_.name, what),
                       "try again; where it stays so, what is between here and the hub (HF_ENDPOINT) changes files");
  }

  base::FileSystem& files_;
  Path path_;
  const RemoteFile& file_;
  std::unique_ptr<base::WritableFile> out_;
  std::optional<BlobHash> hash_;
  uint64_t have_ = 0;
};

// The bytes that are missing. A server that does not know ranges sends all, one that mistakes ours is not believed.
void fetch_rest(const BlobSource& source, const RemoteFile& file, BlobPart& part,
                const std::function<void(uint64_t)>& told) {
  Request request{file_address(source.client, source.repo, source.commit, file.name)};
  request.from = part.have();
  bool first = true;
  const auto response = source.client.send(request, [&](const Response& answer, std::string_view bytes) {
    if (first && request.from > 0) {
      const bool goes_on = answer.header("content-range").starts_with(format("bytes {}-", request.from));
      if (answer.status != 206 || !goes_on) part.restart();
      if (answer.status == 206 && !goes_on)
        throw NetworkError(format("{}: other bytes came than asked for", file.name));
    }
    first = false;
    part.append(bytes);
    told(part.have());
  });
  expect_good(response, source.client, source.repo, source.repo.text() + "/" + file.name);
  if (part.have() < file.size)
    throw NetworkError(format("{} ended after {} of {} bytes", file.name, part.have(), file.size),
                       "try again: it goes on where it was");
}

void fetch_whole(const BlobSource& source, const RemoteFile& file, BlobPart& part,
                 const std::function<void(uint64_t)>& told) {
  for (int failures = 0; part.have() < file.size;) {
    const uint64_t before = part.have();
    try {
      fetch_rest(source, file, part, told);
    } catch (const NetworkError& error) {
      failures = part.have() > before ? 1 : failures + 1;
      if (failures >= kMostTries) throw;
      base::log_warn(format("{}; trying again", error.what()));
      wait_a_while(std::chrono::milliseconds(250) * (1 << failures));
    }
  }
}

std::unique_ptr<base::FileLock> wait_for_lock(const Path& path, const std::string& what) {
  for (bool said = false;; said = true) {
    try {
      return std::make_unique<base::FileLock>(path, what);
    } catch (const base::ConfigError&) {  // another process holds it
      if (!said) base::log_info(format("{} is being fetched by another process; waiting for it", what));
      wait_a_while(std::chrono::milliseconds(200));
    }
  }
}

}  // namespace

Path blob_path(const Path& folder, const RemoteFile& file) { return folder / "blobs" / file.hash; }

bool has_blob(base::FileSystem& files, const Path& folder, const RemoteFile& file) {
  const Path blob = blob_path(folder, file);
  return files.exists(blob) && files.size(blob) == file.size;
}

uint64_t bytes_begun(base::FileSystem& files, const Path& folder, const RemoteFile& file) {
  const Path path = incomplete_path(folder, file);
  const uint64_t bytes = files.exists(path) ? files.size(path) : 0;
  return bytes <= file.size ? bytes : 0;
}

void fetch_blob(const BlobSource& source, const RemoteFile& file, const std::function<void(uint64_t)>& told) {
  auto& files = source.files;
  if (has_blob(files, source.folder, file)) return;
  const Path locks = source.folder.parent_path() / ".locks" / source.folder.filename();
  files.create_folders(locks);
  files.create_folders(source.folder / "blobs");
  const auto lock = wait_for_lock(locks / (file.hash + ".lock"), file.name);
  if (has_blob(files, source.folder, file)) return;
  try {
    BlobPart part(files, incomplete_path(source.folder, file), file);
    fetch_whole(source, file, part, told);
    part.finish(blob_path(source.folder, file));
  } catch (const base::FileError& error) {
    if (error.code() != ENOSPC && error.code() != EDQUOT) throw;
    throw base::Error(error.what(),
                      "free some space, or choose another cache (HF_HUB_CACHE); the same command goes on "
                      "where it was");
  }
}

}  // namespace hyperion::hub
