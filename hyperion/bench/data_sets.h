// How fast a prepared set is opened, and batches come out of it.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::bench {

struct SetResult {
  std::string folder;
  bool images = false;
  uint64_t bytes = 0;     // of both files
  int64_t length = 1024;  // of a sample, in tokens; of images: pixels along a side
  int threads = 0;        // that read ahead; 0: as many as training takes
  double open_ms = 0;     // the middle one of several
  double samples_per_s = 0;
};
SetResult run_set_bench(const std::string& folder, int64_t threads, double seconds);

std::string set_bench_text(const SetResult& result);  // a line or two

}  // namespace hyperion::bench
