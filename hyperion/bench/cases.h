// The measured cases of `bench hardware`, the same code on every device.
#pragma once
#include <functional>
#include <string>

#include "hyperion/bench/device.h"
#include "hyperion/bench/hardware_rows.h"

namespace hyperion::bench {

struct CaseContext {
  const TimedDevice& device;
  const HardwareOptions& options;
  HardwareResult& result;                              // rows and notes are added to it
  std::function<void(const std::string& what)> begin;  // called before each case
};

// How many cases the four below will begin.
int64_t count_cases(const TimedDevice& device, const HardwareOptions& options);

void measure_products(const CaseContext& context);
void measure_bandwidth(const CaseContext& context);
void measure_transfers(const CaseContext& context);
void measure_latencies(const CaseContext& context);

}  // namespace hyperion::bench
