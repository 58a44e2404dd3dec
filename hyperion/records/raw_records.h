// Records as they lie in files: where one ends and the next begins, and no more. One thread reads them in order; many
// may then parse them (record_parser.h). Memory is bounded by the largest record, whatever the size of the files.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/records/byte_stream.h"
#include "hyperion/records/raw_record.h"

namespace hyperion::records {

enum class RecordFormat {
  text,   // a file is a record; one of more than 64 MiB is several, cut after the last line end that fits, else after
          // a whole character
  lines,  // each line that is not blank, without its line end
  wikitext,  // WikiText raw: an article begins at a heading of the first level (" = Title = ") after a blank line or at
             // the beginning; its lines as they are, blank ones dropped
  jsonl,     // each line that is not blank
  json,      // each element of the one array of the file, or the one object
  tar,       // WebDataset: members whose names agree up to the first dot after the last slash, one after the other, are
             // a sample; its .json is the record, else its .txt
  parquet,   // each row as a JSON object (parquet.h); ConfigError in a build without Arrow
};
constexpr auto words_of(RecordFormat) {
  return std::array{"text", "lines", "wikitext", "jsonl", "json", "tar", "parquet"};
}

// Files are opened one at a time, unpacked where they are compressed; a byte order mark of UTF-8 is dropped.
std::unique_ptr<RawRecords> open_raw_records(std::vector<base::Path> files, RecordFormat format,
                                             const RecordLimits& limits = {});

// The records of one stream, of any format but Parquet. Throws BadRecord where it is empty.
std::unique_ptr<RawRecords> frame_records(std::unique_ptr<ByteStream> stream, std::shared_ptr<const std::string> file,
                                          RecordFormat format, const RecordLimits& limits = {});

}  // namespace hyperion::records
