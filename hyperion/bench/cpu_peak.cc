#include "hyperion/bench/cpu_peak.h"

#include <algorithm>
#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

#include "hyperion/base/clock.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {
namespace {

// Small enough that the accumulators stop growing long before they overflow.
constexpr float kFactor = 1e-3f;

struct Loop {
  float (*run)(int64_t rounds);  // returns something that depends on every accumulator
  double operations_a_round;
  const char* vectors;
};

// Each loop adds factor * factor to every accumulator. The empty asm makes the compiler take the factor for changed, so
// that it neither multiplies once and only adds, nor merges accumulators. The loops differ in vector width and target
// alone; they are written out because a vector type is split by the target of the function it stands in, so no body can
// be shared.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) float run_avx512(int64_t rounds) {
  using Vector = float __attribute__((vector_size(64)));
  Vector sums[24] = {}, factor = Vector{} + kFactor, total = {};
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < 24; ++i) {
      asm volatile("" : "+v"(factor));
      sums[i] += factor * factor;
    }
  }
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

__attribute__((target("avx2,fma"))) float run_avx2(int64_t rounds) {
  using Vector = float __attribute__((vector_size(32)));
  Vector sums[12] = {}, factor = Vector{} + kFactor, total = {};
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) {
      asm volatile("" : "+x"(factor));
      sums[i] += factor * factor;
    }
  }
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

using BaseVector = float __attribute__((vector_size(16)));
constexpr int kBaseAccumulators = 12;
constexpr const char* kBaseVectors = "SSE2";
inline void touch(BaseVector& vector) { asm volatile("" : "+x"(vector)); }
#elif defined(__aarch64__)
using BaseVector = float __attribute__((vector_size(16)));
constexpr int kBaseAccumulators = 24;
constexpr const char* kBaseVectors = "NEON";
inline void touch(BaseVector& vector) { asm volatile("" : "+w"(vector)); }
#endif

float run_base(int64_t rounds) {
  BaseVector sums[kBaseAccumulators] = {}, factor = BaseVector{} + kFactor, total = {};
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (int i = 0; i < kBaseAccumulators; ++i) {
      touch(factor);
      sums[i] += factor * factor;
    }
  }
  for (const BaseVector& sum : sums) total += sum;
  return total[0];
}

Loop widest_loop() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, 24 * 16 * 2, "AVX-512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, 12 * 8 * 2, "AVX2"};
#endif
  return {run_base, kBaseAccumulators * 4 * 2, kBaseVectors};
}

// Operations a second of one thread, from slices short enough that most are not interrupted by another program.
double thread_rate(const Loop& loop, double seconds) {
  constexpr double kSlice = 5e-4;
  int64_t rounds = 1 << 12;
  double spent = 0;
  std::vector<double> rates;
  while (spent < seconds || rates.empty()) {
    const double begin = base::real_clock().seconds();
    [[maybe_unused]] volatile float kept = loop.run(rounds);
    const double taken = std::max(base::real_clock().seconds() - begin, 1e-9);
    spent += taken;
    if (taken < kSlice) {
      rounds *= 2;
    } else {
      rates.push_back(loop.operations_a_round * static_cast<double>(rounds) / taken);
    }
  }
  return profile::quantile(rates, 0.9);
}

}  // namespace

CpuPeak measure_cpu_peak(int threads, double seconds) {
  const Loop loop = widest_loop();
  std::vector<double> rates(threads);
  std::barrier start(threads);
  std::vector<std::thread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      start.arrive_and_wait();
      rates[i] = thread_rate(loop, seconds);
    });
  }
  for (std::thread& member : team) member.join();
  return {std::accumulate(rates.begin(), rates.end(), 0.0) / 1e12, threads, loop.vectors};
}

}  // namespace hyperion::bench
