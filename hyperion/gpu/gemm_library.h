// The library of matrix products, cuBLASLt or hipBLASLt, under one set of names. hipBLASLt is made after the other;
// what differs stands at the end. Read from its headers of ROCm 6 and 7, and never run.
#pragma once
#include "hyperion/gpu/runtime.h"

#ifdef HYPERION_HIP
#include <hipblaslt/hipblaslt.h>

#include <hipblaslt/hipblaslt-ext.hpp>
#define HYPERION_BLAS(name) hipblas##name
#define HYPERION_BLAS_VALUE(name) HIPBLAS##name
#define HYPERION_NUMBER(name) HIP_R_##name
#else
#include <cublasLt.h>
#define HYPERION_BLAS(name) cublas##name
#define HYPERION_BLAS_VALUE(name) CUBLAS##name
#define HYPERION_NUMBER(name) CUDA_R_##name
#endif

#include <cstddef>
#include <cstdint>
#include <string>

namespace hyperion::gpu {

inline constexpr const char* kGemmLibrary = kHip ? "hipBLASLt" : "cuBLASLt";

using GemmStatus = HYPERION_BLAS(Status_t);
using GemmHandle = HYPERION_BLAS(LtHandle_t);
using GemmDesc = HYPERION_BLAS(LtMatmulDesc_t);
using GemmDescBody = HYPERION_BLAS(LtMatmulDescOpaque_t);
using GemmAttribute = HYPERION_BLAS(LtMatmulDescAttributes_t);
using MatrixLayout = HYPERION_BLAS(LtMatrixLayout_t);
using MatrixLayoutBody = HYPERION_BLAS(LtMatrixLayoutOpaque_t);
using GemmEpilogue = HYPERION_BLAS(LtEpilogue_t);
using GemmAlgorithm = HYPERION_BLAS(LtMatmulAlgo_t);
using GemmHeuristic = HYPERION_BLAS(LtMatmulHeuristicResult_t);
using GemmPreference = HYPERION_BLAS(LtMatmulPreference_t);
using GemmPreferenceAttribute = HYPERION_BLAS(LtMatmulPreferenceAttributes_t);

inline constexpr auto& gemm_library_create = HYPERION_BLAS(LtCreate);
inline constexpr auto& gemm_desc_create = HYPERION_BLAS(LtMatmulDescCreate);
inline constexpr auto& gemm_desc_destroy = HYPERION_BLAS(LtMatmulDescDestroy);
inline constexpr auto& gemm_desc_set = HYPERION_BLAS(LtMatmulDescSetAttribute);
inline constexpr auto& gemm_heuristics = HYPERION_BLAS(LtMatmulAlgoGetHeuristic);
inline constexpr auto& gemm_launch = HYPERION_BLAS(LtMatmul);
inline constexpr auto& layout_create = HYPERION_BLAS(LtMatrixLayoutCreate);
inline constexpr auto& layout_destroy = HYPERION_BLAS(LtMatrixLayoutDestroy);
inline constexpr auto& preference_create = HYPERION_BLAS(LtMatmulPreferenceCreate);
inline constexpr auto& preference_destroy = HYPERION_BLAS(LtMatmulPreferenceDestroy);
inline constexpr auto& preference_set = HYPERION_BLAS(LtMatmulPreferenceSetAttribute);

inline constexpr auto kGemmSuccess = HYPERION_BLAS_VALUE(_STATUS_SUCCESS);
inline constexpr auto kAsIs = HYPERION_BLAS_VALUE(_OP_N), kTransposed = HYPERION_BLAS_VALUE(_OP_T);
inline constexpr auto kCompute = HYPERION_BLAS_VALUE(_COMPUTE_32F);
inline constexpr auto kComputeTf32 = HYPERION_BLAS_VALUE(_COMPUTE_32F_FAST_TF32);
inline constexpr auto kEpilogueDefault = HYPERION_BLAS_VALUE(LT_EPILOGUE_DEFAULT);
inline constexpr auto kEpilogueBias = HYPERION_BLAS_VALUE(LT_EPILOGUE_BIAS);
inline constexpr auto kGemmTransA = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_TRANSA);
inline constexpr auto kGemmTransB = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_TRANSB);
inline constexpr auto kGemmEpilogue = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_EPILOGUE);
inline constexpr auto kGemmBiasType = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_BIAS_DATA_TYPE);
inline constexpr auto kGemmBias = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_BIAS_POINTER);
inline constexpr auto kGemmScaleA = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_A_SCALE_POINTER);
inline constexpr auto kGemmScaleB = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_B_SCALE_POINTER);
inline constexpr auto kGemmScaleModeA = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_A_SCALE_MODE);  // ROCm 7
inline constexpr auto kGemmScaleModeB = HYPERION_BLAS_VALUE(LT_MATMUL_DESC_B_SCALE_MODE);
inline constexpr int32_t kScaleByRows{HYPERION_BLAS_VALUE(LT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F)};
inline constexpr auto kPreferWorkspace = HYPERION_BLAS_VALUE(LT_MATMUL_PREF_MAX_WORKSPACE_BYTES);

