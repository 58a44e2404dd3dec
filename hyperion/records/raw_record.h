// One record as it lies in a file, and what gives one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hyperion::records {

struct RawRecord {
  std::string bytes;
  std::shared_ptr<const std::string> file;  // in a tar "<tar>/<member>"
  int64_t line = 0;                         // of its first byte, the first is 1; 0 in a tar
  uint64_t byte = 0;                        // where it begins in the unpacked file
};

class RawRecords {
 public:
  virtual ~RawRecords() = default;
  // False at the end. Throws BadRecord for what cannot be read: a record that is too large, the rest of a file that is
  // damaged, a file that is empty or holds no record. Called again, it goes on behind that.
  virtual bool next(RawRecord& record) = 0;
};

// Smaller ones are for tests.
struct RecordLimits {
  size_t record = size_t{256} << 20;
  size_t text_piece = size_t{64} << 20;  // of RecordFormat::text
};

}  // namespace hyperion::records
