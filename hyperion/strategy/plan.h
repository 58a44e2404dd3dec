// What every process of a layout does in a step, in its order: which micro-batch of which stage it computes, and what
// it tells whom. Lists of plain data, made before anything runs: to be shown, checked (plan_check.h), timed
// (plan_walk.h) and carried out.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/strategy/context.h"
#include "hyperion/strategy/cut.h"
#include "hyperion/strategy/expert_parallel.h"
#include "hyperion/strategy/layout.h"
#include "hyperion/strategy/mesh.h"
#include "hyperion/strategy/pipeline.h"

namespace hyperion::strategy {

// pass_on: each of a group sends to the next, round a ring.
enum class Does {
  forward,
  backward,
  backward_input,
  backward_weights,
  send,
  receive,
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  pass_on,
  update
};
constexpr auto words_of(Does) {
  return std::array{"forward",    "backward",   "backward of inputs", "backward of weights", "send",    "receive",
                    "all-reduce", "all-gather", "reduce-scatter",     "all-to-all",          "pass on", "update"};
}
constexpr bool computes(Does does) { return does <= Does::backward_weights; }
constexpr bool is_collective(Does does) { return does >= Does::all_reduce && does <= Does::pass_on; }

enum class Payload {
  nothing,
  hidden_states,
  hidden_gradients,
  weights,
  gradients,
  statistics,
  keys,
  key_gradients,
  heads,
  head_gradients,
  tokens,
  token_gradients
};
constexpr auto words_of(Payload) {
  return std::array{"nothing",   "hidden states",      "hidden gradients", "weights",
                    "gradients", "statistics",         "keys and values",  "gradients of keys and values",
                    "heads",     "gradients of heads", "tokens",           "gradients of tokens"};
}

struct Instruction {
  Does does;
  int64_t stage = -1, micro_batch = -1;  // -1: of the whole step
  Payload payload = Payload::nothing;
  int peer = -1;                    // the other rank of a message
  int group = -1;                   // of a collective, in Plan::groups
  std::vector<int64_t> shape = {};  // of what is sent; of the sum, of what is gathered, or of what is scattered
  int64_t element = 0;              // bytes of one number

  int64_t bytes() const;  // of that shape
  bool operator==(const Instruction&) const = default;
};

struct PlanGroup {
  std::string name;        // of the axis
  std::vector<int> ranks;  // from the lowest
  bool operator==(const PlanGroup&) const = default;
};

struct Plan {
  Layout layout = {};
  Pipeline pipeline = {};
  std::vector<int64_t> first_blocks = {};            // of each stage, and behind them the number of blocks
  std::vector<PlanGroup> groups = {};                // that talk together
  std::vector<std::vector<Instruction>> ranks = {};  // what each does
  std::vector<int64_t> kept = {};                    // the most micro-batches, of each stage, that a rank keeps at once
  std::vector<int64_t> parameters = {},
                       trained = {};  // that a rank computes with, before ZeRO cuts them; of them, trained

  std::vector<int64_t> expert_parameters = {}, expert_trained = {};  // of them, those that ep shares out

  // Of zero 3: parameters that a rank has whole at once besides its pieces, with one block ahead.
  std::vector<int64_t> gathered = {};

  std::string text(const Instruction& instruction) const;
  // What a rank sends for it, where collectives go round a ring.
  double bytes_sent(const Instruction& instruction) const;
};

// A model as plans see it.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t block = 0;  // -1: of the first part; as many as there are blocks: of the last part
  bool trained = true;
};
struct PlannedModel {
  std::vector<PlannedTensor> tensors = {};
  std::vector<CutRule> cuts = {};  // none: it cannot be cut inside of a layer
  TokenMixing mixing = {};
  ExpertUse experts = {};
  int64_t blocks = 0, width = 0;
  int64_t image_tokens = 0;  // that a block sees of an image; 0: it sees a sequence
  std::string tied = {};     // the first part's table that is the last part's weight too
  PartCosts costs = {};
};

struct PlannedStep {
  Layout layout = {};
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t chunks = 1;               // stages a process
  int64_t micro_batches = 1;        // of each process of dp
  int64_t samples = 1, length = 1;  // of a micro-batch, and tokens of a sample
  int64_t zero = 0;
  bool sequence_parallel = false;  // norms and dropout of a tp group each on a part of the sequence
  ContextMethod context = ContextMethod::ring;
  bool recompute = false;  // blocks run forward again before their backward
  int64_t element = 4;     // bytes of a weight and of a hidden state; gradients travel as these too
};

// Throws ConfigError where the layout is impossible for the model, with the reason and what would do; and where the
// lists would have more than kMostInstructions between them. `between`: called between two ranks' lists.
constexpr size_t kMostInstructions = 2'000'000;
Plan make_plan(const PlannedModel& model, const PlannedStep& step, const std::function<void()>& between = {});

}  // namespace hyperion::strategy
