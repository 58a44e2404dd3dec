// cuBLASLt and hipBLASLt think in columns: row-major d = a b is their d^T = b^T a^T, so their "A" is our b and their
// "B" our a.
#include "hyperion/kernels/gemm_gpu.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/device/candidates_gpu.h"
#include "hyperion/device/device.h"
#include "hyperion/device/tuning_cache.h"
#include "hyperion/gpu/gemm_library.h"
#include "hyperion/gpu/torch.h"

namespace hyperion::kernels {
namespace {

constexpr size_t kWorkspace = 32u << 20;
// A workspace of a few bytes is a counter that the library sets to 0 before each call, by a fill of its own. The same
// algorithms do without it, as fast.
constexpr size_t kCounter = 1 << 10;
constexpr int kTried = 8;

void check_product(gpu::GemmStatus status, const char* what) {
  if (status != gpu::kGemmSuccess)
    throw base::Error(base::format("{}: {} failed with {}", gpu::kGemmLibrary, what, gpu::status_text(status)));
}

gpu::NumberType number_type(GemmType type) {
  switch (type) {
    case GemmType::fp32:
      return gpu::kFp32;
    case GemmType::bf16:
      return gpu::kBf16;
    case GemmType::fp16:
      return gpu::kFp16;
    case GemmType::e4m3:
      return gpu::kE4m3;
    case GemmType::e5m2:
      return gpu::kE5m2;
  }
  return gpu::kFp32;
}

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

using Key = std::tuple<int64_t, int64_t, int64_t, bool, bool, int, int, int, bool, bool, bool, bool, int, bool,
                       uint32_t, std::array<int64_t, 4>>;

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    Destroy(handle);
  }
};
using Operation = std::unique_ptr<gpu::GemmDescBody, Deleter<gpu::gemm_desc_destroy>>;
using Layout = std::unique_ptr<gpu::MatrixLayoutBody, Deleter<gpu::layout_destroy>>;

Layout layout(gpu::NumberType type, int64_t rows, int64_t columns, int64_t pitch) {
  gpu::MatrixLayout made;
  check_product(gpu::layout_create(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   pitch > 0 ? pitch : rows),
                "a layout");
  return Layout(made);
}

template <class Value>
void set(gpu::GemmDesc operation, gpu::GemmAttribute what, const Value& value) {
  check_product(gpu::gemm_desc_set(operation, what, &value, sizeof value), "a setting");
}

struct Plan {
  Operation operation;
  Layout a, b, c, d;
  std::optional<gpu::GemmAlgorithm> algorithm;  // none: it cannot be done
  size_t workspace = 0;
};

gpu::GemmEpilogue epilogue(const RawGemm& p) { return p.bias != nullptr ? gpu::kEpilogueBias : gpu::kEpilogueDefault; }

Plan describe(const RawGemm& p) {
  gpu::GemmDesc made;
  const bool rounded = p.type == GemmType::fp32 && p.may_round_to_tf32;
  check_product(gpu::gemm_desc_create(&made, rounded ? gpu::kComputeTf32 : gpu::kCompute, gpu::kFp32), "a product");
  Plan plan;
  plan.operation.reset(made);
  set(made, gpu::kGemmTransA, p.transpose_b ? gpu::kTransposed : gpu::kAsIs);
  set(made, gpu::kGemmTransB, p.transpose_a ? gpu::kTransposed : gpu::kAsIs);
  set(made, gpu::kGemmEpilogue, epilogue(p));
  const auto a_type = number_type(p.type), b_type = number_type(p.b_type), out = number_type(p.out);
  if (p.by_rows)
    for (const auto side : {gpu::kGemmScaleModeA, gpu::kGemmScaleModeB}) set(made, side, gpu::kScaleByRows);
  if (p.fast) gpu::allow_fast_sums([&](gpu::GemmAttribute what, auto value) { set(made, what, value); });
  if (p.bias != nullptr) set(made, gpu::kGemmBiasType, out);
  plan.a = p.transpose_b ? layout(b_type, p.k, p.columns, p.b_pitch) : layout(b_type, p.columns, p.k, p.b_pitch);
  plan.b = p.transpose_a ? layout(a_type, p.rows, p.k, p.a_pitch) : layout(a_type, p.k, p.rows, p.a_pitch);
  plan.c = layout(out, p.columns, p.rows, p.c != nullptr ? p.c_pitch : p.d_pitch);
  plan.d = layout(out, p.columns, p.rows, p.d_pitch);
  return plan;
}

void point(const Plan& plan, const RawGemm& p) {
  if (p.bias != nullptr) set(plan.operation.get(), gpu::kGemmBias, p.bias);
  if (p.b_inverse != nullptr) set(plan.operation.get(), gpu::kGemmScaleA, p.b_inverse);
  if (p.a_inverse != nullptr) set(plan.operation.get(), gpu::kGemmScaleB, p.a_inverse);
}

