// The checks as people and as programs read them.
#pragma once
#include <string>
#include <vector>

#include "hyperion/doctor/check.h"

namespace hyperion::doctor {

// Grouped and aligned, a mark a line, hints below their line, one summary line at the end.
std::string doctor_table(const std::vector<Check>& checks, bool color);

// {"checks": [{"group", "name", "verdict", "finding", "hint"}], "ok": n, "warn": n, "fail": n}
std::string doctor_json(const std::vector<Check>& checks);

bool any_fail(const std::vector<Check>& checks);

}  // namespace hyperion::doctor
