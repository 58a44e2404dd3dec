// The GPU runtime, CUDA's or HIP's, under one set of names: each is another spelling of the vendor's own, and costs
// nothing. Beside it gemm_library.h and torch.h. A vendor's name stands in this folder alone, but for
// what only one of them can (device/gpu_runtime.h, device/graph_fills_gpu.cu).
//
// The HIP form is had by hipcc, or by any compiler with -D__HIP_PLATFORM_AMD__, as HIP's own headers ask.
#pragma once
#if defined(__HIPCC__) || defined(__HIP_PLATFORM_AMD__)
#define HYPERION_HIP
#endif

#ifdef HYPERION_HIP
#include <hip/hip_runtime_api.h>
#define HYPERION_GPU(name) hip##name
#else
#include <cuda_runtime_api.h>
#define HYPERION_GPU(name) cuda##name
#endif

namespace hyperion::gpu {

#ifdef HYPERION_HIP
inline constexpr bool kHip = true;
#else
inline constexpr bool kHip = false;
#endif

using Error = HYPERION_GPU(Error_t);
using Stream = HYPERION_GPU(Stream_t);
using Event = HYPERION_GPU(Event_t);
using Graph = HYPERION_GPU(Graph_t);
using GraphExec = HYPERION_GPU(GraphExec_t);
using CaptureStatus = HYPERION_GPU(StreamCaptureStatus);

inline constexpr auto kSuccess = HYPERION_GPU(Success);
inline constexpr auto kEventDefault = HYPERION_GPU(EventDefault);
inline constexpr auto kStreamNonBlocking = HYPERION_GPU(StreamNonBlocking);
inline constexpr auto kNotCapturing = HYPERION_GPU(StreamCaptureStatusNone);
inline constexpr auto kCaptureThreadLocal = HYPERION_GPU(StreamCaptureModeThreadLocal);

inline constexpr auto& get_last_error = HYPERION_GPU(GetLastError);
inline constexpr auto& get_error_string = HYPERION_GPU(GetErrorString);
inline constexpr auto& get_device = HYPERION_GPU(GetDevice);
inline constexpr auto& device_synchronize = HYPERION_GPU(DeviceSynchronize);
inline constexpr auto& mem_get_info = HYPERION_GPU(MemGetInfo);
inline constexpr auto& runtime_get_version = HYPERION_GPU(RuntimeGetVersion);

inline constexpr auto& stream_create_with_flags = HYPERION_GPU(StreamCreateWithFlags);
inline constexpr auto& stream_destroy = HYPERION_GPU(StreamDestroy);
inline constexpr auto& stream_synchronize = HYPERION_GPU(StreamSynchronize);
inline constexpr auto& stream_is_capturing = HYPERION_GPU(StreamIsCapturing);
inline constexpr auto& stream_begin_capture = HYPERION_GPU(StreamBeginCapture);
inline constexpr auto& stream_end_capture = HYPERION_GPU(StreamEndCapture);

// By their types where the vendor has several of the name.
inline constexpr Error (&event_create)(Event*) = HYPERION_GPU(EventCreate);
inline constexpr Error (&event_record)(Event, Stream) = HYPERION_GPU(EventRecord);
inline constexpr auto& event_destroy = HYPERION_GPU(EventDestroy);
inline constexpr auto& event_synchronize = HYPERION_GPU(EventSynchronize);
inline constexpr auto& event_elapsed_time = HYPERION_GPU(EventElapsedTime);

inline constexpr auto& graph_launch = HYPERION_GPU(GraphLaunch);
inline constexpr auto& graph_destroy = HYPERION_GPU(GraphDestroy);
inline constexpr auto& graph_exec_destroy = HYPERION_GPU(GraphExecDestroy);
#ifdef HYPERION_HIP  // hipGraphInstantiate has five arguments, as CUDA 11's had
inline constexpr auto& graph_instantiate = hipGraphInstantiateWithFlags;
#else
inline constexpr Error (&graph_instantiate)(GraphExec*, Graph, unsigned long long) = cudaGraphInstantiate;
#endif

// A version of the runtime is one number: 13020 is CUDA 13.2, 60443484 is HIP 6.4.43484.
inline constexpr const char* kRuntimeName = kHip ? "HIP runtime" : "CUDA runtime";
inline constexpr long kMajorVersion = kHip ? 10'000'000 : 1000, kMinorVersion = kHip ? 100'000 : 10;

}  // namespace hyperion::gpu
