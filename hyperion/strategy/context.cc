#include "hyperion/strategy/context.h"

#include <algorithm>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::strategy {

using base::format;

TokenCut token_cut(ContextMethod method, int64_t processes, int64_t index, int64_t length) {
  const int64_t runs = method == ContextMethod::ring ? 2 * processes : processes;
  HYPERION_CHECK(length % runs == 0, "the processes of cp divide the tokens of a sample");
  const int64_t run = length / runs;
  return {length, run, index * run, method == ContextMethod::ring ? (runs - 1 - index) * run : -1};
}

TokenCut part_of(const TokenCut& cut, int64_t parts, int64_t index) {
  const int64_t run = cut.own() / parts, begin = index * run;
  HYPERION_CHECK(cut.own() % parts == 0 && (cut.second < 0 || cut.run % run == 0), "a part lies in one run");
  return {cut.all, run, begin < cut.run ? cut.first + begin : cut.second + begin - cut.run};
}

int64_t held_key_value_heads(const TokenMixing& mixing, int64_t tp) {
  return std::max<int64_t>(1, mixing.key_value_heads / tp);
}

int64_t key_value_copies(int64_t key_value_heads, int64_t processes) {
  return processes / std::gcd(key_value_heads, processes);
}

void check_context(const Layout& layout, ContextMethod method, int64_t length, const TokenMixing& mixing) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw base::ConfigError(format("parallel.layout = \"{}\" {}", layout.text(), what), instead);
  };
  if (mixing.heads == 0)
    refuse("cuts the tokens of samples, and this model has no causal attention over tokens",
           format("use dp={}", layout.processes()));
  if (mixing.crowding)
    refuse("cuts the tokens of samples, and experts with a capacity choose among all of them",
           "set model.capacity = 0, or leave cp out");
  const int64_t runs = method == ContextMethod::ring ? 2 * layout.cp : layout.cp;
  if (length % runs != 0)
    refuse(format("cuts the {} tokens of a sample into {}{}", length, runs,
                  method == ContextMethod::ring ? " (parallel.context = \"ring\" gives each process two runs of them)"
                                                : ""),
           format("choose a train.length that {} divides: {}{}", runs,
                  length > runs ? format("{} or ", length / runs * runs) : "", (length / runs + 1) * runs));
  const int64_t heads = mixing.heads / layout.tp;
  if (method == ContextMethod::ulysses && heads % layout.cp != 0)
    refuse(format("deals out the {} attention heads{} with parallel.context = \"ulysses\", and {} does not divide them",
                  heads, layout.tp > 1 ? " that a process of tp has" : "", layout.cp),
           format("use cp={}, or parallel.context = \"ring\"", std::gcd(heads, layout.cp)));
}

void check_sequence_in_context(const Layout& layout, ContextMethod method, int64_t length) {
  const int64_t own = length / layout.cp;
  const bool ring = method == ContextMethod::ring;
  const auto what = format("parallel.layout = \"{}\" leaves a process of cp {} tokens of a sample, and {} cannot cut ",
                           layout.text(), own, format("tp={}", layout.tp));
  if (ring && layout.tp % 2 != 0)
    throw base::ConfigError(what + "their two runs into equal parts, as sequence parallelism does",
                            "use an even tp, parallel.context = \"ulysses\", or leave sequence parallelism out");
  if (own % layout.tp == 0) return;
  const int64_t unit = std::lcm(layout.cp * layout.tp, ring ? 2 * layout.cp : layout.cp);
  throw base::ConfigError(what + "them into equal parts, as sequence parallelism does",
                          format("choose a train.length that {} divides, or leave sequence parallelism out", unit));
}

}  // namespace hyperion::strategy
