// The canonical workloads by name: model, batch, length and precision. One step is forward, backward, clip of the
// global gradient norm at 1, and AdamW. Figures of other shapes are not comparable with theirs. The tiny ones are for
// tests and for a first look on a CPU.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/train/config.h"

namespace hyperion::bench {

struct Workload {
  const char* name;
  const char* meaning;
  const char* preset;
  int64_t batch, length;   // length 0: images
  int64_t vocabulary = 0;  // rows of the embedding, padding included; or classes. 0: the preset's
  int64_t drawn = 0;       // random tokens lie below it; 0: all can come
  int64_t image = 0;       // side in pixels; 0: the preset's
  train::Precision precision = train::Precision::bf16;
  bool tiny = false;
};

const std::vector<Workload>& workloads();

// Throws ConfigError with the nearest name. "all": the canonical ones; "tiny": the tiny ones; else names with commas
// between them.
std::vector<const Workload*> find_workloads(const std::string& names);

// Settings by name that the bench's flags change: "train.optimize" -> "graph".
using Changes = std::vector<std::pair<std::string, std::string>>;

// Throws ConfigError where a setting is refused.
train::RunConfig config_of(const Workload& workload, const Changes& changes = {});

// What of them a result must tell beside its names: "train.batch=8"; not device, mode and precision.
std::vector<std::string> settings_of(const Changes& changes);

// What a peer needs to build the same model and batches, as one line of JSON.
std::string workload_json(const Workload& workload, const train::RunConfig& config);

}  // namespace hyperion::bench
