// The collectives of a job: which of each rank's are one and the same.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/collectives.h"

namespace hyperion::analysis {

struct Member {
  uint32_t rank = 0;   // its place among the ranks that were given
  uint32_t index = 0;  // in that rank's RankCollectives::all
};

struct MatchedCollective {
  uint32_t group = 0;                           // in JobCollectives::groups
  CollectiveKind kind = CollectiveKind::other;  // send: of one who sends and one who receives
  int64_t number = 0;                           // in the group, of the kind
  std::vector<Member> members;                  // by rank, two at least
};

struct JobCollectives {
  std::vector<CollectiveGroup> groups;
  std::vector<MatchedCollective> matched;
  // Those that a rank of the group lacks, in words: they are matched among the others.
  std::vector<std::string> lacking;
};

// By group, kind and number. Where numbers are not said they are counted: over the recording, or where ranks have not
// equally many of them, in each step by itself; a step in which they differ is left out. Sends are matched with
// receives where one rank of a group only sends and another only receives, as along a pipeline; exchanges are not.
JobCollectives match_collectives(const std::vector<const RankCollectives*>& ranks);

}  // namespace hyperion::analysis
