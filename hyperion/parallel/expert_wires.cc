#include "hyperion/parallel/expert_wires.h"

#include <ATen/ops/empty.h>

#include <numeric>

namespace hyperion::parallel {

at::Tensor ExpertWires::exchange(const at::Tensor& rows, const std::vector<int64_t>& sent,
                                 const std::vector<int64_t>& received, const char* caller) {
  const int64_t width = rows.size(1);
  const auto elements = [width](comm::Transport::Counts counts) {
    for (auto& count : counts) count *= width;
    return counts;
  };
  const auto own = rows.contiguous();
  const auto given = at::empty({std::reduce(received.begin(), received.end()), width}, rows.options());
  group_.all_to_all(given, own, elements(received), elements(sent), caller).wait();
  return given;
}

}  // namespace hyperion::parallel
