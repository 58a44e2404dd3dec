// In a build without Arrow.
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/parquet.h"

namespace hyperion::records {

std::unique_ptr<RawRecords> open_parquet(const base::Path& path, const RecordLimits&) {
  throw base::ConfigError(
      base::format("{}: this build was made without Arrow, which reads Parquet", path.string()),
      "run script/setup where PyPI is reachable and build again; or make JSON lines of it: python3 -c 'import sys, "
      "pandas; "
      "pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient=\"records\", lines=True)' IN.parquet OUT.jsonl");
}

}  // namespace hyperion::records
