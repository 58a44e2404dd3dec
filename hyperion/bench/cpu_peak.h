// The CPU's own peak, measured, since no table of CPUs can know clocks, throttling and what a container may use.
//
// Every thread runs sum = sum + a * b on independent vector accumulators held in registers (enough of them to hide the
// latency of a fused multiply-add on every pipe), in the widest vectors the machine has and the compiler reaches
// without special builds: AVX-512, AVX2 with FMA or SSE2 on x86_64, 128-bit NEON on arm64 (cores with wider SVE pipes
// than four times 128 bits can exceed it). A multiply-add counts as two operations. All threads run at once, each timed
// in slices of about a millisecond; the peak is the sum over threads of the rate that a tenth of its slices exceed:
// another program only ever slows a slice.
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::bench {

struct CpuPeak {
  double tflops = 0;  // fp32
  int threads = 0;
  std::string vectors;  // "AVX-512", "AVX2", "SSE2", "NEON"
};

// Takes about `seconds` on a machine with nothing else to do.
CpuPeak measure_cpu_peak(int threads, double seconds);

}  // namespace hyperion::bench
