// What holds a job up, told from where each rank's time went in its last steps: a rank that computes longer, one whose
// input comes late, one that was stopped, or the links. All ranks are told the same, and find the same.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hyperion::doctor {

// Seconds of one step of a rank.
struct StepDigest {
  double step = 0;
  double input = 0;    // for its own batch to be there
  double waited = 0;   // for other ranks, and for what travels
  double stopped = 0;  // in which it did not run at all
  double own() const;  // what is left: its work
};

enum class SlowCause { compute, input, stopped, links };
const char* cause_word(SlowCause cause);  // "compute"

struct SlowRank {
  int rank = -1;  // -1: all alike, or not known
  SlowCause cause = SlowCause::compute;
  double percent = 0;       // of a step that it costs
  std::string beside = {};  // of links: which, and how slow; of computation: what its GPU does
};
// "rank 3 computes longer than its like: 10.2% of a step; ..."
std::string slow_text(const SlowRank& slow);
std::string held_up_text(const SlowRank& slow);  // "compute of rank 3"

class SlowRanks {
 public:
  static constexpr size_t kWindow = 10;       // steps
  static constexpr double kLeastPercent = 4;  // of a step that is told of; half of it ends it
  static constexpr int kConfirmed = 5;        // steps in a row that find it before it is told

  // By rank which ranks have the same work: those of one stage. A rank that has no like is held against none.
  explicit SlowRanks(const std::vector<int>& kinds);

  // One step of all ranks, by rank. What is found for the first time, or again after it had gone.
  std::vector<SlowRank> add(const std::vector<StepDigest>& step);
  const std::vector<SlowRank>& now() const { return now_; }  // that hold the job up

  // All ranks wait longer than they did, and none of them is late: worth looking at the links, of which two ranks have
  // but one, so that they only wait until it is beyond doubt. Then say that it was done: looked at again after a time
  // that doubles, or soon, to be sure of what was seen.
  bool suspects_links() const { return suspects_links_; }
  double lost_to_links() const { return lost_to_links_; }  // percent of a step
  void looked_at_links(bool soon_again);

 private:
  std::vector<double> beyond_like(const std::vector<double>& by_rank) const;
  bool counts(double seconds, double step, int rank, SlowCause cause) const;
  void find_longer(double step, std::vector<SlowRank>& found) const;
  void find_late_input(double step, std::vector<SlowRank>& found) const;
  void find_stopped(std::vector<SlowRank>& found) const;
  void weigh_links(double step);

  std::vector<std::vector<size_t>> kinds_;  // the ranks of each
  size_t ranks_ = 0;
  std::deque<std::vector<StepDigest>> steps_;
  std::map<std::pair<int, SlowCause>, int> found_;  // in how many steps in a row
  std::vector<SlowRank> now_;
  double least_waited_ = -1;  // by the rank that waits least: what travels takes; the least of any window
  bool suspects_links_ = false;
  double lost_to_links_ = 0;
  int64_t seen_ = 0, look_after_ = 0, pause_ = 10, suspicious_ = 0;  // steps
};

}  // namespace hyperion::doctor
