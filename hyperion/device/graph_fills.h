// Memsets of a recorded graph as kernels. Around a memset a device waits for some 5 us, between two kernels for less
// than one (H200), and attention's libraries set memory in each layer.
#pragma once

namespace hyperion::device {

// graph: a cudaGraph_t that is not yet instantiated. Memsets that are no plain run of bytes stay as they are.
void fill_by_kernels(void* graph);

}  // namespace hyperion::device
