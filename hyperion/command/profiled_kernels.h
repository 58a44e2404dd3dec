// What profilers left: their files found and read, and the kernels in them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/command/profilers.h"

namespace hyperion::cli {

struct ProfiledKernel {
  std::string name;
  int64_t count = 0;
  double microseconds = 0;  // of all calls
};

struct ProfileFile {
  base::Path path;
  std::string holds, problem;  // "120 events, 40 kernels"; what could not be read
};

struct ReadProfiles {
  std::vector<ProfileFile> files;
  std::vector<ProfiledKernel> kernels;  // of all files, the most time first
  bool of_host = false;                 // no kernel anywhere: the operators of the host, by their own time
};

// Of the files that the tool left in its folder those that are read here. What is broken becomes a problem of its file.
ReadProfiles read_profiles(ProfilerTool tool, const base::Path& folder);

// What `ncu --csv --page raw` prints, and rocprof-compute's pmc_perf.csv. Throw CorruptError naming `place`.
std::vector<ProfiledKernel> kernels_of_ncu(std::string_view csv, const std::string& place);
std::vector<ProfiledKernel> kernels_of_rocprof_compute(std::string_view csv, const std::string& place);

}  // namespace hyperion::cli
