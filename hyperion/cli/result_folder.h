// Where the results of a bench or check lie.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::cli {

// `given`, or where that is empty one of its own among the runs: NAME-20261118-021758, then with -2, -3 where others
// begin in the same second. Made now: a place that cannot be written fails before minutes of work.
base::Path result_folder(const std::string& name, const std::string& given);

}  // namespace hyperion::cli
