// What one forward pass carries down the module tree besides tensors: how it is made, what it is of, and what modules
// leave in it for each other. A function that needs one of the three takes that one. Light: any file may include it.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

#include "hyperion/blocks/segments.h"
#include "hyperion/strategy/context.h"

namespace hyperion::blocks {
class LaterGradients;
}

namespace hyperion::nn {

class BlockHook;
class BatchStats;
class Context;
class ExpertPeers;
class KeyValueCache;
class Shards;

// What of the forward is computed again in the backward instead of kept: nothing; norms, activations and dropout (the
// outputs of products and of attention are kept); or whole blocks.
enum class Recompute { none, selective, blocks };
constexpr auto words_of(Recompute) { return std::array{"none", "selective", "full"}; }

// How: set by whoever begins the pass, and the same for every process that takes part in it.
struct PassSettings {
  bool training = false;      // dropout is on, and batch norms learn
  bool reference = false;     // plain operations in place of fused ones
  bool fused_blocks = false;  // the steps of nn/pre_norm.h as single operations, where they can be
  bool apart = false;         // blocks give each other hidden states alone: the same bits wherever a stage begins
  bool last_only = false;     // logits of each row's last token alone: [batch, 1, vocabulary]
  uint64_t seed = 0;
  uint32_t step = 0, micro_batch = 0;
  Recompute recompute = Recompute::none;
  int64_t recompute_every = 1;              // of Recompute::blocks: each block, each second, each third
  BlockHook* block_hook = nullptr;          // set: blocks run through it
  BatchStats* batch_stats = nullptr;        // set: batch norms train on the statistics of all processes
  Shards* shards = nullptr;                 // set: layers are cut among processes (nn/shards.h)
  bool by_sequence = false;                 // of these: outside of cut layers each has its part of the sequence alone
  blocks::LaterGradients* later = nullptr;  // set: the backward leaves gradients of linears' weights there
  Context* context = nullptr;      // set: each process has PassInputs::tokens of each sample alone (nn/context.h)
  ExpertPeers* experts = nullptr;  // set: each holds some of the experts of mixtures (nn/expert_exchange.h)
};

// Of what, besides the tokens: belongs to the batch, and travels with it.
struct PassInputs {
  KeyValueCache* cache = nullptr;  // set: the input continues what the cache holds
  at::Tensor key_mask;  // bool [batch, keys, the cache's included], false: padding, seen by no one; undefined: none
  // bool [batch, length], false: padding, which routers pass over; undefined: none. Attention asks key_mask, which
  // padding behind a row's tokens does not need.
  at::Tensor token_mask;
  blocks::Segments segments;  // documents that lie in one row and do not see each other; always of whole rows
  // int64 [batch or 1, length]: each token's; undefined: counted on from the cache's length.
  at::Tensor positions;
  strategy::TokenCut tokens;  // which of each sample's the input is, where others have the rest
  at::Tensor reach;           // int64: of such, how many tokens all together reach over, padding aside
  // Of each row of the batch, by Adapters::index, -1: none; one: of every row; empty: as Adapters::use said.
  std::vector<int64_t> adapters;
};

// What modules leave for those behind them, or for whoever began the pass: made anew by every process from its inputs.
struct PassScratch {
  int64_t blocks = 0;                     // begun so far
  bool recomputing = false;               // this forward repeats one: leave running statistics and counters alone
  at::Tensor* right = nullptr;            // set: how many targets are the likeliest is added to it
  at::Tensor cosines, sines;              // of the tokens' positions; set by models with rotary positions
  at::Tensor half_cosines, half_sines;    // the same for fused blocks: fp32 [positions, head width / 2]
  std::vector<at::Tensor> router_logits;  // [tokens, experts] a layer; left by mixtures of experts
  at::Tensor router_sums;                 // of layers that ran in another process (nn/router_losses.h)
  at::Tensor auxiliary_loss;              // a fp32 scalar to add to the loss; left by models that have one
};

struct Pass : PassSettings, PassInputs, PassScratch {};

}  // namespace hyperion::nn
