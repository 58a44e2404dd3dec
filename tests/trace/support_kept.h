// Where tests keep what is written, and bytes as a file, without waiting for the disk.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::trace::test {

class KeptText final : public base::WritableFile {
 public:
  void append(std::string_view bytes) override { text += bytes; }
  void sync() override {}
  std::string text;
};

// A new file each time: to write over one, some file systems wait for what was there.
inline void write_anew(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace hyperion::trace::test
