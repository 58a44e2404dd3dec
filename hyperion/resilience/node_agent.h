// The launcher's hand on another machine: started there over ssh, it reads what to do from its standard input, starts
// that machine's ranks, and tells on its standard output what happens to them. When its input ends, so do its ranks.
//
// Input: a line with a NodePlan as JSON, then lines "signal N". Output: kAgentHello, then for each event a line "out
// RANK BYTES" or "err RANK BYTES" with so many bytes behind it, "exit RANK CODE", "killed RANK SIGNAL", "stopped
// RANKS...".
#pragma once
#include <string_view>

namespace hyperion::resilience {

constexpr std::string_view kAgentHello = "hyperion agent 2\n";  // what a login script prints before it is passed over

// Returns the exit code: 0 once all ranks have ended, whatever their own codes.
int run_node_agent(int input, int output);

}  // namespace hyperion::resilience
