#include "hyperion/strategy/zero_bubble.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "hyperion/base/error.h"

namespace hyperion::strategy {
namespace {

using Piece = std::pair<int64_t, int64_t>;  // stage, micro-batch

// 1f1b whose gradients of weights follow as many micro-batches behind as ranks come before: all ranks keep as many as
// the first one, and the last ones give gradients back without a pause while the pipeline fills.
RankWork h1_work(const Pipeline& pipeline, int64_t rank) {
  const int64_t count = pipeline.micro_batches, ahead = std::min(count, pipeline.ranks - 1 - rank);
  RankWork work;
  for (int64_t k = 0; k < ahead; ++k) work.push_back({StagePass::forward, rank, k});
  for (int64_t k = 0; k < count; ++k) {
    if (ahead + k < count) work.push_back({StagePass::forward, rank, ahead + k});
    work.push_back({StagePass::backward_input, rank, k});
    if (k >= rank) work.push_back({StagePass::backward_weights, rank, k - rank});
  }
  for (int64_t k = std::max<int64_t>(0, count - rank); k < count; ++k)
    work.push_back({StagePass::backward_weights, rank, k});
  return work;
}

// All ranks at once, one unit of time after the other: each takes what is there to be done, the gradients its
// neighbours wait for first, gradients of weights where there is nothing else.
class VClock {
 public:
  // What a rank does where it could do several things.
  struct Rule {
    bool older_first = false;     // of two backwards that of the older micro-batch, else that of the later stage
    bool forward_to_end = false;  // a forward of the second half before any backward
  };

  VClock(const Pipeline& pipeline, Rule rule)
      : pipeline_(pipeline),
        rule_(rule),
        ranks_(static_cast<size_t>(pipeline.ranks)),
        forwards_(static_cast<size_t>(pipeline.stages())),
        backwards_(forwards_.size()) {}

  // Until all is done; how long that takes.
  int64_t run() {
    const int64_t all = 3 * pipeline_.stages() * pipeline_.micro_batches;
    for (int64_t done = 0; done < all; ++now_) {
      std::vector<std::pair<int64_t, StageWork>> begun;
      for (int64_t rank = 0; rank < pipeline_.ranks; ++rank)
        if (const auto next = next_of(rank)) begun.emplace_back(rank, *next);
      HYPERION_CHECK(!begun.empty(), "there is always a rank that can go on");
      for (const auto& [rank, work] : begun) finish(rank, work);
      done += std::ssize(begun);
    }
    return now_;
  }
  std::vector<RankWork> take() {
    std::vector<RankWork> all;
    for (auto& rank : ranks_) all.push_back(std::move(rank.work));
    return all;
  }

 private:
  struct Rank {
    RankWork work;
    std::deque<Piece> weights;  // whose gradients are still to be made
    int64_t kept = 0;
  };
  // Micro-batches that a stage was done with, by when; the ones after follow in their order.
  using Done = std::vector<std::vector<int64_t>>;

  int64_t most() const { return 2 * pipeline_.ranks; }  // as 1f1b keeps, in stages half as large
  static int64_t count(const Done& done, int64_t stage) { return std::ssize(done[static_cast<size_t>(stage)]); }
  bool was(const Done& done, int64_t stage, int64_t micro_batch) const {
    return micro_batch < count(done, stage) &&
           done[static_cast<size_t>(stage)][static_cast<size_t>(micro_batch)] <= now_;
  }

  std::optional<StageWork> forward_at(int64_t stage) const {
    const int64_t next = count(forwards_, stage);
    if (next == pipeline_.micro_batches || (stage > 0 && !was(forwards_, stage - 1, next))) return {};
    return StageWork{StagePass::forward, stage, next};
  }
  std::optional<StageWork> backward_at(int64_t stage) const {
    const int64_t next = count(backwards_, stage);
    if (!was(forwards_, stage, next)) return {};
    if (stage + 1 < pipeline_.stages() && !was(backwards_, stage + 1, next)) return {};
    return StageWork{StagePass::backward_input, stage, next};
  }

  std::optional<StageWork> next_of(int64_t index) const {
    const auto& rank = ranks_[static_cast<size_t>(index)];
    const int64_t first = index, second = pipeline_.stages() - 1 - index;
    const bool room = rank.kept < most();
    const auto to_end = room ? forward_at(second) : std::nullopt;
    if (to_end && rule_.forward_to_end) return to_end;
    const auto later = backward_at(second), earlier = backward_at(first);
    if (later && earlier) return rule_.older_first && earlier->micro_batch < later->micro_batch ? earlier : later;
    if (later || earlier) return later ? later : earlier;
    if (to_end) return to_end;
    if (const auto begins = room ? forward_at(first) : std::nullopt) return begins;
    if (rank.weights.empty()) return {};
    return StageWork{StagePass::backward_weights, rank.weights.front().first, rank.weights.front().second};
  }

  void finish(int64_t index, const StageWork& work) {
    auto& rank = ranks_[static_cast<size_t>(index)];
    rank.work.push_back(work);
    const auto stage = static_cast<size_t>(work.stage);
    if (work.pass == StagePass::forward) {
      forwards_[stage].push_back(now_ + 1), ++rank.kept;
    } else if (work.pass == StagePass::backward_input) {
      backwards_[stage].push_back(now_ + 1), rank.weights.emplace_back(work.stage, work.micro_batch);
    } else {
      rank.weights.pop_front(), --rank.kept;
    }
  }

