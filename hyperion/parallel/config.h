// Settings of runs on several processes.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "hyperion/comm/nccl_settings.h"
#include "hyperion/strategy/context.h"
#include "hyperion/strategy/layout.h"
#include "hyperion/strategy/pipeline.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::parallel {

enum class Wire { own, fp32, bf16, fp16 };  // type of gradients between processes; own: as they are
constexpr auto words_of(Wire) { return std::array{"own", "fp32", "bf16", "fp16"}; }

enum class ReduceChoice { automatic, library, fixed };  // automatic: the library over NCCL, else fixed
constexpr auto words_of(ReduceChoice) { return std::array{"auto", "library", "fixed"}; }

// What ZeRO++ does, from any of "weights,secondary,grads".
class ZeroPlusPlus {
 public:
  ZeroPlusPlus() = default;
  explicit ZeroPlusPlus(const std::string& text);  // throws ConfigError
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  bool weights() const { return weights_; }
  bool secondary() const { return secondary_; }
  bool grads() const { return grads_; }
  bool nodes() const { return secondary_ || grads_; }

 private:
  std::string text_;  // as it was written, for the run's record
  bool weights_ = false, secondary_ = false, grads_ = false;
};

struct ParallelConfig {
  std::string layout;  // "dp=4"; empty: all processes share the batch
  strategy::PipelineSchedule schedule = strategy::PipelineSchedule::one_forward_one_backward;
  int64_t chunks = 0;     // stages a process; 0: as the schedule usually has them
  bool sequence = false;  // of tp: sequence parallelism
  strategy::ContextMethod context = strategy::ContextMethod::ring;
  int64_t zero = 0, bucket = 25, prefetch = 1, check_every = 100, timeout = 60, stall = 15;
  Wire wire = Wire::own;
  ReduceChoice reduce = ReduceChoice::automatic;
  ZeroPlusPlus zeropp;
  int64_t node_size = 0;
  comm::NcclConfig nccl;
  bool sync_batch_norm = false, same_bits = false, check_calls = false;

  int64_t stages() const {  // of a process
    return chunks > 0 ? chunks : strategy::usual_chunks(schedule);
  }
};
void describe(base::Settings& settings, ParallelConfig& config);

// For so many processes. Throws ConfigError where they are not what the layout says, or it asks for what is not there.
strategy::Layout layout_of(const ParallelConfig& config, int64_t processes);

}  // namespace hyperion::parallel
