#include "hyperion/checkpoint/safetensors_writer.h"

#include <algorithm>
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

size_t type_of(const TensorToWrite& named) {
  const auto& types = tensor_types();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const TensorType& type) { return type.dtype == named.type; });
  if (found == types.end())
    throw base::ConfigError(format("tensor \"{}\" is of type {}, which a safetensors file cannot hold", named.name,
                                   c10::toString(named.type)));
  return found - types.begin();
}

std::vector<const TensorToWrite*> in_file_order(const std::vector<TensorToWrite>& tensors) {
  std::unordered_set<std::string_view> names = {"__metadata__"};
  std::vector<std::pair<size_t, const TensorToWrite*>> typed;
  for (const TensorToWrite& named : tensors) {
    HYPERION_CHECK(names.insert(named.name).second, format("two tensors are named \"{}\"", named.name));
    typed.emplace_back(type_of(named), &named);
  }
  std::sort(typed.begin(), typed.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second->name < b.second->name;
  });
  std::vector<const TensorToWrite*> ordered;
  for (const auto& [type, named] : typed) ordered.push_back(named);
  return ordered;
}

std::vector<TensorToWrite> to_write(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorToWrite> list;
  for (const NamedTensor& named : tensors) {
    HYPERION_CHECK(named.tensor.defined(), format("tensor \"{}\" is undefined", named.name));
    list.push_back({named.name, named.tensor.scalar_type(), named.tensor.sizes().vec(),
                    [tensor = named.tensor] { return tensor; }});
  }
  return list;
}

Header plan(const std::vector<const TensorToWrite*>& ordered, const Metadata& metadata) {
  Header header;
  header.metadata = metadata;
  uint64_t reached = 0;
  for (const TensorToWrite* named : ordered) {
    const uint64_t begin = reached;
    uint64_t bytes = c10::elementSize(named->type);
    for (const int64_t size : named->shape) bytes *= static_cast<uint64_t>(size);
    reached += bytes;
    header.entries.push_back({named->name, type_of(*named), named->shape, begin, reached});
  }
  return header;
}

}  // namespace

FileHashes write_safetensors(base::FileSystem& files, const base::Path& path, const std::vector<NamedTensor>& tensors,
                             const Metadata& metadata) {
  return write_in_turn(files, path, to_write(tensors), metadata);
}

FileHashes write_in_turn(base::FileSystem& files, const base::Path& path, const std::vector<TensorToWrite>& tensors,
                         const Metadata& metadata) {
  const auto ordered = in_file_order(tensors);
  const std::string header = header_text(plan(ordered, metadata));
  HashedWriter writer(files, path);
  writer.header(header);
  for (const TensorToWrite* named : ordered) {
    // A lazily conjugated or negated view holds other bytes than it shows.
    const at::Tensor host = named->bring().detach().to(at::kCPU).contiguous().resolve_conj().resolve_neg();
    writer.tensor({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
  }
  return writer.finish();
}

void replace_safetensors(base::FileSystem& files, const base::Path& named, const std::vector<NamedTensor>& tensors) {
  replace_in_turn(files, named, to_write(tensors), {});
}

uint64_t replace_in_turn(base::FileSystem& files, const base::Path& named, const std::vector<TensorToWrite>& tensors,
                         const Metadata& metadata) {
  const base::Path path = base::output_file(named);
  const base::Path partial = base::partial_path(path);
  try {
    const FileHashes written = write_in_turn(files, partial, tensors, metadata);
    files.rename(partial, path);
    return written.bytes;
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(partial, ignored);
    throw;
  }
}

}  // namespace hyperion::checkpoint
