// The safetensors format: an 8-byte length, a JSON header, then raw little-endian tensors. The reader is strict: it
// checks the whole header against the file before it hands out a byte, and every refusal is a CorruptError that names
// the file, the tensor and the reason. docs/format_checkpoint.md shows the format on one page.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::checkpoint {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

// How much of a tensor is verified at once. A multiple of every element's size.
inline constexpr uint64_t kBlockBytes = uint64_t{4} << 20;

using Metadata = std::map<std::string, std::string>;

// By which any part of a file can be verified without the rest. Each hash is XXH3-128, 32 hexadecimal digits.
struct FileHashes {
  uint64_t bytes = 0;         // of the file
  uint64_t header_bytes = 0;  // before the first tensor; all of the file: there are no blocks
  std::string header;
  uint64_t block_bytes = kBlockBytes;  // of each tensor; its last block is what is left
  std::vector<std::string> blocks;     // tensor by tensor, in the order of the file
};

// Writes and syncs one file. Tensors may be on any device and strided in any way; each in turn is brought to the CPU,
// so at most one copy is alive. Data is laid out as the format's own writer does (widest type first, then by name), so
// that every tensor is aligned. Names are unique UTF-8; a type the format does not know is a ConfigError. A failed
// write throws FileError and leaves the broken file for the caller to remove.
FileHashes write_safetensors(base::FileSystem& files, const base::Path& path, const std::vector<NamedTensor>& tensors,
                             const Metadata& metadata = {});
// The same, whole or not at all: written beside its name, and renamed.
void replace_safetensors(base::FileSystem& files, const base::Path& path, const std::vector<NamedTensor>& tensors);

// One file, mapped. Safe to read from many threads.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const base::Path& path);
  // Reads a mapping made before (its checksum verified, say); `path` is for messages.
  SafetensorsFile(std::shared_ptr<const base::MappedFile> mapping, const base::Path& path);

  const std::vector<std::string>& names() const { return names_; }  // in the order of their bytes
  bool has(const std::string& name) const { return entries_.count(name) != 0; }
  const Metadata& metadata() const { return metadata_; }

  // Of a tensor in the file; another name is a CorruptError.
  const std::vector<int64_t>& shape(const std::string& name) const;
  at::ScalarType dtype(const std::string& name) const;  // Undefined: a type that no tensor here can have
  // A CPU tensor that views the mapping and keeps it alive: read it, never write to it. Copied only where the file left
  // it out of alignment for its type. Throws CorruptError where the dtype is Undefined.
  at::Tensor tensor(const std::string& name) const;
  std::string_view bytes(const std::string& name) const { return entry(name).bytes; }
  uint64_t header_bytes() const { return header_bytes_; }

 private:
  struct Entry {
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    std::string_view bytes;
  };
  const Entry& entry(const std::string& name) const;

  base::Path path_;
  std::shared_ptr<const base::MappedFile> mapping_;
  uint64_t header_bytes_ = 0;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Entry> entries_;
  Metadata metadata_;
};

}  // namespace hyperion::checkpoint
