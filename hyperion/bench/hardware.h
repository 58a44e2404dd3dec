// `hyperion bench hardware`: what this machine's device reaches in matrix products, memory bandwidth, transfers to and
// from the host, and the latency of a piece of work. Each row is warmed up and repeated, and carries its median and
// spread.
//
// Products: square, random normal inputs, output allocated beforehand; 2 n^3 operations. fp8 is e4m3 with one scale a
// tensor and bf16 output (fast accumulation). Bandwidth: fp32 vectors; copy b = a (8 bytes an element) and triad a = b
// + s * c (12 bytes), bytes read and written; vectors near the size of the last cache read faster than memory is.
#pragma once
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/bench/hardware_rows.h"

namespace hyperion::bench {

// Throws ConfigError for options that cannot be meant or that the device cannot do, PreflightError where `cuda` is
// asked for and there is none, Interrupted on a stop request. Shows a progress line meanwhile (log lines where there is
// no terminal).
HardwareResult run_hardware_bench(const HardwareOptions& options);

// A table for people, JSON and CSV for programs, and plots.
std::string hardware_table(const HardwareResult& result, bool color);  // one block a kind
std::string hardware_json(const HardwareResult& result);               // one object, indented; unknown peaks are null
std::string hardware_csv(const HardwareResult& result);                // one line a row; unknown peaks are empty
std::string matmul_svg(const HardwareResult& result);
std::string bandwidth_svg(const HardwareResult& result);

// hardware.json, hardware.csv, and matmul.svg and bandwidth.svg where such rows are; creates the folder.
void write_hardware_files(const HardwareResult& result, const base::Path& folder,
                          base::FileSystem& files = base::real_files());

}  // namespace hyperion::bench
