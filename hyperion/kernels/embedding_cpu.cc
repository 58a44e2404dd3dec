#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "hyperion/kernels/embedding_math.h"

namespace hyperion::kernels {

template <class T>
void embedding_cpu(const EmbeddingRows<T>& r) {
  at::parallel_for(0, r.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t id = r.ids[token];
      const bool known = id >= 0 && id < r.rows;
      for (int64_t i = 0; i < r.width; ++i) {
        const float value = known ? to_float(r.table[id * r.width + i]) : NAN;
        const float place = r.positions != nullptr ? to_float(r.positions[token % r.length * r.width + i]) : 0.0f;
        store(r.out[token * r.width + i], value + place);
      }
    }
  });
}

template <class T>
void embedding_gradient_cpu(const EmbeddingGradient<T>& g) {
  std::vector<int64_t> order(static_cast<size_t>(g.tokens)), starts;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return g.ids[a] < g.ids[b]; });
  const auto id_at = [&](int64_t i) { return g.ids[order[static_cast<size_t>(i)]]; };
  for (int64_t i = 0; i < g.tokens; ++i)
    if (i == 0 || id_at(i) != id_at(i - 1)) starts.push_back(i);
  starts.push_back(g.tokens);
  at::parallel_for(0, static_cast<int64_t>(starts.size()) - 1, 4, [&](int64_t begin, int64_t end) {
    for (auto run = static_cast<size_t>(begin); run < static_cast<size_t>(end); ++run) {
      const int64_t id = id_at(starts[run]);
      if (id < 0 || id >= g.rows) continue;
      for (int64_t i = 0; i < g.width; ++i) {
        float sum = 0;
        for (int64_t at = starts[run]; at < starts[run + 1]; ++at)
          sum += to_float(g.dy[order[static_cast<size_t>(at)] * g.width + i]);
        T& out = g.table[id * g.width + i];
        store(out, to_float(out) + sum);
      }
    }
  });
}

template <class T>
void positions_gradient_cpu(const PositionsGradient<T>& g) {
  at::parallel_for(0, g.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t place = row - g.first;
      const int64_t texts = place >= 0 && place < g.length ? g.texts : 0;
      for (int64_t i = 0; i < g.width; ++i) {
        float sum = 0;
        for (int64_t text = 0; text < texts; ++text) sum += to_float(g.dy[(text * g.length + place) * g.width + i]);
        store(g.positions[row * g.width + i], sum);
      }
    }
  });
}

template void embedding_cpu(const EmbeddingRows<float>&);
template void embedding_gradient_cpu(const EmbeddingGradient<float>&);
template void positions_gradient_cpu(const PositionsGradient<float>&);
template void embedding_cpu(const EmbeddingRows<Bfloat16>&);
template void embedding_gradient_cpu(const EmbeddingGradient<Bfloat16>&);
template void positions_gradient_cpu(const PositionsGradient<Bfloat16>&);
template void embedding_cpu(const EmbeddingRows<Half>&);
template void embedding_gradient_cpu(const EmbeddingGradient<Half>&);
template void positions_gradient_cpu(const PositionsGradient<Half>&);

}  // namespace hyperion::kernels
