#include "hyperion/report/metric_sink.h"

#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"

namespace hyperion::report {

std::string run_digest(const SinkRun& run, size_t digits) {
  return base::hash_hex(base::format("{}\n{:.0f}", run.name, run.begun)).substr(0, digits);
}

}  // namespace hyperion::report
