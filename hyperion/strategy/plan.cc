#include "hyperion/strategy/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/strategy/stage_work.h"

namespace hyperion::strategy {
namespace {

using base::format;

// What a rank has of one unit: of a block, or of what lies before or behind the blocks.
struct UnitPart {
  int64_t parameters = 0, trained = 0;
  std::map<std::vector<int>, int64_t> shared;  // trained ones whose gradients are parts of a sum, by who holds them

  void operator+=(const UnitPart& other) { parameters += other.parameters, trained += other.trained; }
};

int64_t product(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t round_up(int64_t count, int64_t step) { return (count + step - 1) / step * step; }

// The steps of one rank, written down one after the other.
class RankPlan {
 public:
  RankPlan(const PlannedModel& model, const PlannedStep& step, const std::vector<RankWork>& work, Plan& plan, int rank)
      : model_(model),
        step_(step),
        work_(work),
        plan_(plan),
        mesh_(step.layout, rank),
        list_(plan.ranks[static_cast<size_t>(rank)]) {
    for (int64_t unit = -1; unit <= model.blocks; ++unit)
      units_.push_back(unit_of(unit, /*experts=*/false)), experts_.push_back(unit_of(unit, /*experts=*/true));
  }

  void write() {
    const auto& work = work_[static_cast<size_t>(mesh_.index(Axis::pp))];
    plan_.kept.push_back(most_kept(work));
    for (const auto& one : work) compute(one);
    finish();
    UnitPart all, experts;
    for (const int64_t unit : own_units()) all += part(unit), all += experts_of(unit), experts += experts_of(unit);
    plan_.parameters.push_back(all.parameters), plan_.expert_parameters.push_back(experts.parameters);
    plan_.trained.push_back(all.trained), plan_.expert_trained.push_back(experts.trained);
    plan_.gathered.push_back(step_.zero == 3 && shards() > 1 ? most_gathered() : 0);
  }

 private:
  int64_t tp() const { return step_.layout.tp; }
  int64_t cp() const { return step_.layout.cp; }
  int64_t shards() const { return step_.layout.dp_shard * cp(); }  // of what ZeRO cuts
  int64_t ep() const { return step_.layout.ep; }
  int64_t expert_shards() const { return shards() / ep(); }
  int64_t own_length() const { return step_.length / cp(); }
  int64_t last_stage() const { return plan_.pipeline.stages() - 1; }
  const UnitPart& part(int64_t unit) const { return units_[static_cast<size_t>(unit + 1)]; }
  const UnitPart& experts_of(int64_t unit) const { return experts_[static_cast<size_t>(unit + 1)]; }
  bool ends_apart() const { return !model_.tied.empty() && plan_.pipeline.last_rank() != 0; }

  // With sequence parallelism a weight that all hold sees a part of the tokens on each.
  bool is_partial(const Cut& cut) const {
    const bool whole = cut.kind == CutKind::none || cut.kind == CutKind::row_bias;
    return cut.copies == Copies::partial || (whole && step_.sequence_parallel);
  }

  std::vector<int> sharers(const Cut& cut) const {
    const auto peers = mesh_.peers(Axis::tp);
    const auto [first, count] = sharers_of(cut, tp(), mesh_.index(Axis::tp));
    return {peers.begin() + first, peers.begin() + first + count};
  }

  bool shared_out(const PlannedTensor& tensor) const {
    return ep() > 1 && cut_of(model_.cuts, tensor.name).experts > 0;
  }

  bool is_elsewhere(const PlannedTensor& tensor) const {
    const auto found = cut_of(model_.cuts, tensor.name);
    return !holds_expert(found.expert, found.experts, ep(), mesh_.expert_index());
  }

  Cut cut_here(const PlannedTensor& tensor) const { return tp() > 1 ? cut_of(model_.cuts, tensor.name).cut : Cut{}; }

  int64_t held_of(const PlannedTensor& tensor, const Cut& cut) const {
    int64_t held = 0;
    for (const auto& box : boxes_of(cut, tensor.name, tensor.shape, tp(), mesh_.index(Axis::tp)))
      held += product(box.offset.empty() ? box.whole : box.size);
    return held;
  }

  // Of experts that ep shares out, or of all else.
  UnitPart unit_of(int64_t unit, bool experts) const {
    UnitPart found;
    for (const auto& tensor : model_.tensors) {
      const bool again = unit == model_.blocks && ends_apart() && tensor.name == model_.tied;
      if ((tensor.block != unit && !again) || shared_out(tensor) != experts) continue;
      if (experts && is_elsewhere(tensor)) continue;
      const Cut cut = cut_here(tensor);
      const int64_t held = held_of(tensor, cut);
      found.parameters += held;
      if (!tensor.trained) continue;
      found.trained += held;
      if (tp() > 1 && is_partial(cut))
        if (const auto ranks = sharers(cut); ranks.size() > 1) found.shared[ranks] += held;
    }
    return found;
  }

  // Of a stage, in the order of the forward.
  std::vector<int64_t> units_of(int64_t stage) const {
    std::vector<int64_t> units;
    if (stage == 0) units.push_back(-1);
    for (int64_t i = plan_.first_blocks[static_cast<size_t>(stage)];
         i < plan_.first_blocks[static_cast<size_t>(stage) + 1]; ++i)
      units.push_back(i);
    if (stage == last_stage()) units.push_back(model_.blocks);
    return units;
  }

  std::vector<int64_t> own_units() const {
    std::vector<int64_t> units;
    for (const int64_t stage : plan_.pipeline.stages_of(mesh_.index(Axis::pp)))
      for (const int64_t unit : units_of(stage)) units.push_back(unit);
    return units;
  }

  // Of zero 3, in a backward: what lies outside of the blocks is freed after the last one alone, and so is a first
  // block below which nothing is trained, as no gradient comes to where it would be.
  bool stays(int64_t unit) const { return !is_block(unit) || (unit == 0 && part(-1).trained == 0); }

  void gather(int64_t unit) {
    if (step_.zero != 3 || !there_.insert(unit).second) return;
    over_shards(Does::all_gather, Payload::weights, part(unit).parameters);
    over_expert_shards(Does::all_gather, Payload::weights, experts_of(unit).parameters);
  }
  int64_t last_block() const {  // with which backwards begin: it is not freed before
    int64_t last = -1;
    for (const int64_t unit : own_units())
      if (is_block(unit)) last = std::max(last, unit);
    return last;
  }

  bool is_block(int64_t unit) const { return unit >= 0 && unit < model_.blocks; }

  int64_t most_gathered() const {
    int64_t outside = 0, block = 0;
    for (const int64_t unit : own_units()) {
      const int64_t experts = expert_shards() > 1 ? experts_of(unit).parameters : 0;
      if (is_block(unit))
        block = std::max(block, part(unit).parameters + experts);
      else
        outside += part(unit).parameters;
    }
    return outside + 2 * block;
  }

  int group(const std::string& name, std::vector<int> ranks) {
    const PlanGroup wanted{name, std::move(ranks)};
    const auto found = std::find(plan_.groups.begin(), plan_.groups.end(), wanted);
    if (found != plan_.groups.end()) return static_cast<int>(found - plan_.groups.begin());
    plan_.groups.push_back(wanted);
    return static_cast<int>(plan_.groups.size()) - 1;
  }

  void collective(Does does, Payload payload, int group, std::vector<int64_t> shape, int64_t element) {
    list_.push_back({does, stage_, micro_batch_, payload, -1, group, std::move(shape), element});
  }

  void hidden(Does does, bool forward) {
    collective(does, forward ? Payload::hidden_states : Payload::hidden_gradients, group("tp", mesh_.peers(Axis::tp)),
               {step_.samples, own_length(), model_.width}, step_.element);
  }

  // A region of cut weights: what flows in is needed by all, what flows out is a part of a sum on each. With sequence
  // parallelism either end is a part of the sequence.
  void into_cut(bool forward) {
    if (step_.sequence_parallel) hidden(Does::all_gather, forward);
  }
  void out_of_cut(bool forward) { hidden(step_.sequence_parallel ? Does::reduce_scatter : Does::all_reduce, forward); }

  // Attention, then the feed-forward part; backward in the other order, with the ends' parts exchanged.
  // What is computed again ends before the last sum, which nothing in the block needs.
  void block_of_tp(int64_t unit, bool forward, bool again) {
    for (int half = 0; half < 2; ++half) {
      into_cut(forward);
      const bool nothing_below = !forward && half == 1 && unit == 0 && part(-1).trained == 0;
      if (!nothing_below && !(again && half == 1)) out_of_cut(forward);
    }
  }

  void unit_of_tp(int64_t unit, bool forward, bool again = false) {
    if (tp() == 1) return;
    if (is_block(unit)) return block_of_tp(unit, forward, again);
    if (unit == -1) {  // a table by rows of the vocabulary: each has some of the tokens
      if (!cuts_vocabulary(-1)) return;
      return forward ? out_of_cut(true) : part(-1).trained > 0 ? into_cut(false) : void();
    }
    const bool vocabulary = cuts_vocabulary(unit) || !model_.tied.empty();
    if (!vocabulary && !step_.sequence_parallel) return;
    if (!forward) return out_of_cut(false);
    into_cut(true);  // then of each token the logarithm of the sum of exponentials, and the target's logit
    if (vocabulary)
      collective(Does::all_gather, Payload::statistics, group("tp", mesh_.peers(Axis::tp)),
                 {tp(), 2, step_.samples, own_length()}, 4);
  }

  void over_context(Does does, Payload payload, std::vector<int64_t> shape, int64_t element) {
    collective(does, payload, group("cp", mesh_.peers(Axis::cp)), std::move(shape), element);
  }

  // Attention over samples whose tokens are cut (nn/context.cc).
  void unit_of_cp(int64_t unit, bool forward) {
    if (cp() == 1 || !is_block(unit)) return;
    const auto& mixing = model_.mixing;
    const int64_t keys = held_key_value_heads(mixing, tp()), queries = mixing.heads / tp();
    const auto tokens_of = [&](int64_t heads) {
      return std::vector<int64_t>{heads, step_.samples, own_length(), mixing.head_width};
    };
    if (step_.context == ContextMethod::ulysses) {
      const auto payload = forward ? Payload::heads : Payload::head_gradients;
      const auto ways = {queries + 2 * keys * key_value_copies(keys, cp()), queries};
      for (const int64_t heads : ways) over_context(Does::all_to_all, payload, tokens_of(heads), step_.element);
      return;
    }
    for (int64_t i = 1; i < cp(); ++i) {
      over_context(Does::pass_on, Payload::keys, tokens_of(2 * keys), step_.element);
      if (!forward) over_context(Does::pass_on, Payload::key_gradients, tokens_of(2 * keys), 4);
    }
  }

  // The tokens of a sparse layer go to their experts and home; their number is told first.
  void unit_of_ep(int64_t unit, bool forward) {
    if (ep() == 1 || experts_of(unit).parameters == 0) return;
    const auto peers = group("ep", mesh_.expert_peers());
    const int64_t rows = expert_rows(model_.experts, step_.samples * own_length());
    const auto payload = forward ? Payload::tokens : Payload::token_gradients;
    if (forward) collective(Does::all_to_all, Payload::statistics, peers, {model_.experts.experts}, 8);
    for (int way = 0; way < 2; ++way) collective(Does::all_to_all, payload, peers, {rows, model_.width}, step_.element);
  }

  bool cuts_vocabulary(int64_t unit) const {
    return std::any_of(model_.tensors.begin(), model_.tensors.end(), [&](const auto& tensor) {
      return tensor.block == unit && cut_of(model_.cuts, tensor.name).cut.kind == CutKind::vocabulary;
    });
  }

  void over_shards(Does does, Payload payload, int64_t elements) {
    if (shards() == 1 || elements == 0) return;
    collective(does, payload, group("dp", mesh_.peers(Axis::dp_shard | Axis::cp)), {round_up(elements, shards())},
               step_.element);
  }

  void over_expert_shards(Does does, Payload payload, int64_t elements) {
    if (expert_shards() == 1 || elements == 0) return;
    collective(does, payload, group("dp of experts", mesh_.expert_copies()), {round_up(elements, expert_shards())},
               step_.element);
  }

  // Neighbours in the pipeline: the rank that differs along pp alone.
  int holder(int64_t stage) const { return mesh_.peers(Axis::pp)[static_cast<size_t>(plan_.pipeline.rank_of(stage))]; }

  void message(Does does, Payload payload, int64_t other_stage) {
    const int peer = holder(other_stage);
    if (peer == mesh_.rank()) return;
    std::vector<int64_t> shape = {step_.samples, own_length(), model_.width};
    if (step_.sequence_parallel && tp() > 1) shape[1] /= tp();
    list_.push_back({does, stage_, micro_batch_, payload, peer, -1, std::move(shape), step_.element});
  }

  void compute(const StageWork& work) {
    switch (work.pass) {
      case StagePass::forward:
        return forward(work);
      case StagePass::backward:
        return backward(work, Does::backward);
      case StagePass::backward_input:
        return backward(work, Does::backward_input);
      case StagePass::backward_weights:
        list_.push_back({Does::backward_weights, work.stage, work.micro_batch});
    }
  }

  void forward(const StageWork& work) {
    stage_ = work.stage, micro_batch_ = work.micro_batch;
    if (work.stage > 0) message(Does::receive, Payload::hidden_states, work.stage - 1);
    list_.push_back({Does::forward, stage_, micro_batch_});
    for (const int64_t unit : units_of(work.stage)) {
      gather(unit);
      unit_of_tp(unit, /*forward=*/true);
      unit_of_cp(unit, /*forward=*/true);
      unit_of_ep(unit, /*forward=*/true);
      if (is_block(unit) && unit != last_block()) there_.erase(unit);
    }
    if (work.stage < last_stage()) message(Does::send, Payload::hidden_states, work.stage + 1);
  }

  void backward(const StageWork& work, Does does) {
    stage_ = work.stage, micro_batch_ = work.micro_batch;
    if (work.stage < last_stage()) message(Does::receive, Payload::hidden_gradients, work.stage + 1);
    list_.push_back({does, stage_, micro_batch_});
    auto units = units_of(work.stage);
    std::reverse(units.begin(), units.end());
    for (const int64_t unit : units) {
      gather(unit);
      if (step_.recompute && is_block(unit)) {
        unit_of_tp(unit, /*forward=*/true, /*again=*/true);
        unit_of_cp(unit, /*forward=*/true);
        unit_of_ep(unit, /*forward=*/true);
      }
      unit_of_tp(unit, /*forward=*/false);
      unit_of_cp(unit, /*forward=*/false);
      unit_of_ep(unit, /*forward=*/false);
      if (!stays(unit)) there_.erase(unit);
      if (step_.zero < 2) continue;
      over_shards(Does::reduce_scatter, Payload::gradients, part(unit).trained);
      over_expert_shards(Does::reduce_scatter, Payload::gradients, experts_of(unit).trained);
    }
    if (work.stage > 0) message(Does::send, Payload::hidden_gradients, work.stage - 1);
  }

  // Weights that several shards of a layer use: what is cut among the processes of dp is summed in pieces.
  void sum_shared(const std::vector<UnitPart>& parts, int64_t shards) {
    std::map<std::vector<int>, int64_t> all;
    for (const int64_t unit : own_units())
      for (const auto& [ranks, elements] : parts[static_cast<size_t>(unit + 1)].shared)
        all[ranks] += round_up(elements, shards) / shards;
    for (const auto& [ranks, elements] : all)
      collective(Does::all_reduce, Payload::gradients, group("tp", ranks), {elements}, step_.element);
  }

  // The table that is the output too lies on both ends of the pipeline.
  void sum_tied(int64_t shards) {
    const int64_t stage = mesh_.index(Axis::pp);
    if (!ends_apart() || (stage != 0 && plan_.pipeline.last_rank() != stage)) return;
    for (const auto& tensor : model_.tensors) {
      if (tensor.name != model_.tied || !tensor.trained) continue;
      const int64_t elements = held_of(tensor, cut_here(tensor));
      collective(Does::all_reduce, Payload::gradients, group("pp", {holder(0), holder(last_stage())}),
                 {round_up(elements, shards) / shards}, step_.element);
    }
  }

  void finish() {
    stage_ = micro_batch_ = -1;
    int64_t trained = 0, experts = 0;
    for (const int64_t unit : own_units()) trained += part(unit).trained, experts += experts_of(unit).trained;
    const auto& layout = step_.layout;
    if (step_.zero == 0 && layout.dp() * cp() > 1 && trained > 0)
      collective(Does::all_reduce, Payload::gradients, group("dp", mesh_.peers(kLossAxes)), {trained}, step_.element);
    if (step_.zero == 0) over_expert_shards(Does::all_reduce, Payload::gradients, experts);
    if (step_.zero == 1) over_shards(Does::reduce_scatter, Payload::gradients, trained);
    if (step_.zero == 1) over_expert_shards(Does::reduce_scatter, Payload::gradients, experts);
    if (step_.zero > 0 && layout.dp_replicate > 1 && trained > 0)
      collective(Does::all_reduce, Payload::gradients, group("dp copies", mesh_.peers(Axis::dp_replicate)),
                 {round_up(trained, shards()) / shards()}, step_.element);
    sum_shared(units_, step_.zero > 0 ? shards() : 1);
    sum_shared(experts_, step_.zero > 0 ? expert_shards() : 1);
    sum_tied(step_.zero > 0 ? shards() : 1);
    if (layout.processes() > 1)  // of the gradients, whose norm is that of all
      collective(Does::all_reduce, Payload::statistics, group("all", mesh_.peers(kAllAxes)), {1}, 4);
    list_.push_back({Does::update});
    if (step_.zero != 1 && step_.zero != 2) return;
    over_shards(Does::all_gather, Payload::weights, trained);
    over_expert_shards(Does::all_gather, Payload::weights, experts);
  }

  const PlannedModel& model_;
  const PlannedStep& step_;
  const std::vector<RankWork>& work_;  // of each place along pp
  Plan& plan_;
  Mesh mesh_;
  std::vector<Instruction>& list_;
  std::vector<UnitPart> units_, experts_;
  int64_t stage_ = -1, micro_batch_ = -1;
  std::set<int64_t> there_;  // units whose weights are whole here, of zero 3
};

void check(const PlannedModel& model, const PlannedStep& step) {
  const auto& layout = step.layout;
  check_experts(layout, model.cuts);
  if (layout.cp > 1) check_context(layout, step.context, step.length, model.mixing);
  if (layout.cp > 1 && layout.tp > 1 && step.sequence_parallel)
    check_sequence_in_context(layout, step.context, step.length);
  const bool can_be_cut = std::any_of(model.cuts.begin(), model.cuts.end(), [](const CutRule& rule) {
    return rule.cut.kind != CutKind::none && rule.cut.kind != CutKind::row_bias;
  });
  if (layout.tp > 1 && !can_be_cut)
    throw base::ConfigError(
        format("--parallel {}: this model cannot be cut inside of its layers: it is data parallel only", layout.text()),
        format("use dp={}", layout.processes()));
  if (layout.pp > 1 && model.blocks == 0)
    throw base::ConfigError(format("--parallel {}: this model has no blocks to make stages of", layout.text()),
                            format("use dp={}", layout.processes()));
  if (step.sequence_parallel && layout.tp > 1 && step.length % layout.tp != 0)
    throw base::ConfigError(format("--parallel {}: tp does not divide the {} tokens of a sample, which sequence "
                                   "parallelism cuts",
                                   layout.text(), step.length),
                            "choose a train.length that tp divides, or leave sequence parallelism out");
  for (const auto& tensor : model.tensors)
    HYPERION_CHECK(tensor.block >= -1 && tensor.block <= model.blocks, "a tensor is of a part of the model");
}

// By the first rank's list: the others' are about as long.
void refuse_if_long(const Layout& layout, size_t first) {
  const auto all = static_cast<double>(first) * static_cast<double>(layout.processes());
  if (all <= static_cast<double>(kMostInstructions)) return;
  throw base::ConfigError(
      format("--parallel {}: a plan of {} processes would be of {:.3g} instructions, and {} are the most",
             layout.text(), layout.processes(), all, base::with_commas(kMostInstructions)),
      "plan with a smaller dp, whose processes all do the same, or with fewer micro-batches");
}

}  // namespace

Plan make_plan(const PlannedModel& model, const PlannedStep& step, const std::function<void()>& between) {
  check(model, step);
  Plan plan{.layout = step.layout, .pipeline = {step.schedule, step.layout.pp, step.chunks, step.micro_batches}};
  check_zero(plan.pipeline, step.zero);
  const auto work = work_of(plan.pipeline);
  const bool staged = plan.pipeline.stages() > 1;
  plan.first_blocks =
      staged ? cut_into_stages(model.costs, plan.pipeline.stages()) : std::vector<int64_t>{0, model.blocks};
  refuse_if_long(step.layout, 1);
  plan.ranks.resize(static_cast<size_t>(step.layout.processes()));
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) {
    if (between) between();
    RankPlan(model, step, work, plan, rank).write();
    if (rank == 0) refuse_if_long(step.layout, plan.ranks[0].size());
  }
  return plan;
}

}  // namespace hyperion::strategy
