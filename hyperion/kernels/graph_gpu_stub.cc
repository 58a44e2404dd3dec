#include "hyperion/base/error.h"
#include "hyperion/kernels/graph.h"

namespace hyperion::kernels {

struct Graph::Form {};
Graph::Graph() = default;
Graph::~Graph() = default;
void Graph::record(const std::function<void()>&) {
  throw base::Error("this build has no GPU graphs", "build the cuda preset");
}
void Graph::replay() { throw base::Error("this build has no GPU graphs", "build the cuda preset"); }
bool recording() { return false; }
void once_recorded(std::function<void()> work) { work(); }
void on_side_stream(const std::function<void()>& work) { work(); }

}  // namespace hyperion::kernels
