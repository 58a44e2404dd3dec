// The collectives of one rank's trace: NCCL's kernels, or the spans that the program told of itself.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  barrier,
  broadcast,
  send,
  receive,
  point_to_point,  // an exchange, or which way is not said: not all ranks of the group take part
  other,
};
std::string_view collective_text(CollectiveKind kind);
// Of "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", "_allgather_base", "reduce_scatter gradients".
CollectiveKind collective_kind(std::string_view name);
// No rank can end it before every rank has begun it.
constexpr bool waits_for_all(CollectiveKind kind) { return kind <= CollectiveKind::barrier; }

struct CollectiveGroup {
  std::string key;   // what is the same on all ranks of it: its name and its ranks as far as they are said
  std::string name;  // "layers", "default_pg"
  std::string axis;  // of the layout: dp, tp, pp, cp, ep; empty where it is not known
};
std::string axis_of_group(std::string_view name);

struct Collective {
  int64_t begin = 0, end = 0;     // nanoseconds since 1970, of the rank's clock
  uint32_t event = 0;             // its number in the trace
  uint32_t group = 0;             // in RankCollectives::groups
  int64_t number = trace::kNone;  // among those of its kind in the group, where that is said
  int64_t step = trace::kNone;    // the ProfilerStep in which it was begun or launched
  CollectiveKind kind = CollectiveKind::other;
};

struct RankCollectives {
  std::vector<CollectiveGroup> groups;
  std::vector<Collective> all;  // by begin
};
RankCollectives collectives_of(const trace::Trace& trace);

// The program's own spans stand in this process of a trace.
constexpr std::string_view kOwnProcess = "\"hyperion\"";

}  // namespace hyperion::analysis
