#include "hyperion/strategy/plan_walk.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "hyperion/base/format.h"

namespace hyperion::strategy {
namespace {

using base::format;

class Walker {
 public:
  Walker(const Plan& plan, const PlanClock& clock) : plan_(plan), clock_(clock), ranks_(plan.ranks.size()) {
    for (const auto& list : plan.ranks) walk_.times.emplace_back(list.size(), TimedInstruction{0, 0});
  }

  PlanWalk run() {
    for (bool moved = true; moved && !walk_.defect;) {
      moved = false;
      for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank)
        while (!walk_.defect && step(rank)) moved = true;
    }
    if (!walk_.defect) find_who_waits();
    if (!walk_.defect) find_letters_left();
    for (const auto& rank : ranks_) walk_.end = std::max(walk_.end, rank.clock);
    return std::move(walk_);
  }

 private:
  struct Rank {
    size_t at = 0;       // in its list
    double clock = 0;    // when it is there
    bool there = false;  // waits in its group
  };
  struct Letter {
    size_t instruction;  // of the sender
    double arrives;
  };

  const Instruction& now(int rank) const {
    return plan_.ranks[static_cast<size_t>(rank)][ranks_[static_cast<size_t>(rank)].at];
  }
  bool done(int rank) const {
    return ranks_[static_cast<size_t>(rank)].at == plan_.ranks[static_cast<size_t>(rank)].size();
  }

  void wrong(int rank, size_t instruction, std::string what) { walk_.defect = {rank, instruction, std::move(what)}; }

  void finish(int rank, double begin, double end) {
    auto& state = ranks_[static_cast<size_t>(rank)];
    walk_.times[static_cast<size_t>(rank)][state.at] = {begin, end};
    ++state.at, state.clock = end, state.there = false;
  }

  // One instruction of a rank; false: it is done, or waits.
  bool step(int rank) {
    if (done(rank)) return false;
    const auto& instruction = now(rank);
    const double begin = ranks_[static_cast<size_t>(rank)].clock;
    if (instruction.does == Does::send) return send(rank, instruction);
    if (instruction.does == Does::receive) return receive(rank, instruction);
    if (is_collective(instruction.does)) return meet(rank, instruction);
    finish(rank, begin, begin + clock_(rank, instruction));
    return true;
  }

  bool is_peer(int rank, const Instruction& instruction) {
    if (instruction.peer >= 0 && instruction.peer < static_cast<int>(ranks_.size()) && instruction.peer != rank)
      return true;
    wrong(rank, ranks_[static_cast<size_t>(rank)].at, "there is no such other rank");
    return false;
  }

  bool send(int rank, const Instruction& instruction) {
    if (!is_peer(rank, instruction)) return false;
    const auto& state = ranks_[static_cast<size_t>(rank)];
    letters_[{rank, instruction.peer, instruction.payload}].push_back(
        {state.at, state.clock + clock_(rank, instruction)});
    finish(rank, state.clock, state.clock);
    return true;
  }

  // Letters of one kind between two ranks arrive in the order they were sent: the next one must be what is waited for.
  bool receive(int rank, const Instruction& instruction) {
    if (!is_peer(rank, instruction)) return false;
    auto& waiting = letters_[{instruction.peer, rank, instruction.payload}];
    if (waiting.empty()) return false;
    const auto letter = waiting.front();
    const auto& sent = plan_.ranks[static_cast<size_t>(instruction.peer)][letter.instruction];
    const int64_t next = instruction.payload == Payload::hidden_gradients ? -1 : 1;
    if (sent.payload != instruction.payload || sent.micro_batch != instruction.micro_batch ||
        sent.stage + next != instruction.stage || sent.shape != instruction.shape ||
        sent.element != instruction.element) {
      wrong(rank, ranks_[static_cast<size_t>(rank)].at,
            format("rank {} sends something else: its instruction {}, {}", instruction.peer, letter.instruction,
                   plan_.text(sent)));
      return false;
    }
    waiting.pop_front();
    const double begin = ranks_[static_cast<size_t>(rank)].clock;
    finish(rank, begin, std::max(begin, letter.arrives));
    return true;
  }

  bool meet(int rank, const Instruction& instruction) {
    auto& state = ranks_[static_cast<size_t>(rank)];
    if (state.there) return false;
    if (instruction.group < 0 || instruction.group >= static_cast<int>(plan_.groups.size())) {
      wrong(rank, state.at, "there is no such group");
      return false;
    }
    const auto& members = plan_.groups[static_cast<size_t>(instruction.group)].ranks;
    if (std::find(members.begin(), members.end(), rank) == members.end()) {
      wrong(rank, state.at, "this rank is not of that group");
      return false;
    }
    state.there = true;
    const auto is_there = [&](int member) {
      return ranks_[static_cast<size_t>(member)].there && now(member).group == instruction.group;
    };
    if (!std::all_of(members.begin(), members.end(), is_there)) return false;
    return all_are_there(members);
  }

