// The page of a run, from what its folder holds: while it is trained, at any end, and made anew later.
#pragma once
#include "hyperion/base/config.h"
#include "hyperion/base/files.h"
#include "hyperion/report/run_record.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::train {

// `killed`: the record says that it runs, and no process trains it. Replaces report.html as a whole. Throws
// CorruptError where the metrics or the answers cannot be read.
void write_report(base::FileSystem& files, const RunFolder& run, const RunConfig& config,
                  const base::Settings& settings, const report::RunRecord& record, bool killed = false);

}  // namespace hyperion::train
