// cuBLASLt thinks in columns: row-major d = a b is its d^T = b^T a^T, so its "A" is our b and its "B" our a.
#include "hyperion/kernels/gemm_gpu.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cublasLt.h>

#include <algorithm>
#include <array>
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

namespace hyperion::kernels {
namespace {

constexpr size_t kWorkspace = 32u << 20;
// A workspace of a few bytes is a counter that the library sets to 0 before each call, by a fill of its own. The same
// algorithms do without it, as fast.
constexpr size_t kCounter = 1 << 10;
constexpr int kTried = 8;

void check_cublas(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw base::Error(base::format("cuBLASLt: {} failed with {}", what, cublasLtGetStatusName(status)));
}

cudaDataType_t cuda_type(GemmType type) {
  switch (type) {
    case GemmType::fp32:
      return CUDA_R_32F;
    case GemmType::bf16:
      return CUDA_R_16BF;
    case GemmType::fp16:
      return CUDA_R_16F;
    case GemmType::e4m3:
      return CUDA_R_8F_E4M3;
    case GemmType::e5m2:
      return CUDA_R_8F_E5M2;
  }
  return CUDA_R_32F;
}

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint32_t alignment = 256;
  while (address % alignment != 0) alignment /= 2;
  return alignment;
}

using Key =
    std::tuple<int64_t, int64_t, int64_t, bool, bool, int, int, int, bool, bool, bool, bool, int, bool, uint32_t>;

template <auto Destroy>
struct Deleter {
  template <class T>
  void operator()(T* handle) const {
    Destroy(handle);
  }
};
using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Deleter<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Deleter<cublasLtMatrixLayoutDestroy>>;

Layout layout(cudaDataType_t type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t made;
  check_cublas(
      cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
      "a layout");
  return Layout(made);
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what, const Value& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation, what, &value, sizeof value), "a setting");
}

struct Plan {
  Operation operation;
  Layout a, b, d;
  std::optional<cublasLtMatmulAlgo_t> algorithm;  // none: it cannot be done
  size_t workspace = 0;
};

