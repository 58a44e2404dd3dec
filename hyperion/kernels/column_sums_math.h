// The raw entry point of sums over rows: a bias's gradient.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

int64_t column_sum_parts(int64_t rows);
// sums[column] = the sum over rows, in fp32 and a fixed order; `partial` has column_sum_parts(rows) x columns floats.
template <class T>
void column_sums_gpu(const T* in, int64_t rows, int64_t columns, float* partial, T* sums, void* stream);

}  // namespace hyperion::kernels
