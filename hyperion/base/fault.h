// Named fault points: places where a test can make the program fail as the world would. Off unless HYPERION_FAULTS, or
// a test, switches one on. Spec: "name=action[@n[/m]]", comma separated; action is `kill` (SIGKILL to ourselves),
// `throw`, `enospc` (a write finds the disk full), `tear` (half of a write lands, then SIGKILL), `interrupt` (SIGINT to
// ourselves), `freeze` (SIGSTOP), `stall` (sleeps for ever while other threads go on), `sleep` (300 ms), `memory`
// (there is none left), `operation`, `shape` or `type` (asks the other ranks for something else) `flip` (one bit of
// what arrives is turned) or `drop` (what should be added is left out); @n: at the n-th passing, 1 by default; /m: and
// at every m-th after it. A spec that cannot be read is a ConfigError.
#pragma once
#include <string_view>

namespace hyperion::base {

enum class Fault {
  none,
  kill,
  fail,
  disk_full,
  tear,
  interrupt,
  freeze,
  stall,
  sleep,
  memory,
  operation,
  shape,
  type,
  flip,
  drop
};

// Passes the point: carries out kill, throw, interrupt, freeze, stall and sleep here; returns the others for the caller
// to act on.
Fault fault_point(std::string_view name);

// Says aloud that a variable for tests is set, in any build: HYPERION_FAULTS, HYPERION_SLOW_LINK (comm/group.h), or
// HYPERION_FUSED_BLOCKS (train/fused_blocks.h).
void warn_of_test_variables();

// Replaces the active specs; empty switches all off. For tests in process; HYPERION_FAULTS is read at the first
// passing.
void set_faults(std::string_view specs);

}  // namespace hyperion::base
