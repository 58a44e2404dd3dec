// What one rank did, as pieces of time in lanes: each thread of its host, each stream of its device. Pieces of a lane
// do not overlap: of calls within calls the innermost counts.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/analysis/collectives.h"
#include "hyperion/analysis/profiler_steps.h"
#include "hyperion/trace/string_pool.h"
#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

enum class PieceKind : uint8_t {
  compute,        // kernels, copies and fills; where no device was recorded operators and spans of the host
  communication,  // collectives
  host,           // all else on the host
  wait,           // of the host for the device or another thread
  input,          // the feed, a DataLoader
};
std::string_view piece_text(PieceKind kind);

// Of a step, as the program's spans and autograd's nodes tell it.
enum class Phase : uint8_t { none, forward, recompute, backward, update };
constexpr size_t kPhases = 5;
std::string_view phase_text(Phase phase);

// "transformer.h.3" of a span "block transformer.h.3" or "recompute transformer.h.3"; of other spans nothing.
std::string_view block_of(std::string_view span);
inline constexpr const char* kOutsideBlocks = "outside blocks";

// A call of the runtime, "cudaGraphLaunch"; and what its kernels say of themselves where it is known (graph_kernels.h).
bool is_graph_launch(std::string_view call);
inline constexpr const char* kPhaseArgument = "phase";
inline constexpr const char* kLayerArgument = "layer";  // a block, or kOutsideBlocks
inline constexpr const char* kOperationArgument = "operation";

constexpr uint32_t kNoPiece = UINT32_MAX;
// When a piece begins or ends, as one number.
constexpr uint32_t begin_of(uint32_t piece) { return 2 * piece; }
constexpr uint32_t end_of(uint32_t piece) { return 2 * piece + 1; }
constexpr uint32_t kNoMoment = UINT32_MAX;

struct Piece {
  int64_t begin = 0, end = 0;        // nanoseconds since 1970, of the rank's clock
  uint32_t name = trace::kNoString;  // in Timeline::names
  // The innermost span of the program around it, or around its launch; in the backward the one in whose forward the
  // node of autograd was made.
  uint32_t layer = trace::kNoString;
  uint32_t lane = 0;
  uint32_t collective = kNoPiece;  // in RankCollectives::all
  // Moments before which it cannot begin, beside the end of the piece before it in its lane; and cannot end.
  uint32_t launched = kNoMoment, after = kNoMoment, until = kNoMoment;
  PieceKind kind = PieceKind::host;
  Phase phase = Phase::none;
  bool own_span = false;  // on the host, between what a span called: nothing of it says that it was busy
};

struct Lane {
  std::string name;  // "thread 71", "stream 7"
  bool device = false;
  uint32_t first = 0, last = 0;  // its pieces: first <= i < last
};

struct Timeline {
  int64_t rank = 0;
  std::string path;
  trace::StringPool names;
  std::vector<Lane> lanes;
  std::vector<Piece> pieces;  // by lane, then by begin
  RankCollectives collectives;
  int64_t steps = 0;                // ProfilerSteps; 0: the trace marks none
  std::vector<ProfilerStep> marks;  // those, in the measure of the pieces' times
  bool on_device = false;
};

// Of the trace's steps where it marks some, else of all of it. The moments that pieces wait for are found with
// find_waits().
Timeline timeline_of(trace::Trace&& trace);

}  // namespace hyperion::analysis
