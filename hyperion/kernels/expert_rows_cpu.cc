#include <ATen/Parallel.h>

#include <vector>

#include "hyperion/kernels/expert_rows_math.h"

namespace hyperion::kernels {

void sort_by_expert_cpu(const ExpertSort& sort) {
  std::vector<int64_t> start(static_cast<size_t>(sort.experts) + 1), turn(static_cast<size_t>(sort.experts));
  for (int64_t slot = 0; slot < sort.slots; ++slot)
    if (sort.chosen[slot] >= 0) ++start[static_cast<size_t>(sort.chosen[slot]) + 1];
  for (size_t e = 0; e + 1 < start.size(); ++e) {
    start[e + 1] += start[e];
    sort.ends[e] =
        static_cast<int32_t>(sort.capacity == 0 ? start[e + 1] : static_cast<int64_t>(e + 1) * sort.capacity);
  }
  for (int64_t slot = 0; slot < sort.slots; ++slot) {
    sort.row_of[slot] = -1;
    if (sort.chosen[slot] < 0) continue;
    const auto expert = static_cast<size_t>(sort.chosen[slot]);
    const int64_t row = row_of_turn(sort, sort.chosen[slot], start[expert], turn[expert]++);
    sort.row_of[slot] = static_cast<int32_t>(row);
    if (row >= 0) sort.slot_of[row] = static_cast<int32_t>(slot);
  }
}

template <class T>
void spread_rows_cpu(const SpreadRows<T>& r) {
  at::parallel_for(0, r.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin * r.choices; slot < end * r.choices; ++slot) {
      const int64_t row = r.row_of[slot];
      if (row < 0) {
        if (r.dots != nullptr) r.dots[slot] = 0;
        continue;
      }
      const T* in = r.in + slot / r.choices * r.width;
      T* out = r.out + row * r.width;
      const float weight = r.weights != nullptr ? r.weights[slot] : 1;
      for (int64_t i = 0; i < r.width; ++i) store(out[i], weight * to_float(in[i]));
      if (r.dots == nullptr) continue;
      float sum = 0;
      for (int64_t i = 0; i < r.width; ++i) sum += to_float(in[i]) * to_float(r.against[row * r.width + i]);
      r.dots[slot] = sum;
    }
  });
  if (r.slot_of == nullptr) return;
  for (int64_t row = 0; row < r.rows; ++row)
    if (r.slot_of[row] < 0)
      for (int64_t i = 0; i < r.width; ++i) store(r.out[row * r.width + i], 0);
}

template <class T>
void collect_rows_cpu(const CollectRows<T>& r) {
  at::parallel_for(0, r.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token)
      for (int64_t i = 0; i < r.width; ++i) {
        float sum = 0;
        for (int64_t slot = token * r.choices; slot < (token + 1) * r.choices; ++slot)
          if (const int64_t row = r.row_of[slot]; row >= 0)
            sum += (r.weights != nullptr ? r.weights[slot] : 1.0f) * to_float(r.in[row * r.width + i]);
        store(r.out[token * r.width + i], sum);
      }
  });
}

template void spread_rows_cpu(const SpreadRows<float>&);
template void collect_rows_cpu(const CollectRows<float>&);
template void spread_rows_cpu(const SpreadRows<Bfloat16>&);
template void collect_rows_cpu(const CollectRows<Bfloat16>&);
template void spread_rows_cpu(const SpreadRows<Half>&);
template void collect_rows_cpu(const CollectRows<Half>&);

}  // namespace hyperion::kernels
