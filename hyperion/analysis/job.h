// A job of several ranks on one clock, and what its pieces waited for across them.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/analysis/clock_offsets.h"
#include "hyperion/analysis/timeline.h"

namespace hyperion::analysis {

struct Job {
  std::vector<Timeline> ranks;  // by rank; their pieces' and collectives' times are on the first one's clock
  JobCollectives collectives;
  std::vector<ClockOffset> clocks;

  int64_t steps() const;  // of a rank; 1 where none are marked
};
// Puts them on one clock. Throws CorruptError where two are of one rank, ConfigError where a trace has no events.
Job make_job(std::vector<Timeline> ranks);

// The begins and ends of all pieces ("moments"), each so much later than the last of those it waited for: the end of
// the piece before it in its lane, its launch, a collective's last rank, ... With the delays changed it tells when all
// would have been.
class JobGraph {
 public:
  explicit JobGraph(const Job& job);

  struct Place {
    uint32_t rank = 0, piece = 0;
    bool end = false;
    bool all_begun = false;  // no piece's, but when the last rank has begun a collective
  };
  size_t size() const { return delays_.size(); }
  Place place(uint32_t moment) const;
  uint32_t moment(uint32_t rank, uint32_t moment) const { return 2 * first_[rank] + moment; }
  const Piece& piece(const Place& place) const { return job_.ranks[place.rank].pieces[place.piece]; }
  const Job& job() const { return job_; }

  // Nanoseconds by which a moment came after the last it waited for; of one that waited for none after the job's begin.
  const std::vector<int64_t>& delays() const { return delays_; }
  bool waits(uint32_t moment) const;           // for any
  bool is_matched_end(uint32_t moment) const;  // of a collective that waits for all ranks, of a send or a receive
  // When each moment would be with these delays, from the job's begin.
  std::vector<int64_t> replay(const std::vector<int64_t>& delays) const;
  // The one that it waited for longest; kNoMoment: none.
  uint32_t last_source(uint32_t moment, const std::vector<int64_t>& times) const;

 private:
  static constexpr uint32_t kNoCollective = UINT32_MAX;
  // Calls visit(source) for each. Those that come later in the order contradict others, and do not count.
  template <class Visit>
  void for_each_source(uint32_t moment, const Visit& visit) const;
  uint32_t source(uint32_t moment, uint32_t number) const;  // kNoMoment: it has none there
  uint32_t source_count(uint32_t moment) const;
  void number_collectives();
  void make_order();
  int64_t observed(uint32_t moment) const;

  const Job& job_;
  std::vector<uint32_t> first_;                 // pieces of the ranks before
  std::vector<uint32_t> collective_;            // of a piece: the matched one that waits for all
  std::vector<std::vector<uint32_t>> members_;  // of a collective: moments of its begins
  std::vector<uint32_t> partner_;               // of a send or a receive: the other's begin; kNoMoment: not matched
  std::vector<uint32_t> order_, position_;
  std::vector<int64_t> delays_;
  int64_t begin_ = 0;
};

}  // namespace hyperion::analysis
