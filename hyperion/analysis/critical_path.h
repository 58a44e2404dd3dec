// What decided how long a job took: from its last moment back through what each piece waited for longest.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/job.h"
#include "hyperion/base/json.h"

namespace hyperion::analysis {

struct PathSegment {
  uint32_t rank = 0, piece = 0;  // in Job::ranks, and its pieces
  int64_t begin = 0, end = 0;    // nanoseconds from the job's begin
  PieceKind kind = PieceKind::host;
  bool before = false;  // not the piece itself, but the time before it in which nothing that is recorded held it up
};

struct CriticalPath {
  std::vector<PathSegment> segments;  // in the order of time; each begins where the one before it ends
  int64_t length() const { return segments.empty() ? 0 : segments.back().end - segments.front().begin; }
};
CriticalPath critical_path(const JobGraph& graph);

struct PathSum {
  std::string name;
  int64_t time = 0;  // nanoseconds
  int64_t segments = 0;
};
// The most time first.
struct PathSums {
  std::array<int64_t, 5> by_kind = {};  // of PieceKind
  std::vector<int64_t> by_rank;
  std::vector<PathSum> by_name;   // "gemm", "before gemm"
  std::vector<PathSum> by_layer;  // by spans of the program, where there are some
};
PathSums sums_of(const Job& job, const CriticalPath& path);
std::string segment_name(const Job& job, const PathSegment& segment);

}  // namespace hyperion::analysis
