#include "hyperion/checkpoint/shard.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"

namespace hyperion::checkpoint {
namespace {

using base::CorruptError;
using base::format;

std::shared_ptr<const base::MappedFile> map(const base::Path& path, const FileHashes& hashes) {
  auto mapping = std::make_shared<const base::MappedFile>(path);
  if (const size_t found = mapping->bytes().size(); found != hashes.bytes)
    throw CorruptError(format("{} has {} bytes, its manifest says {}", path.string(), base::with_commas(found),
                              base::with_commas(hashes.bytes)));
  if (const auto found = base::hash_hex(mapping->bytes().substr(0, hashes.header_bytes)); found != hashes.header)
    throw CorruptError(format("{} has the hash {}, its manifest says {}", path.string(), found, hashes.header));
  return mapping;
}

}  // namespace

Shard::Shard(const base::Path& path, FileHashes hashes)
    : path_(path), hashes_(std::move(hashes)), mapping_(map(path, hashes_)), file_(mapping_, path) {
  if (hashes_.header_bytes == hashes_.bytes && hashes_.blocks.empty()) return;  // all of it is verified
  size_t count = 0;
  for (const std::string& name : file_.names()) {
    first_block_[name] = count;
    count += (file_.bytes(name).size() + hashes_.block_bytes - 1) / hashes_.block_bytes;
  }
  if (file_.header_bytes() != hashes_.header_bytes || count != hashes_.blocks.size())
    throw CorruptError(format("{} has other blocks than its manifest says", path.string()));
  good_.resize(count);
}

void Shard::verify(const std::string& tensor, int64_t begin, int64_t end) const {
  if (begin >= end || good_.empty()) return;
  const std::string_view bytes = file_.bytes(tensor);
  const auto size = static_cast<int64_t>(hashes_.block_bytes);
  end = std::min(end, static_cast<int64_t>(bytes.size()));
  for (int64_t at = begin / size; at * size < end; ++at) {
    const size_t block = first_block_.at(tensor) + static_cast<size_t>(at);
    if (good_[block]) continue;
    const std::string_view content = bytes.substr(static_cast<size_t>(at * size), static_cast<size_t>(size));
    verified_bytes_ += static_cast<int64_t>(content.size());
    if (const auto found = base::hash_hex(content); found != hashes_.blocks[block])
      throw CorruptError(format("{}, tensor \"{}\", block {} has the hash {}, its manifest says {}", path_.string(),
                                tensor, at, found, hashes_.blocks[block]));
    good_[block] = true;
  }
}

}  // namespace hyperion::checkpoint
