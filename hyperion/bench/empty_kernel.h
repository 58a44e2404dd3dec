// The smallest piece of work a GPU takes, for the latency of a launch.
#pragma once

namespace hyperion::bench {

// `stream` is a cudaStream_t. Launch errors show at the next synchronization.
void launch_empty_kernel(void* stream);

}  // namespace hyperion::bench
