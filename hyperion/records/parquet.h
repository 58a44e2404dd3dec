// The rows of a Parquet file as JSON records, through Arrow where this build has it.
#pragma once
#include "hyperion/base/files.h"
#include "hyperion/records/raw_record.h"

namespace hyperion::records {

// A row is a JSON object of its columns of text, numbers, booleans, lists and structs, its line the row's number;
// columns of other kinds are left out. Memory is Arrow's: the pages of a row group that are being read and 256 rows.
// Throws ConfigError in a build without Arrow.
std::unique_ptr<RawRecords> open_parquet(const base::Path& path, const RecordLimits& limits);

}  // namespace hyperion::records
