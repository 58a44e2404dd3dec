// Operators on the host: how long each took itself, and what it put on the device.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

struct OperatorRow {
  std::string name;
  int64_t count = 0;
  int64_t self = 0;    // nanoseconds, without operators it called on its thread
  int64_t total = 0;   // with them; one that calls itself counts twice
  int64_t device = 0;  // of kernels, copies and fills that it launched itself ("External id")
};
// Of the whole trace; the most self time first, of equal ones by name.
std::vector<OperatorRow> operator_table(const trace::Trace& trace);

}  // namespace hyperion::analysis
