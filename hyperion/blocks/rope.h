// Rotary positions (Su et al., 2021) in the form of halves: element i of a head turns with element i + head width / 2.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace hyperion::blocks {

enum class RopeScaling {
  none,
  linear,   // every frequency by 1 / factor
  llama3,   // low frequencies by 1 / factor, high ones as they are, those between blended
  yarn,     // likewise, blended by how often a pair turns over the original context (Peng et al., 2023)
  dynamic,  // theta grows with sequences that are longer than the original context (NTK)
};

struct RopeConfig {
  double theta = 10000;  // pair i turns by theta^(-2 i / head width) radians a token
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;  // of llama3, in turns over the original context
  double fast_turns = 32, slow_turns = 1;  // of yarn: pairs with more turns stay as they are, with fewer are slowed
  bool whole_pairs = true;                 // of yarn: the bounds between them are rounded outwards to whole pairs
  double table_scale = 1;                  // of yarn: cosines and sines are multiplied by it
  int64_t original_context = 8192;         // of llama3, yarn and dynamic
};

// Radians a token of each pair of a head: fp32 [head_width / 2] on the CPU. Dynamic: of sequences within the original
// context.
at::Tensor rope_frequencies(int64_t head_width, const RopeConfig& config);
// The same of dynamic scaling for sequences of `length`, an int64 scalar, on its device: nothing waits for the device.
at::Tensor rope_frequencies(int64_t head_width, const RopeConfig& config, const at::Tensor& length);

// Cosines and sines at positions first .. first + length - 1, times `scale`: [length, head width], reckoned in fp32, in
// `type`.
std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, int64_t first, int64_t length,
                                              at::ScalarType type, double scale = 1);
// The same at positions that differ from row to row: int64 [batch, length] -> [batch, 1, length, head width].
std::pair<at::Tensor, at::Tensor> rope_tables(const at::Tensor& frequencies, const at::Tensor& positions,
                                              at::ScalarType type, double scale = 1);

// input: [batch, heads, length, head width]; tables as above, of its type. Differentiable; one pass each way on a GPU,
// elsewhere plain operations.
at::Tensor rope(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines);

// The same in plain operations.
at::Tensor rope_reference(const at::Tensor& input, const at::Tensor& cosines, const at::Tensor& sines);

}  // namespace hyperion::blocks
