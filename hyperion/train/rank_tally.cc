#include "hyperion/train/rank_tally.h"

#include "hyperion/parallel/processes.h"

namespace hyperion::train {

void RankTally::begin_anew() {
  record_ = {};
  warm_ = true;
}

void RankTally::resume() {
  if (counts_) return;
  before_ = processes_.traffic_by_caller();
  counts_ = true;
}

void RankTally::pause() {
  if (!counts_) return;
  counts_ = false;
  for (const auto& [key, now] : processes_.traffic_by_caller()) {
    const auto& before = before_[key];
    if (now.calls == before.calls) continue;
    auto& sum = record_.traffic[key];
    sum.calls += now.calls - before.calls, sum.bytes += now.bytes - before.bytes;
    sum.seconds += now.seconds - before.seconds, sum.exposed += now.exposed - before.exposed;
  }
}

void RankTally::write(base::FileSystem& files, const base::Path& run, const MemoryReport& held) {
  if (record_.steps == 0) return;
  record_.weights = held.weights, record_.gradients = held.gradients;
  record_.optimizer = held.optimizer, record_.optimizer_on_host = held.optimizer_on_host;
  const auto told = processes_.control().gather_text(report::to_json(record_), "ranks");
  if (processes_.first()) report::write_ranks(files, run, told);
}

}  // namespace hyperion::train