  bool all_are_there(const std::vector<int>& members) {
    // Where they differ, the fewest are wrong.
    const auto alike = [&](int rank) {
      return std::count_if(members.begin(), members.end(), [&](int other) { return now(other) == now(rank); });
    };
    const int usual =
        *std::max_element(members.begin(), members.end(), [&](int a, int b) { return alike(a) < alike(b); });
    double begin = 0, seconds = 0;
    for (const int member : members) {
      if (now(member) != now(usual)) {
        wrong(member, ranks_[static_cast<size_t>(member)].at,
              format("rank {} asks the group for something else: its instruction {}, {}", usual,
                     ranks_[static_cast<size_t>(usual)].at, plan_.text(now(usual))));
        return false;
      }
      begin = std::max(begin, ranks_[static_cast<size_t>(member)].clock);
      seconds = std::max(seconds, clock_(member, now(member)));
    }
    for (const int member : members) finish(member, ranks_[static_cast<size_t>(member)].clock, begin + seconds);
    return true;
  }

  // Whoever is left waits for ever. Named is one that waits for a rank that is done, where there is one: that rank will
  // never come. Else all wait for each other, and the first is as good as any.
  void find_who_waits() {
    for (const bool for_one_that_is_done : {true, false})
      for (int rank = 0; rank < static_cast<int>(ranks_.size()) && !walk_.defect; ++rank) {
        if (done(rank)) continue;
        const int other = missing(rank);
        if (done(other) != for_one_that_is_done) continue;
        const auto at = ranks_[static_cast<size_t>(other)].at;
        wrong(rank, ranks_[static_cast<size_t>(rank)].at,
              done(other) ? format("waits for ever for rank {}, which is done", other)
                          : format("waits for ever for rank {}, which waits at its instruction {}, {}", other, at,
                                   plan_.text(now(other))));
      }
  }

  // The first rank that one which waits has not met.
  int missing(int rank) const {
    const auto& instruction = now(rank);
    if (instruction.does == Does::receive) return instruction.peer;
    for (const int member : plan_.groups[static_cast<size_t>(instruction.group)].ranks)
      if (done(member) || !ranks_[static_cast<size_t>(member)].there || now(member).group != instruction.group)
        return member;
    return rank;
  }

  void find_letters_left() {
    for (const auto& [link, waiting] : letters_)
      if (!waiting.empty())
        return wrong(std::get<0>(link), waiting.front().instruction,
                     format("rank {} never receives it", std::get<1>(link)));
  }

  const Plan& plan_;
  const PlanClock& clock_;
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, Payload>, std::deque<Letter>> letters_;  // on their way, from whom to whom
  PlanWalk walk_;
};

}  // namespace

PlanWalk walk(const Plan& plan, const PlanClock& clock) { return Walker(plan, clock).run(); }

PlanWalk walk_of(const Plan& plan, const std::vector<std::vector<TimedWork>>& ranks) {
  PlanWalk walk;
  double first = std::numeric_limits<double>::infinity();
  for (const auto& rank : ranks)
    for (const auto& work : rank) first = std::min(first, work.begin);
  for (const auto& rank : ranks) {
    auto& times = walk.times.emplace_back(plan.ranks.at(walk.times.size()).size(), TimedInstruction{0, 0});
    for (const auto& work : rank) {
      times.at(work.instruction) = {work.begin - first, work.end - first};
      walk.end = std::max(walk.end, work.end - first);
    }
  }
  return walk;
}

PlanWalk ideal_walk(const Plan& plan, const PlanWalk& ran) {
  std::map<Does, std::pair<double, double>> all;  // seconds and times
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    for (size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      auto& [seconds, times] = all[plan.ranks[rank][i].does];
      seconds += ran.times[rank][i].end - ran.times[rank][i].begin, ++times;
    }
  return strategy::walk(plan, [&](int, const Instruction& instruction) {
    const auto& [seconds, times] = all.at(instruction.does);
    return computes(instruction.does) ? seconds / times : 0;
  });
}

double PlanWalk::idle(const Plan& plan, int rank) const {
  double busy = 0;
  const auto& list = plan.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < list.size(); ++i)
    if (computes(list[i].does))
      busy += times[static_cast<size_t>(rank)][i].end - times[static_cast<size_t>(rank)][i].begin;
  return end > 0 ? 1 - busy / end : 0;
}

double PlanWalk::bubble(const Plan& plan) const {
  double sum = 0;
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) sum += idle(plan, rank);
  return sum / static_cast<double>(plan.ranks.size());
}

}  // namespace hyperion::strategy
