#include "hyperion/strategy/plan_check.h"

#include <set>
#include <tuple>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {
namespace {

using base::format;

// The list of one rank by itself: what it computes, with what, and in which order.
class RankCheck {
 public:
  RankCheck(const Plan& plan, int rank) : plan_(plan), rank_(rank), index_(Mesh(plan.layout, rank).index(Axis::pp)) {}

  std::optional<PlanDefect> run() {
    const auto& list = plan_.ranks[static_cast<size_t>(rank_)];
    for (size_t i = 0; i < list.size(); ++i)
      if (auto what = take(list[i]); !what.empty()) return PlanDefect{rank_, i, std::move(what)};
    if (auto what = what_is_missing(); !what.empty()) return PlanDefect{rank_, list.size(), std::move(what)};
    return {};
  }

 private:
  using Piece = std::pair<int64_t, int64_t>;  // stage, micro-batch

  bool owns(const Instruction& instruction) const {
    return instruction.stage >= 0 && instruction.stage < plan_.pipeline.stages() &&
           plan_.pipeline.rank_of(instruction.stage) == index_ && instruction.micro_batch >= 0 &&
           instruction.micro_batch < plan_.pipeline.micro_batches;
  }

  // What is wrong with the next instruction; empty: nothing.
  std::string take(const Instruction& instruction) {
    const Piece piece = {instruction.stage, instruction.micro_batch};
    switch (instruction.does) {
      case Does::forward:
        return forward(instruction, piece);
      case Does::backward:
      case Does::backward_input:
        return backward(instruction, piece);
      case Does::backward_weights:
        return weights(piece);
      case Does::receive: {
        if (!owns(instruction)) return "that stage or micro-batch is not this rank's";
        auto& had = instruction.payload == Payload::hidden_states ? inputs_ : gradients_;
        return had.insert(piece).second ? "" : "it was received before";
      }
      case Does::send: {
        const bool states = instruction.payload == Payload::hidden_states;
        if (!(states ? forwards_ : backwards_).contains(piece))
          return format("the {} that gives it was not yet", states ? "forward" : "backward");
        return (states ? states_sent_ : gradients_sent_).insert(piece).second ? "" : "it was sent before";
      }
      case Does::update:
        if (updated_) return "there was an update before";
        updated_ = true;
        return what_is_missing();
      default:
        return instruction.payload == Payload::gradients && updated_ ? "the update was before" : "";
    }
  }

  std::string forward(const Instruction& instruction, const Piece& piece) {
    if (!owns(instruction)) return "that stage or micro-batch is not this rank's";
    const bool fed = piece.first == 0 || inputs_.contains(piece) || forwards_.contains({piece.first - 1, piece.second});
    if (!fed) return "its input was not received yet";
    if (!forwards_.insert(piece).second) return "it was run forward before";
    if (++kept_ > plan_.kept[static_cast<size_t>(rank_)])
      return format("{} micro-batches are kept at once, and the plan says {}", kept_,
                    plan_.kept[static_cast<size_t>(rank_)]);
    return {};
  }

  std::string backward(const Instruction& instruction, const Piece& piece) {
    if (!forwards_.contains(piece)) return "its forward was not yet";
    const bool fed = piece.first == plan_.pipeline.stages() - 1 || gradients_.contains(piece) ||
                     backwards_.contains({piece.first + 1, piece.second});
    if (!fed) return "its gradients were not received yet";
    if (!backwards_.insert(piece).second) return "it was run backward before";
    if (instruction.does == Does::backward_input)
      left_.insert(piece);
    else
      --kept_;
    return owns(instruction) ? "" : "that stage or micro-batch is not this rank's";
  }

  std::string weights(const Piece& piece) {
    if (left_.erase(piece) == 0) return "no backward of its inputs has left it";
    --kept_;
    return updated_ ? "the update was before" : "";
  }

  std::string what_is_missing() const {
    if (!left_.empty())
      return format("stage {} has not made the gradients of weights of micro-batch {}", left_.begin()->first,
                    left_.begin()->second);
    for (const int64_t stage : plan_.pipeline.stages_of(index_))
      for (int64_t i = 0; i < plan_.pipeline.micro_batches; ++i)
        if (!backwards_.contains({stage, i}))
          return format("stage {} has not run micro-batch {} {}", stage, i,
                        forwards_.contains({stage, i}) ? "backward" : "forward");
    return updated_ ? "" : "it ends without an update";
  }

  const Plan& plan_;
  int rank_;
  int64_t index_;  // along pp
  std::set<Piece> inputs_, gradients_, forwards_, backwards_, states_sent_, gradients_sent_;
  std::set<Piece> left_;  // backwards of inputs without those of weights
  int64_t kept_ = 0;
  bool updated_ = false;
};

}  // namespace

std::optional<PlanDefect> find_defect(const Plan& plan) {
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank)
    if (auto defect = RankCheck(plan, rank).run()) return defect;
  return walk(plan, [](int, const Instruction&) { return 0.0; }).defect;
}

void check(const Plan& plan) {
  const auto defect = find_defect(plan);
  if (!defect) return;
  const auto& list = plan.ranks[static_cast<size_t>(defect->rank)];
  throw base::ConfigError(
      format("this plan of {} cannot be carried out: rank {}, instruction {}{}: {}", plan.layout.text(), defect->rank,
             defect->instruction,
             defect->instruction < list.size() ? format(" ({})", plan.text(list[defect->instruction])) : " (the end)",
             defect->what),
      "nothing was started");
}

}  // namespace hyperion::strategy
