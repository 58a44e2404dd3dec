// The JSON header of a safetensors file, to and from text. Only safetensors.cc and tests look here.
#pragma once
#include <c10/core/ScalarType.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::checkpoint {

struct TensorType {
  std::string_view name;  // as the format spells it: "BF16"
  at::ScalarType dtype;   // Undefined where no tensor here can have it
  uint64_t bits;          // of an element
};
// In the format's own order: its writer lays out the last first, so that every tensor is aligned.
const std::vector<TensorType>& tensor_types();

struct HeaderEntry {
  std::string name;
  size_t type = 0;  // index in tensor_types()
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct Header {
  std::vector<HeaderEntry> entries;  // by begin
  std::map<std::string, std::string> metadata;
  uint64_t data_start = 0;  // bytes from the start of the file
};

// The length, the JSON and the padding to 8 bytes: all that comes before the data. Throws ConfigError on a name that is
// not UTF-8.
std::string header_text(const Header& header);

// Reads the header of a whole file and checks it against the file's size: afterwards every entry's bytes lie in the
// file. Accepts what the format's own reader (safetensors 0.8) does, but for what docs/format_checkpoint.md lists as
// refused on purpose. Allocates no more than a few times the header's own length. Throws CorruptError that starts with
// `place`.
Header parse_header(std::string_view file, const std::string& place);

}  // namespace hyperion::checkpoint