// Our own: PyTorch's would take 32 MiB for each stream it is asked for on.
gpu::GemmHandle handle() {
  static std::array<gpu::GemmHandle, 64> made{};
  auto& mine = made[static_cast<size_t>(at::cuda::current_device())];
  if (mine == nullptr) check_product(gpu::gemm_library_create(&mine), "its handle");
  return mine;
}

// Taken for work on a stream, and left when it is queued: what the stream does next may have it.
struct Room {
  Room(size_t wanted, gpu::Stream stream)
      : at(wanted == 0 ? nullptr : c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(wanted, stream)),
        bytes(wanted) {}
  ~Room() {
    if (at != nullptr) c10::cuda::CUDACachingAllocator::raw_delete(at);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  void* at;
  size_t bytes;
};
gpu::GemmStatus launch_product(const Plan& plan, const RawGemm& p, const gpu::GemmAlgorithm& algorithm,
                               const Room& room, void* d, gpu::Stream stream) {
  const float beta = p.c != nullptr ? 1 : 0;
  const void* c = p.c != nullptr ? p.c : d;
  return gpu::gemm_launch(handle(), plan.operation.get(), &p.scale, p.b, plan.a.get(), p.a, plan.b.get(), &beta, c,
                          plan.c.get(), d, plan.d.get(), &algorithm, room.at, room.bytes, stream);
}

// Microseconds a product takes with each of them, into memory of its own: the product may add to what is there.
std::vector<float> times(const Plan& plan, const RawGemm& p, const std::vector<gpu::GemmHeuristic>& found,
                         gpu::Stream stream) {
  const int64_t pitch = std::max(p.d_pitch, p.columns);
  const Room out(static_cast<size_t>(p.rows * pitch) * (p.out == GemmType::fp32 ? 4 : 2), stream);
  size_t needed = 256;
  for (const auto& each : found) needed = std::max(needed, each.workspaceSize);
  const Room room(needed, stream);
  static_cast<void>(gpu::stream_synchronize(stream));
  std::vector<device::Candidate> ways;
  for (const auto& each : found)
    ways.push_back(
        [&](gpu::Stream own) { return launch_product(plan, p, each.algo, room, out.at, own) == gpu::kGemmSuccess; });
  return device::times_in_turns(ways);
}

const char* name_of(GemmType type) {
  constexpr const char* kNames[] = {"fp32", "bf16", "fp16", "e4m3", "e5m2"};
  return kNames[static_cast<size_t>(type)];
}

std::string pitches(const RawGemm& p) {
  if (p.a_pitch + p.b_pitch + p.c_pitch + p.d_pitch == 0) return {};
  return base::format(", rows {} {} {} {} apart", p.a_pitch, p.b_pitch, p.c_pitch, p.d_pitch);
}

device::TuningKey choice_for(const RawGemm& p, uint32_t alignment) {
  const bool rounded = p.type == GemmType::fp32 && p.may_round_to_tf32;
  return {device::device_text({c10::kCUDA, at::cuda::current_device()}),
          base::format("{} {}, parts in fp32", gpu::kGemmLibrary, gpu::gemm_library_version()),
          base::format("product {}x{}x{} {}{} {}{} to {}{}{} at {}{}", p.rows, p.columns, p.k,
                       p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", rounded ? "tf32" : name_of(p.type),
                       base::format("{}{}", p.b_type == p.type ? "" : base::format("x{}", name_of(p.b_type)),
                                    p.by_rows ? " by rows" : ""),
                       name_of(p.out), p.bias != nullptr ? " + bias" : "", p.c != nullptr ? " + matrix" : "", alignment,
                       pitches(p))};
}

// An algorithm is plain bytes, good for the same version of the library; with the bytes of workspace it was timed with,
// for one that can do with a counter or without is told by these alone which to be.
using AlgorithmWords = std::array<uint64_t, sizeof(gpu::GemmAlgorithm) / sizeof(uint64_t)>;

std::string text_of(const gpu::GemmAlgorithm& algorithm, size_t workspace) {
  std::string text;
  for (const uint64_t word : std::bit_cast<AlgorithmWords>(algorithm)) text += base::format("{:016x}", word);
  return text + base::format("{:016x}", workspace);
}

// False where this plan cannot be done by it.
bool take(const std::string& text, Plan& plan) {
  AlgorithmWords words{};
  if (text.size() != 16 * (words.size() + 1) || text.find_first_not_of("0123456789abcdef") != text.npos) return false;
  const auto word = [&](size_t i) { return std::stoull(text.substr(16 * i, 16), nullptr, 16); };
  for (size_t i = 0; i < words.size(); ++i) words[i] = word(i);
  const auto algorithm = std::bit_cast<gpu::GemmAlgorithm>(words);
  size_t needed = 0;
  if (!gpu::can_do(handle(), plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(), algorithm, needed) ||
      needed > kWorkspace)
    return false;
  const size_t timed = word(words.size());
  plan.algorithm = algorithm, plan.workspace = timed == 0 && needed <= kCounter ? 0 : needed;
  return true;
}

std::vector<gpu::GemmHeuristic> offered(const Plan& plan, uint32_t alignment, size_t room, int most) {
  gpu::GemmPreference preference;
  check_product(gpu::preference_create(&preference), "a preference");
  const auto prefer = [&](gpu::GemmPreferenceAttribute what, auto value) {
    check_product(gpu::preference_set(preference, what, &value, sizeof value), "a preference");
  };
  prefer(gpu::kPreferWorkspace, uint64_t{room});
  gpu::prefer_fp32_sums(prefer, alignment);
  std::vector<gpu::GemmHeuristic> found(static_cast<size_t>(most));
  int count = 0;
  const auto status = gpu::gemm_heuristics(handle(), plan.operation.get(), plan.a.get(), plan.b.get(), plan.c.get(),
                                           plan.d.get(), preference, most, found.data(), &count);
  static_cast<void>(gpu::preference_destroy(preference));
  found.resize(status == gpu::kGemmSuccess ? static_cast<size_t>(count) : 0);
  return found;
}

// The library's order, with those that need a counter left out where it knows any other.
std::vector<gpu::GemmHeuristic> offered(const Plan& plan, uint32_t alignment, int most) {
  auto found = offered(plan, alignment, kWorkspace, most);
  const auto counts = [](const auto& each) { return each.workspaceSize > 0 && each.workspaceSize <= kCounter; };
  if (std::none_of(found.begin(), found.end(), counts)) return found;
  auto plain = offered(plan, alignment, 0, most);
  if (plain.empty()) return found;
  const bool first = found[0].workspaceSize <= kCounter;
  found.erase(
      std::remove_if(found.begin(), found.end(), [](const auto& each) { return each.workspaceSize <= kCounter; }),
      found.end());  // those without any are in the other list
  found.insert(first ? found.begin() : found.begin() + std::min<std::ptrdiff_t>(1, std::ssize(found)), plain.begin(),
               plain.end());
  return found;
}

// The library's first offer; asked to measure: the fastest, from the file or by trying, which takes an idle recorder.
void choose(Plan& plan, const RawGemm& p, uint32_t alignment, bool measure, gpu::Stream stream) {
  if (measure)
    if (const auto kept = device::tuning_cache().find(choice_for(p, alignment)))
      if (take(kept->way, plan)) return;
  gpu::CaptureStatus capturing = gpu::kNotCapturing;
  static_cast<void>(gpu::stream_is_capturing(stream, &capturing));
  const bool now = measure && capturing == gpu::kNotCapturing;
  const auto found = offered(plan, alignment, now ? kTried : 1);
  if (found.empty()) return;
  plan.algorithm = found[0].algo, plan.workspace = found[0].workspaceSize;
  if (!now) return;
  const auto taken = times(plan, p, found, stream);
  const auto best = std::min_element(taken.begin(), taken.end());
  const auto& fastest = found[static_cast<size_t>(best - taken.begin())];
  plan.algorithm = fastest.algo, plan.workspace = fastest.workspaceSize;
  const float usual = taken[0] < device::kNever ? taken[0] : *best;
  if (*best < device::kNever)
    device::tuning_cache().keep(choice_for(p, alignment), {text_of(*plan.algorithm, plan.workspace), *best, usual});
}

}  // namespace

