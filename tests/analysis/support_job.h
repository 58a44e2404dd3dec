// Traces of a made-up job on several ranks, with a truth that is known: steps of layers, each a few kernels and a
// collective that waits for all ranks of its group; clocks that are apart; delays that are exponential; one that is
// planted.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "hyperion/base/format.h"
#include "tests/trace/support_traces.h"

namespace hyperion::analysis::test {

enum class Delay : uint8_t { none, kernel, host, input };

struct MadeJob {
  unsigned seed = 1;
  int ranks = 2, steps = 3, layers = 8;
  int64_t end_jitter =
      20'000;  // nanoseconds, mean: how much later than the last one a rank is told of a collective's end
  int64_t work_jitter = 10'000;      // of kernels and of the host's calls
  std::vector<int64_t> clocks = {};  // what each rank's clock shows beyond the true time
  bool tensor_groups = false;        // collectives of pairs (0, 1), (1, 2), ... in turns instead of all
  Delay delay = Delay::none;
  int delayed_rank = 0, delayed_layer = 3;
  int64_t delay_time = 0;  // nanoseconds, each step
};

struct MadeTraces {
  std::vector<trace::Trace> traces;
  int64_t begin = 0, end = 0;  // true times
};

// With and without a planted delay everything else is the same: the numbers drawn do not depend on it.
class JobMaker {
 public:
  explicit JobMaker(MadeJob job) : job_(std::move(job)), small_(static_cast<size_t>(job_.ranks)) {
    job_.clocks.resize(small_.size());
    for (size_t r = 0; r < small_.size(); ++r) {
      random_.emplace_back(job_.seed * 1000 + static_cast<unsigned>(r));
      small_[r].facts().rank = static_cast<int64_t>(r);
      small_[r].facts().path = base::format("rank-{}", r);
      host_.push_back(1'000'000'000 + draw(r, 200'000));
      compute_.push_back(0);
      wires_.push_back(0);
      correlation_.push_back(0);
    }
  }

  MadeTraces make() && {
    MadeTraces made;
    made.begin = *std::min_element(host_.begin(), host_.end());
    for (int step = 0; step < job_.steps; ++step) {
      const auto begun = host_;
      for (size_t r = 0; r < small_.size(); ++r) input(r);
      for (int layer = 0; layer < job_.layers; ++layer) {
        for (size_t r = 0; r < small_.size(); ++r)
          for (int k = 0; k < 3; ++k) kernel(r, layer, k);
        collective(layer);
      }
      for (size_t r = 0; r < small_.size(); ++r) {
        synchronize(r);
        small_[r].step(step, at(r, begun[r]), at(r, host_[r]));
      }
    }
    for (size_t r = 0; r < small_.size(); ++r) made.end = std::max(made.end, host_[r]);
    for (auto& small : small_) made.traces.push_back(small.take());
    return made;
  }

 private:
  int64_t draw(size_t r, int64_t mean) {
    return static_cast<int64_t>(
        std::exponential_distribution<double>(1.0 / static_cast<double>(std::max<int64_t>(mean, 1)))(random_[r]));
  }
  int64_t at(size_t r, int64_t time) const { return time + job_.clocks[r]; }
  bool delayed(size_t r, Delay kind) const { return job_.delay == kind && static_cast<size_t>(job_.delayed_rank) == r; }

  void input(size_t r) {
    int64_t length = 50'000 + draw(r, job_.work_jitter);
    if (delayed(r, Delay::input)) length += job_.delay_time;
    small_[r].add("user_annotation", "enumerate(DataLoader)#next", "70", "70", at(r, host_[r]),
                  at(r, host_[r] + length), "");
    host_[r] += length + 1'000;
  }
  int64_t launch(size_t r, int64_t& call) {
    call = host_[r];
    const int64_t cost = 4'000 + draw(r, job_.work_jitter / 10);
    small_[r].launch(at(r, call), at(r, call + cost), ++correlation_[r]);
    host_[r] += cost + 2'000;
    return correlation_[r];
  }
  void kernel(size_t r, int layer, int k) {
    if (layer == job_.delayed_layer && k == 1 && delayed(r, Delay::host)) host_[r] += job_.delay_time;
    int64_t call = 0;
    const auto correlation = launch(r, call);
    const int64_t begin = std::max(call + 5'000, compute_[r] + 1'000);
    int64_t length = 150'000 + 50'000 * k + draw(r, job_.work_jitter);
    if (layer == job_.delayed_layer && k == 1 && delayed(r, Delay::kernel)) length += job_.delay_time;
    compute_[r] = begin + length;
    small_[r].kernel(base::format("gemm_{}_{}", layer, k), at(r, begin), at(r, compute_[r]), 7, correlation);
  }
  // The next computation waits for it.
  void collective(int layer) {
    std::vector<std::vector<size_t>> groups(1);
    for (size_t r = 0; r < small_.size(); ++r) groups[0].push_back(r);
    if (job_.tensor_groups) {
      groups.clear();
      for (size_t r = static_cast<size_t>(layer % 2); r + 1 < small_.size(); r += 2) groups.push_back({r, r + 1});
    }
    for (const auto& group : groups) {
      std::vector<int64_t> begins, correlations;
      for (const size_t r : group) {
        int64_t call = 0;
        correlations.push_back(launch(r, call));
        begins.push_back(std::max({call + 5'000, compute_[r] + 2'000, wires_[r] + 1'000}));
      }
      const int64_t done = *std::max_element(begins.begin(), begins.end()) + 80'000;
      std::string ranks;
      for (const size_t r : group) ranks += base::format("{}{}", ranks.empty() ? "" : ", ", r);
      for (size_t i = 0; i < group.size(); ++i) {
        const size_t r = group[i];
        wires_[r] = compute_[r] = done + draw(r, job_.end_jitter);
        const auto args = base::format(
            R"("args": {{"stream": 20, "device": 0, "correlation": {}, "Collective name": "allreduce", "Process Group Name": "{}", "Process Group Ranks": "[{}]", "Process Group Description": "{}"}})",
            correlations[i], group.front(), ranks, job_.tensor_groups ? "mesh_tp" : "mesh_dp");
        small_[r].add("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "0", "20",
                      at(r, begins[i]), at(r, wires_[r]), args);
      }
    }
  }
  void synchronize(size_t r) {
    const int64_t end = std::max(host_[r], compute_[r]) + 3'000;
    small_[r].add("cuda_runtime", "cudaDeviceSynchronize", "70", "70", at(r, host_[r]), at(r, end), "");
    host_[r] = end + 20'000 + draw(r, job_.work_jitter);
  }

  MadeJob job_;
  std::vector<trace::test::SmallTrace> small_;
  std::vector<std::mt19937> random_;
  std::vector<int64_t> host_, compute_, wires_, correlation_;  // until when each is busy, true time
};

inline MadeTraces made_traces(const MadeJob& job) { return JobMaker(job).make(); }

}  // namespace hyperion::analysis::test
