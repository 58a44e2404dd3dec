#include "hyperion/analysis/matched_collectives.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

// One of a rank's collectives of one group and kind; equal places on all ranks are one collective.
struct Placed {
  int64_t place = 0, repeat = 0;  // a number, or the step; and the how manieth there
  Member member;
  bool same_place(const Placed& other) const { return place == other.place && repeat == other.repeat; }
};

class Sequence {
 public:
  void add(Member member, const Collective& collective) {
    all_.push_back({collective.number, 0, member});
    steps_.push_back(collective.step);
    ranks_.insert(member.rank);
    (collective.kind == CollectiveKind::receive ? receivers_ : senders_).insert(member.rank);
  }
  const std::set<uint32_t>& ranks() const { return ranks_; }
  bool is_one_to_one() const { return senders_.size() == 1 && receivers_.size() == 1 && senders_ != receivers_; }

  // By place; those of steps in which ranks have unequally many are taken out and told.
  std::vector<Placed> placed(const std::string& what, std::vector<std::string>& lacking) {
    const bool numbered =
        std::all_of(all_.begin(), all_.end(), [](const Placed& each) { return each.place != trace::kNone; });
    if (!numbered) {
      const bool by_step = !equally_many();
      for (size_t i = 0; i < all_.size(); ++i) all_[i].place = by_step ? steps_[i] : 0;
    }
    std::map<std::pair<uint32_t, int64_t>, int64_t> seen;  // of a rank and place
    for (auto& each : all_) each.repeat = seen[{each.member.rank, each.place}]++;
    if (!numbered) leave_out_unequal(seen, what, lacking);
    std::sort(all_.begin(), all_.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.place, a.repeat, a.member.rank) < std::tie(b.place, b.repeat, b.member.rank);
    });
    return std::move(all_);
  }

 private:
  bool equally_many() const {
    std::map<uint32_t, size_t> counts;
    for (const auto& each : all_) ++counts[each.member.rank];
    return std::all_of(counts.begin(), counts.end(), [&](auto& each) { return each.second == counts.begin()->second; });
  }
  void leave_out_unequal(const std::map<std::pair<uint32_t, int64_t>, int64_t>& counts, const std::string& what,
                         std::vector<std::string>& lacking) {
    std::map<int64_t, std::vector<std::pair<uint32_t, int64_t>>> by_place;
    for (const auto& [key, count] : counts) by_place[key.second].emplace_back(key.first, count);
    std::set<int64_t> unequal;
    for (const auto& [place, ranks] : by_place) {
      const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end(),
                                                     [](const auto& a, const auto& b) { return a.second < b.second; });
      if (ranks.size() == ranks_.size() && least->second == most->second) continue;
      unequal.insert(place);
      lacking.push_back(base::format("{}: in step {} the ranks do not have equally many ({} to {}); they are left out",
                                     what, place, ranks.size() < ranks_.size() ? 0 : least->second, most->second));
    }
    std::erase_if(all_, [&](const Placed& each) { return unequal.contains(each.place); });
  }

  std::vector<Placed> all_;
  std::vector<int64_t> steps_;
  std::set<uint32_t> ranks_, senders_, receivers_;
};

}  // namespace

JobCollectives match_collectives(const std::vector<const RankCollectives*>& ranks) {
  JobCollectives job;
  std::unordered_map<std::string, uint32_t> group_numbers;
  std::map<std::pair<uint32_t, CollectiveKind>, Sequence> sequences;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<uint32_t> numbers;  // of the rank's groups in the job
    for (const auto& group : ranks[rank]->groups) {
      const auto [at, added] = group_numbers.try_emplace(group.key, static_cast<uint32_t>(job.groups.size()));
      if (added) job.groups.push_back(group);
      numbers.push_back(at->second);
    }
    const auto& all = ranks[rank]->all;
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (all[i].kind == CollectiveKind::point_to_point || all[i].kind == CollectiveKind::other) continue;
      const auto kind = all[i].kind == CollectiveKind::receive ? CollectiveKind::send : all[i].kind;
      sequences[{numbers[all[i].group], kind}].add({rank, i}, all[i]);
    }
  }
  for (auto& [key, sequence] : sequences) {
    const auto members = sequence.ranks();
    if (members.size() < 2 || (key.second == CollectiveKind::send && !sequence.is_one_to_one())) continue;
    const auto what = base::format("{} of {}", collective_text(key.second), job.groups[key.first].key);
    const auto placed = sequence.placed(what, job.lacking);
    for (size_t i = 0, end = 0; i < placed.size(); i = end) {
      MatchedCollective one{key.first, key.second, placed[i].place == 0 ? placed[i].repeat : placed[i].place, {}};
      for (end = i; end < placed.size() && placed[end].same_place(placed[i]); ++end)
        one.members.push_back(placed[end].member);
      if (one.members.size() < members.size()) {
        size_t at = 0;
        for (const auto rank : members) {
          if (at < one.members.size() && one.members[at].rank == rank) {
            ++at;
            continue;
          }
          job.lacking.push_back(base::format("{}: trace {} lacks number {}", what, rank, one.number));
        }
      }
      if (one.members.size() > 1) job.matched.push_back(std::move(one));
    }
  }
  return job;
}

}  // namespace hyperion::analysis
