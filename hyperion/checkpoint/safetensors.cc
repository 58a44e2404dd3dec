#include "hyperion/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/safetensors_header.h"

namespace hyperion::checkpoint {
namespace {

using base::format;
static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in memory");

bool is_aligned(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

}  // namespace

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
