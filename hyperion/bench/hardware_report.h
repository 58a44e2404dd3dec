// The results of `bench hardware` as a table for people, as JSON and CSV for programs, and as plots.
#pragma once
#include <string>

#include "hyperion/base/files.h"
#include "hyperion/bench/hardware.h"

namespace hyperion::bench {

std::string hardware_table(const HardwareResult& result, bool color);  // one block a kind
std::string hardware_json(const HardwareResult& result);               // one object, indented; unknown peaks are null
std::string hardware_csv(const HardwareResult& result);                // one line a row; unknown peaks are empty
std::string matmul_svg(const HardwareResult& result);
std::string bandwidth_svg(const HardwareResult& result);

// hardware.json, hardware.csv, and matmul.svg and bandwidth.svg where such rows are; creates the folder.
void write_hardware_files(const HardwareResult& result, const base::Path& folder,
                          base::FileSystem& files = base::real_files());

}  // namespace hyperion::bench
