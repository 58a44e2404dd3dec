// The raw entry point of the second half of sums over rows: what blocks left as parts, added up in a fixed order.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// partial: [parts, sections x width]; the sums of section s go to out[s], `width` each.
template <class T>
struct PartSums {
  const float* partial;
  int32_t parts, sections, width;
  T* out[3];
};

constexpr int kPartSumsAtOnce = 64;  // in one launch

// Queued behind the kernel that left the last of the parts.
template <class T>
void add_parts_gpu(const PartSums<T>* sums, int count, void* stream);

}  // namespace hyperion::kernels
