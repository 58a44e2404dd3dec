// The raw loops of GELU on the CPU.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

template <class T>
void gelu_cpu(const T* in, T* out, int64_t count);
// out = upstream * gelu'(in)
template <class T>
void gelu_backward_cpu(const T* in, const T* upstream, T* out, int64_t count);

}  // namespace hyperion::kernels