  const Pipeline& pipeline_;
  Rule rule_;
  std::vector<Rank> ranks_;
  Done forwards_, backwards_;  // by stage
  int64_t now_ = 0;
};

// No rule is the best of all numbers of ranks and micro-batches: the shortest of what they give.
std::vector<RankWork> v_work(const Pipeline& pipeline) {
  std::vector<RankWork> best;
  int64_t shortest = 0;
  for (const VClock::Rule rule : {VClock::Rule{false, false}, {true, false}, {false, true}, {true, true}}) {
    VClock clock(pipeline, rule);
    const int64_t length = clock.run();
    if (best.empty() || length < shortest) best = clock.take(), shortest = length;
  }
  return best;
}

// The eight phases of the published schedule. The first and the second half of the stages each go through their
// micro-batches in order; gradients of weights that were left are made in the order they were left.
class DualPipeV {
 public:
  DualPipeV(const Pipeline& pipeline, int64_t rank)
      : ranks_(pipeline.ranks),
        count_(pipeline.micro_batches),
        rank_(rank),
        stages_{rank, pipeline.stages() - 1 - rank} {}

  RankWork work() {
    const int64_t behind = ranks_ - 1 - rank_, before = rank_ + 1;
    repeat(2 * behind, [&] { forward(0); });
    repeat(before, [&] { forward(0), forward(1); });
    repeat(behind, [&] { backward_input(1), weights(), forward(1); });
    repeat(count_ - 2 * ranks_ + before, [&] { forward(0), backward(1), forward(1), backward(0); });
    repeat(behind, [&] { backward(1), forward(1), backward(0); });
    drain(before);
    repeat(behind, [&] { weights(), backward_input(0); });
    repeat(before, [&] { weights(); });
    return std::move(work_);
  }

 private:
  template <class Each>
  static void repeat(int64_t times, const Each& each) {
    for (int64_t i = 0; i < times; ++i) each();
  }

  // The second half of these leave the gradients of weights for later.
  void drain(int64_t times) {
    for (int64_t i = 0; i < 2 * times; ++i)
      i < times ? backward(i % 2 == 0 ? 1 : 0) : backward_input(i % 2 == 0 ? 1 : 0);
  }

  void add(StagePass pass, size_t half, std::array<int64_t, 2>& next) {
    work_.push_back({pass, stages_[half], next[half]++});
  }
  void forward(size_t half) { add(StagePass::forward, half, forwards_); }
  void backward(size_t half) { add(StagePass::backward, half, backwards_); }
  void backward_input(size_t half) {
    left_.emplace_back(stages_[half], backwards_[half]);
    add(StagePass::backward_input, half, backwards_);
  }
  void weights() {
    work_.push_back({StagePass::backward_weights, left_.front().first, left_.front().second});
    left_.pop_front();
  }

  int64_t ranks_, count_, rank_;
  std::array<int64_t, 2> stages_, forwards_{}, backwards_{};
  std::deque<Piece> left_;
  RankWork work_;
};

}  // namespace

std::vector<RankWork> zero_bubble_work(const Pipeline& pipeline) {
  if (pipeline.schedule == PipelineSchedule::zb_v) return v_work(pipeline);
  std::vector<RankWork> ranks;
  for (int64_t rank = 0; rank < pipeline.ranks; ++rank)
    ranks.push_back(pipeline.schedule == PipelineSchedule::zb_h1 ? h1_work(pipeline, rank)
                                                                 : DualPipeV(pipeline, rank).work());
  return ranks;
}

double zero_bubble_bubble(const Pipeline& pipeline) {
  const auto lists = zero_bubble_work(pipeline);
  std::map<Piece, int64_t> forwards, backwards;  // when each was done
  std::vector<int64_t> clocks(lists.size());
  std::vector<size_t> at(lists.size());
  // When what it needs is there; nothing: not yet.
  const auto needed = [&](const StageWork& work) -> std::optional<int64_t> {
    if (work.pass == StagePass::backward_weights) return 0;
    const bool forward = work.pass == StagePass::forward;
    const int64_t before = work.stage + (forward ? -1 : 1);
    if (forward && before < 0) return 0;
    const auto& all = forward || before == pipeline.stages() ? forwards : backwards;
    const auto found = all.find({before == pipeline.stages() ? work.stage : before, work.micro_batch});
    return found == all.end() ? std::nullopt : std::optional(found->second);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < lists.size(); ++rank)
      for (; at[rank] < lists[rank].size(); ++at[rank], moved = true) {
        const auto& work = lists[rank][at[rank]];
        const auto ready = needed(work);
        if (!ready) break;
        clocks[rank] = std::max(clocks[rank], *ready) + (work.pass == StagePass::backward ? 2 : 1);
        if (work.pass != StagePass::backward_weights)
          (work.pass == StagePass::forward ? forwards : backwards)[{work.stage, work.micro_batch}] = clocks[rank];
      }
  }
  const auto busy = static_cast<double>(3 * pipeline.chunks * pipeline.micro_batches);
  return 1 - busy / static_cast<double>(*std::max_element(clocks.begin(), clocks.end()));
}

}  // namespace hyperion::strategy
