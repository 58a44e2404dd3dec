// One file of a checkpoint, mapped, of which any part can be verified without the rest.
#pragma once
#include <unordered_map>

#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::checkpoint {

class Shard {
 public:
  // Verifies its size and its header. Throws CorruptError, or FileError where it is missing or cannot be read.
  Shard(const base::Path& path, FileHashes hashes);

  const SafetensorsFile& file() const { return file_; }
  const base::Path& path() const { return path_; }
  int64_t block_bytes() const { return static_cast<int64_t>(hashes_.block_bytes); }

  // Reads the blocks that bytes [begin, end) of a tensor lie in, each once in its life. Throws CorruptError where one
  // is not as it was written.
  void verify(const std::string& tensor, int64_t begin, int64_t end) const;
  int64_t verified() const { return verified_bytes_; }  // bytes of tensors read so far

 private:
  base::Path path_;
  FileHashes hashes_;
  std::shared_ptr<const base::MappedFile> mapping_;
  SafetensorsFile file_;
  std::unordered_map<std::string, size_t> first_block_;
  mutable std::vector<bool> good_;  // by block
  mutable int64_t verified_bytes_ = 0;
};

}  // namespace hyperion::checkpoint
