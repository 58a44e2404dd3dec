// The devices LibTorch can compute on here.
#pragma once
#include <c10/core/Device.h>

#include <array>
#include <string>

namespace hyperion::device {

int gpu_count();  // 0 in a build without CUDA, or without a driver

enum class DeviceChoice { automatic, cpu, cuda };  // automatic: a GPU if there is one
constexpr auto words_of(DeviceChoice) { return std::array{"auto", "cpu", "cuda"}; }

// "auto", "cpu", "cuda" or "cuda:1". Throws PreflightError where there is no such GPU.
c10::Device open_device(const std::string& name);
c10::Device open_device(DeviceChoice choice);

std::string device_text(c10::Device device);  // "NVIDIA H200", "CPU"
int gpu_capability(c10::Device device);       // 90 for compute capability 9.0; 0 of a CPU
std::string pci_place(c10::Device device);    // "0000:1b:00.0"; empty of a CPU
void synchronize(c10::Device device);         // waits for everything queued; nothing on the CPU

// What LibTorch warns of on this thread goes to our log from here on, without its trace of calls.
void log_library_warnings();

// Threads of CPU operations, at least 1; results keep their bits only while this stays the same.
void set_cpu_threads(int64_t threads);
int64_t cpu_threads();

// Whether fp32 products may round their inputs to tf32 on GPUs that have it; else they never do.
void allow_tf32(bool allowed);

// cuDNN tries its algorithms for each new shape of convolution and keeps the fastest.
void measure_convolutions();

// Bit-for-bit repeatable GPU operations, at some cost in speed. Call before the first GPU operation.
void use_deterministic_algorithms();

}  // namespace hyperion::device
