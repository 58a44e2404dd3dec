// The safetensors files of a Hugging Face folder as one set of names.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/checkpoint/safetensors.h"

namespace hyperion::interop {

class WeightFiles {
 public:
  // Maps model.safetensors, else the shards its index names. Throws CorruptError where neither is there, or where index
  // and shards do not agree; says how to convert where there are only pickles.
  WeightFiles(base::FileSystem& files, const base::Path& folder);

  bool has(const std::string& name) const { return file_of_.count(name) != 0; }
  const checkpoint::SafetensorsFile& file(const std::string& name) const { return *file_of_.at(name); }
  std::vector<std::string> names() const;
  int64_t elements(const std::string& name) const;  // the product of its shape

 private:
  void open_shards(base::FileSystem& files, const base::Path& folder, const base::Path& index);

  std::map<std::string, checkpoint::SafetensorsFile> files_;
  std::map<std::string, const checkpoint::SafetensorsFile*> file_of_;
};

// The first of those files that the folder lacks; empty where all are there.
std::string missing_weight_file(base::FileSystem& files, const base::Path& folder);

// .bin, .pt, .pth, .ckpt, .pkl, .pickle
bool is_pickle(const base::Path& path);
std::string conversion_hint(const base::Path& folder);

bool is_weight_type(at::ScalarType type);       // fp32, bf16 or fp16
std::string shape_text(at::IntArrayRef shape);  // "[2, 3]"

}  // namespace hyperion::interop
