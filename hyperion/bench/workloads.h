// The workloads by name: model, batch, length, precision and settings. One step is forward, backward, clip of the
// global gradient norm at 1, and AdamW. Figures of other shapes are not comparable with theirs.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/train/config.h"

namespace hyperion::bench {

// Settings by name: "train.optimize" -> "graph".
using Changes = std::vector<std::pair<std::string, std::string>>;

enum class WorkloadGroup {
  all,       // the canonical ones, with whole models and full rows
  finetune,  // adapters, and documents packed into rows
  tiny,      // of each kind, for tests and for a first look on a CPU
};
constexpr auto words_of(WorkloadGroup) { return std::array{"all", "finetune", "tiny"}; }

struct Workload {
  const char* name;
  const char* meaning;
  const char* preset;
  int64_t batch, length;   // length 0: images
  int64_t vocabulary = 0;  // rows of the embedding, padding included; or classes. 0: the preset's
  int64_t drawn = 0;       // random tokens lie below it; 0: all can come
  int64_t image = 0;       // side in pixels; 0: the preset's
  train::Precision precision = train::Precision::bf16;
  WorkloadGroup group = WorkloadGroup::all;
  Changes settings = {};
};

const std::vector<Workload>& workloads();

// A group, or names with commas between them. Throws ConfigError with the nearest name.
std::vector<const Workload*> find_workloads(const std::string& names);

// With what the bench's flags change. Throws ConfigError where a setting is refused.
train::RunConfig config_of(const Workload& workload, const Changes& changes = {});

// What of them a result must tell beside its names: "train.batch=8"; not device, mode and precision.
std::vector<std::string> settings_of(const Changes& changes);

// What a peer needs to build the same model and batches, as one line of JSON.
std::string workload_json(const Workload& workload, const train::RunConfig& config);

}  // namespace hyperion::bench
