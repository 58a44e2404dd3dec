#include "hyperion/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <unordered_set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/output_file.h"
#include "hyperion/checkpoint/safetensors_header.h"

namespace hyperion::checkpoint {
namespace {

using base::format;
static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

// Hashed and written block by block, so that the hash finds each still in the processor's cache.
class HashedWriter {
 public:
  HashedWriter(base::FileSystem& files, const base::Path& path) : file_(files.create(path)) {}

  void header(std::string_view bytes) {
    hashes_.header_bytes = bytes.size();
    hashes_.header = write(bytes);
  }
  void tensor(std::string_view bytes) {
    for (; !bytes.empty(); bytes.remove_prefix(std::min<size_t>(kBlockBytes, bytes.size())))
      hashes_.blocks.push_back(write(bytes.substr(0, kBlockBytes)));
  }
  FileHashes finish() {
    file_->sync();
    return std::move(hashes_);
  }

 private:
  std::string write(std::string_view bytes) {
    hashes_.bytes += bytes.size();
    file_->append(bytes);
    return base::hash_hex(bytes);
  }

  std::unique_ptr<base::WritableFile> file_;
  FileHashes hashes_;
};

size_t type_of(const NamedTensor& named) {
  const auto& types = tensor_types();
  const at::ScalarType dtype = named.tensor.scalar_type();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const TensorType& type) { return type.dtype == dtype; });
  if (found == types.end())
    throw base::ConfigError(
        format("tensor \"{}\" is of type {}, which a safetensors file cannot hold", named.name, c10::toString(dtype)));
  return found - types.begin();
}

std::vector<const NamedTensor*> in_file_order(const std::vector<NamedTensor>& tensors) {
  std::unordered_set<std::string_view> names = {"__metadata__"};
  std::vector<std::pair<size_t, const NamedTensor*>> typed;
  for (const NamedTensor& named : tensors) {
    HYPERION_CHECK(named.tensor.defined(), format("tensor \"{}\" is undefined", named.name));
    HYPERION_CHECK(names.insert(named.name).second, format("two tensors are named \"{}\"", named.name));
    typed.emplace_back(type_of(named), &named);
  }
  std::sort(typed.begin(), typed.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->name < b.second->name;
  });
  std::vector<const NamedTensor*> ordered;
  for (const auto& [type, named] : typed) ordered.push_back(named);
  return ordered;
}

Header plan(const std::vector<const NamedTensor*>& ordered, const Metadata& metadata) {
  Header header;
  header.metadata = metadata;
  uint64_t reached = 0;
  for (const NamedTensor* named : ordered) {
    const uint64_t begin = reached;
    reached += named->tensor.numel() * named->tensor.element_size();
    header.entries.push_back({named->name, type_of(*named), named->tensor.sizes().vec(), begin, reached});
  }
  return header;
}

bool is_aligned(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

}  // namespace

FileHashes write_safetensors(base::FileSystem& files, const base::Path& path, const std::vector<NamedTensor>& tensors,
                             const Metadata& metadata) {
  const auto ordered = in_file_order(tensors);
  const std::string header = header_text(plan(ordered, metadata));
  HashedWriter writer(files, path);
  writer.header(header);
  for (const NamedTensor* named : ordered) {
    // A lazily conjugated or negated view holds other bytes than it shows.
    const at::Tensor host = named->tensor.detach().to(at::kCPU).contiguous().resolve_conj().resolve_neg();
    writer.tensor({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
  }
  return writer.finish();
}

void replace_safetensors(base::FileSystem& files, const base::Path& named, const std::vector<NamedTensor>& tensors) {
  const base::Path path = base::output_file(named);
  const base::Path partial = base::partial_path(path);
  try {
    write_safetensors(files, partial, tensors, {});
    files.rename(partial, path);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw;
  }
}

SafetensorsFile::SafetensorsFile(const base::Path& path)
    : SafetensorsFile(std::make_shared<const base::MappedFile>(path), path) {}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const base::MappedFile> mapping, const base::Path& path)
    : path_(path), mapping_(std::move(mapping)) {
  Header header = parse_header(mapping_->bytes(), path.string());
  header_bytes_ = header.data_start;
  const std::string_view data = mapping_->bytes().substr(header.data_start);
  for (HeaderEntry& entry : header.entries) {
    entries_[entry.name] = {tensor_types()[entry.type].dtype, std::move(entry.shape),
                            data.substr(entry.begin, entry.end - entry.begin)};
    names_.push_back(std::move(entry.name));
  }
  metadata_ = std::move(header.metadata);
}

const SafetensorsFile::Entry& SafetensorsFile::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw base::CorruptError(format("{} holds no tensor \"{}\"", path_.string(), name));
  return found->second;
}

const std::vector<int64_t>& SafetensorsFile::shape(const std::string& name) const { return entry(name).shape; }
at::ScalarType SafetensorsFile::dtype(const std::string& name) const { return entry(name).dtype; }

at::Tensor SafetensorsFile::tensor(const std::string& name) const {
  const Entry& found = entry(name);
  if (found.dtype == at::ScalarType::Undefined)
    throw base::CorruptError(
        format("{}, tensor \"{}\": F4 and F6 are types that no tensor here can have", path_.string(), name),
        "convert it to another type where it was written");
  const auto options = at::TensorOptions().dtype(found.dtype);
  if (found.bytes.empty()) return at::empty(found.shape, options);
  const auto is_bool = [](unsigned char byte) { return byte <= 1; };
  if (found.dtype == at::ScalarType::Bool && !std::all_of(found.bytes.begin(), found.bytes.end(), is_bool))
    throw base::CorruptError(format("{}, tensor \"{}\": a BOOL is neither 0 nor 1", path_.string(), name));
  if (!is_aligned(found.bytes.data(), c10::elementSize(found.dtype))) {
    const at::Tensor copy = at::empty(found.shape, options);
    std::memcpy(copy.mutable_data_ptr(), found.bytes.data(), found.bytes.size());
    return copy;
  }
  // The deleter's only work is to hold the mapping for as long as the tensor lives.
  return at::from_blob(
      const_cast<char*>(found.bytes.data()), found.shape, [mapping = mapping_](void*) {}, options);
}

}  // namespace hyperion::checkpoint
