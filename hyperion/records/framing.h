// How the formats with a grammar of their own are cut into records; raw_records.h is what others include.
#pragma once
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/byte_stream.h"
#include "hyperion/records/raw_record.h"

namespace hyperion::records {

// One file on its way into records.
struct FramedFile {
  BufferedBytes bytes;
  std::shared_ptr<const std::string> name;
  RecordLimits limits;

  BadRecord too_large(int64_t line, const char* what) const {
    return {*name, line, base::format("{} has more than {}", what, base::bytes_text(limits.record)),
            "split it, or choose the format that the file has"};
  }
};

std::unique_ptr<RawRecords> frame_json(FramedFile file);
std::unique_ptr<RawRecords> frame_tar(FramedFile file);

}  // namespace hyperion::records