cublasLtEpilogue_t epilogue(const RawGemm& p) {
  return p.bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

Plan describe(const RawGemm& p) {
  cublasLtMatmulDesc_t made;
  const bool rounded = p.type == GemmType::fp32 && p.may_round_to_tf32;
  check_cublas(cublasLtMatmulDescCreate(&made, rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
               "a product");
  Plan plan;
  plan.operation.reset(made);
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(p));
  const auto a_type = cuda_type(p.type), b_type = cuda_type(p.b_type), out = cuda_type(p.out);
  if (p.by_rows)
    for (const auto side : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      set(made, side, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
  if (p.fast) set(made, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  if (p.bias != nullptr) set(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out);
  plan.a = p.transpose_b ? layout(b_type, p.k, p.columns) : layout(b_type, p.columns, p.k);
  plan.b = p.transpose_a ? layout(a_type, p.rows, p.k) : layout(a_type, p.k, p.rows);
  plan.d = layout(out, p.columns, p.rows);
  return plan;
}

void point(const Plan& plan, const RawGemm& p) {
  if (p.bias != nullptr) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (p.b_inverse != nullptr) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_inverse);
  if (p.a_inverse != nullptr) set(plan.operation.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_inverse);
}

// Our own: PyTorch's would take 32 MiB for each stream it is asked for on.
cublasLtHandle_t handle() {
  static std::array<cublasLtHandle_t, 64> made{};
  auto& mine = made[static_cast<size_t>(at::cuda::current_device())];
  if (mine == nullptr) check_cublas(cublasLtCreate(&mine), "its handle");
  return mine;
}

// Taken for work on a stream, and left when it is queued: what the stream does next may have it.
struct Room {
  Room(size_t wanted, cudaStream_t stream)
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
cublasStatus_t launch_product(const Plan& plan, const RawGemm& p, const cublasLtMatmulAlgo_t& algorithm,
                              const Room& room, void* d, cudaStream_t stream) {
  const float one = 1, beta = p.c != nullptr ? 1 : 0;
  const void* c = p.c != nullptr ? p.c : d;
  return cublasLtMatmul(handle(), plan.operation.get(), &one, p.b, plan.a.get(), p.a, plan.b.get(), &beta, c,
                        plan.d.get(), d, plan.d.get(), &algorithm, room.at, room.bytes, stream);
}

// Microseconds a product takes with each of them, into memory of its own: the product may add to what is there.
std::vector<float> times(const Plan& plan, const RawGemm& p, const std::vector<cublasLtMatmulHeuristicResult_t>& found,
                         cudaStream_t stream) {
  const Room out(static_cast<size_t>(p.rows * p.columns) * (p.out == GemmType::fp32 ? 4 : 2), stream);
  size_t needed = 256;
  for (const auto& each : found) needed = std::max(needed, each.workspaceSize);
  const Room room(needed, stream);
  cudaStreamSynchronize(stream);
  std::vector<device::Candidate> ways;
  for (const auto& each : found)
    ways.push_back([&](cudaStream_t own) {
      return launch_product(plan, p, each.algo, room, out.at, own) == CUBLAS_STATUS_SUCCESS;
    });
  return device::times_in_turns(ways);
}

const char* name_of(GemmType type) {
  constexpr const char* kNames[] = {"fp32", "bf16", "fp16", "e4m3", "e5m2"};
  return kNames[static_cast<size_t>(type)];
}

device::TuningKey choice_for(const RawGemm& p, uint32_t alignment) {
  const bool rounded = p.type == GemmType::fp32 && p.may_round_to_tf32;
  return {
      device::device_text({c10::kCUDA, at::cuda::current_device()}),
      base::format("cuBLASLt {}, parts in fp32", cublasLtGetVersion()),
      base::format("product {}x{}x{} {}{} {}{} to {}{}{} at {}", p.rows, p.columns, p.k, p.transpose_a ? "t" : "n",
                   p.transpose_b ? "t" : "n", rounded ? "tf32" : name_of(p.type),
                   base::format("{}{}", p.b_type == p.type ? "" : base::format("x{}", name_of(p.b_type)),
                                p.by_rows ? " by rows" : ""),
                   name_of(p.out), p.bias != nullptr ? " + bias" : "", p.c != nullptr ? " + matrix" : "", alignment)};
}

// An algorithm is plain bytes, good for the same version of the library.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (const uint64_t word : algorithm.data) text += base::format("{:016x}", word);
  return text;
}

// False where this plan cannot be done by it.
bool take(const std::string& text, Plan& plan) {
  cublasLtMatmulAlgo_t algorithm;
  if (text.size() != 16 * std::size(algorithm.data) || text.find_first_not_of("0123456789abcdef") != text.npos)
    return false;
  for (size_t i = 0; i < std::size(algorithm.data); ++i)
    algorithm.data[i] = std::stoull(text.substr(16 * i, 16), nullptr, 16);
  cublasLtMatmulHeuristicResult_t needs;
  const auto status = cublasLtMatmulAlgoCheck(handle(), plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                                              plan.d.get(), &algorithm, &needs);
  if (status != CUBLAS_STATUS_SUCCESS || needs.workspaceSize > kWorkspace) return false;
  plan.algorithm = algorithm, plan.workspace = needs.workspaceSize;
  return true;
}

std::vector<cublasLtMatmulHeuristicResult_t> offered(const Plan& plan, uint32_t alignment, size_t room, int most) {
  cublasLtMatmulPreference_t preference;
  check_cublas(cublasLtMatmulPreferenceCreate(&preference), "a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{room});
  // Parts of a sum meet in fp32 and in a fixed order, not rounded to the output's type on the way.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(what, alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(handle(), plan.operation.get(), plan.a.get(), plan.b.get(), plan.d.get(),
                                     plan.d.get(), preference, most, found.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  found.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(count) : 0);
  return found;
}

// The library's order, with those that need a counter left out where it knows any other.
std::vector<cublasLtMatmulHeuristicResult_t> offered(const Plan& plan, uint32_t alignment, int most) {
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
void choose(Plan& plan, const RawGemm& p, uint32_t alignment, bool measure, cudaStream_t stream) {
  if (measure)
    if (const auto kept = device::tuning_cache().find(choice_for(p, alignment)))
      if (take(kept->way, plan)) return;
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &capturing);
  const bool now = measure && capturing == cudaStreamCaptureStatusNone;
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
    device::tuning_cache().keep(choice_for(p, alignment), {text_of(*plan.algorithm), *best, usual});
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
                alignment};
  const std::lock_guard lock(mutex);
  const auto queue = static_cast<cudaStream_t>(stream);
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
  check_cublas(launch_product(plan, p, *plan.algorithm, Room(plan.workspace, queue), p.d, queue), "a product");
  return true;
}

}  // namespace hyperion::kernels