bool gemm_gpu(const RawGemm& p, bool measure, void* stream) {
  static std::mutex mutex;
  static std::map<Key, Plan> plans;
  uint32_t alignment = 256;
  for (const void* at : {p.a, p.b, p.c, static_cast<const void*>(p.d)})
    if (at != nullptr) alignment = std::min(alignment, alignment_of(at));
  const Key key{p.rows,
                p.columns,
                p.k,
                p.transpose_a,
                p.transpose_b,
                static_cast<int>(p.type),
                static_cast<int>(p.b_type),
                static_cast<int>(p.out),
                p.fast,
                p.by_rows,
                p.c != nullptr,
                p.may_round_to_tf32,
                static_cast<int>(epilogue(p)),
                measure,
                alignment,
                {p.a_pitch, p.b_pitch, p.c_pitch, p.d_pitch}};
  const std::lock_guard lock(mutex);
  const auto queue = static_cast<gpu::Stream>(stream);
  auto found = plans.find(key);
  if (found == plans.end()) {
    Plan plan = describe(p);
    point(plan, p);
    choose(plan, p, alignment, measure, queue);
    found = plans.emplace(key, std::move(plan)).first;
  }
  const Plan& plan = found->second;
  if (!plan.algorithm) return false;
  point(plan, p);
  check_product(launch_product(plan, p, *plan.algorithm, Room(plan.workspace, queue), p.d, queue), "a product");
  return true;
}

}  // namespace hyperion::kernels