using NumberType = decltype(HYPERION_NUMBER(32F));
inline constexpr auto kFp32 = HYPERION_NUMBER(32F), kBf16 = HYPERION_NUMBER(16BF), kFp16 = HYPERION_NUMBER(16F);
// Those of the Open Compute Project: AMD's have them from gfx950 on; gfx942's are others, and hipBLASLt offers nothing.
inline constexpr auto kE4m3 = HYPERION_NUMBER(8F_E4M3), kE5m2 = HYPERION_NUMBER(8F_E5M2);

// What the two say in different ways.
#ifdef HYPERION_HIP
inline std::string status_text(GemmStatus status) {
  return "status " + std::to_string(static_cast<int>(status)) + " of hipblasStatus_t";
}

inline int gemm_library_version() {  // asked of a handle
  static const int known = [] {
    int version = 0;
    GemmHandle handle{};
    if (gemm_library_create(&handle) != kGemmSuccess) return version;
    if (hipblasLtGetVersion(handle, &version) != kGemmSuccess) version = 0;
    static_cast<void>(hipblasLtDestroy(handle));
    return version;
  }();
  return known;
}

// `set(what, value)` sets one of a product's settings.
template <class Set>
void allow_fast_sums(const Set&) {}  // there are none

// `prefer(what, value)` sets one preference; hipBLASLt has the workspace alone.
template <class Prefer>
void prefer_fp32_sums(const Prefer&, uint32_t) {}

// Whether an algorithm can do a product, and the bytes it then works with.
inline bool can_do(GemmHandle handle, GemmDesc gemm, MatrixLayout a, MatrixLayout b, MatrixLayout d,
                   GemmAlgorithm algorithm, size_t& workspace) {
  const float one = 1;
  return hipblaslt_ext::matmulIsAlgoSupported(handle, gemm, &one, a, b, &one, d, d, algorithm, workspace) ==
         kGemmSuccess;
}
#else
inline constexpr auto& status_text = cublasLtGetStatusName;
inline constexpr auto& gemm_library_version = cublasLtGetVersion;

template <class Set>
void allow_fast_sums(const Set& set) {
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
}

// Parts of a sum meet in fp32 and in a fixed order, not rounded to the output's type on the way; all four matrices
// begin at multiples of `alignment`.
template <class Prefer>
void prefer_fp32_sums(const Prefer& prefer, uint32_t alignment) {
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto what : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(what, alignment);
}

inline bool can_do(GemmHandle handle, GemmDesc gemm, MatrixLayout a, MatrixLayout b, MatrixLayout d,
                   const GemmAlgorithm& algorithm, size_t& workspace) {
  GemmHeuristic needs{};
  const auto status = cublasLtMatmulAlgoCheck(handle, gemm, a, b, d, d, &algorithm, &needs);
  workspace = needs.workspaceSize;
  return status == kGemmSuccess;
}
#endif

}  // namespace hyperion::gpu
