// Where a step's memory goes, and the techniques that save some of it.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/nn/pass.h"

namespace hyperion::nn {
class OffloadPolicy;
class Residents;
class SaveScope;
class SavedBytesMeter;
}  // namespace hyperion::nn

namespace hyperion::train {

enum class OnOom { fail, adapt };  // adapt: half of what was computed at once, and on
constexpr auto words_of(OnOom) { return std::array{"fail", "adapt"}; }

struct MemoryConfig {
  nn::Recompute recompute = nn::Recompute::none;
  int64_t recompute_every = 1;
  bool offload_activations = false, offload_optimizer = false, report = false;
  std::string budget;
  OnOom on_oom = OnOom::fail;
};
void describe(base::Settings& settings, MemoryConfig& config);
void check(const MemoryConfig& config);

// "16GiB", "800 MB", "1.5g": bytes. Throws ConfigError naming memory.budget.
int64_t bytes_of(const std::string& text);

// "full recomputation, optimizer on the host"; "nothing" where nothing is saved.
std::string technique_text(const MemoryConfig& config);

// Opens the techniques around one forward pass; what it sets up serves the backward after it is gone.
class ForwardMemory {
 public:
  ForwardMemory(const MemoryConfig& config, const nn::Residents& residents, nn::SavedBytesMeter* meter, nn::Pass& pass);
  ~ForwardMemory();

 private:
  std::unique_ptr<nn::OffloadPolicy> offload_;
  std::unique_ptr<nn::SaveScope> metered_, offloaded_;
};

// Bytes. On a GPU peaks are the allocator's; on the CPU the sum of what is counted here.
struct MemoryReport {
  int64_t weights = 0, gradients = 0, optimizer = 0, optimizer_on_host = 0;
  int64_t activations = 0;         // held between forward and backward
  int64_t checkpoint_on_host = 0;  // the copy from which checkpoints are written in the background
  int64_t temporary = 0;           // what the peak has beyond all these
  // Of a pipeline's process, whose forwards and backwards take turns, those of the forward are 0.
  int64_t before = 0, peak_forward = 0, after_forward = 0, peak_backward = 0, after_backward = 0;
  int64_t peak() const;
};
std::string memory_table(const MemoryReport& report);
std::string to_json(const MemoryReport& report);

// LibTorch and the standard library say it in several ways.
bool is_out_of_memory(const std::exception& error);
// Such an error in our own words: while `doing` what, and how much was asked for where the error tells.
base::Error out_of_memory_error(const std::exception& error, std::string_view doing);

// From the cheapest to the most sparing; each makes the step slower than the one before it.
std::vector<MemoryConfig> choices(const MemoryConfig& config);

}  // namespace hyperion::train
