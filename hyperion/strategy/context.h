// Context parallelism: processes that hold the same weights, take the same samples, and each compute a part of every
// sample's tokens. Which tokens these are, and whether a model's can be cut so: plain numbers.
#pragma once
#include <array>
#include <cstdint>

#include "hyperion/strategy/layout.h"

namespace hyperion::strategy {

// How queries meet the keys of other processes. ring: keys and values go round from process to process (Liu et al.,
// 2023); ulysses: around attention each process has all tokens of some of the heads (Jacobs et al., 2023).
enum class ContextMethod { ring, ulysses };
constexpr auto words_of(ContextMethod) { return std::array{"ring", "ulysses"}; }

// The tokens of one process: one or two runs of as many that follow each other.
struct TokenCut {
  int64_t all = 0;                 // tokens of a sample; 0: the process has all of them
  int64_t run = 0;                 // tokens of a run
  int64_t first = 0, second = -1;  // where each begins; -1: there is one alone

  bool whole() const { return all == 0; }
  int64_t own() const { return second < 0 ? run : 2 * run; }
};
// Of a ring, process i of n has the i-th of 2n runs from either end: who comes late in a causal sequence has much to
// see, and so all have equal work. With ulysses tokens are cut into n.
TokenCut token_cut(ContextMethod method, int64_t processes, int64_t index, int64_t length);

// Of a cut's tokens one of as many equal parts that follow each other, which lies in one run: sequence parallelism.
TokenCut part_of(const TokenCut& cut, int64_t parts, int64_t index);

// How the tokens of a model see each other.
struct TokenMixing {
  int64_t heads = 0, key_value_heads = 0, head_width = 0;  // of causal attention; no heads: in some other way
  bool crowding = false;  // what becomes of a token depends on how many others want the same expert
};
// Key and value heads of a process of tp, and how often ulysses sends each, so that every process of cp gets as many.
int64_t held_key_value_heads(const TokenMixing& mixing, int64_t tp);
int64_t key_value_copies(int64_t key_value_heads, int64_t processes);

// Throws ConfigError where the layout's cp is impossible for samples of so many tokens, with the reason and what would
// do.
void check_context(const Layout& layout, ContextMethod method, int64_t length, const TokenMixing& mixing);
// Likewise where tp cuts the tokens of a process of cp once more (part_of).
void check_sequence_in_context(const Layout& layout, ContextMethod method, int64_t length);

}  // namespace hyperion::strategy
