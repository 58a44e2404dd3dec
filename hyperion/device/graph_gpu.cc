#include <utility>
#include <vector>

#include "hyperion/device/graph.h"
#include "hyperion/device/graph_fills.h"
#include "hyperion/gpu/torch.h"

namespace hyperion::device {
namespace {

std::vector<std::function<void()>> pending;
bool now_recording = false;

c10::cuda::CUDAStream& side_stream() {
  static auto stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false);
  return stream;
}

// The side stream starts after what is queued, and what is queued next waits for it.
template <class Work>
void beside(Work work) {
  auto current = c10::cuda::getCurrentCUDAStream();
  current.synchronize();
  {
    const c10::cuda::CUDAStreamGuard on(side_stream());
    work();
  }
  side_stream().synchronize();
}

}  // namespace

struct Graph::Form {
  at::cuda::CUDAGraph graph{/*keep_graph=*/true};
  c10::MempoolId_t pool{0, 0};  // which the graph takes its memory of; zeros: one of its own
};

Graph::Graph(const Graph* other) : form_(std::make_unique<Form>()) {
  if (other != nullptr) form_->pool = other->form_->graph.pool();
}
Graph::~Graph() = default;

void Graph::record(const std::function<void()>& work) {
  c10::cuda::CUDACachingAllocator::emptyCache();  // the recording takes memory of its own: let go of what is idle
  beside([&] {
    // Thread-local: the autograd engine's threads record too, other threads may go on allocating.
    form_->graph.capture_begin(form_->pool, gpu::kCaptureThreadLocal);
    now_recording = true;
    try {
      work();
    } catch (...) {
      now_recording = false;
      pending.clear();
      try {
        form_->graph.capture_end();
      } catch (...) {  // the first error says more
      }
      throw;
    }
    now_recording = false;
    form_->graph.capture_end();
    fill_by_kernels(form_->graph.raw_cuda_graph());
    form_->graph.instantiate();
  });
  for (const auto& each : std::exchange(pending, {})) each();
}

void Graph::replay() { form_->graph.replay(); }

bool recording() { return now_recording; }

void once_recorded(std::function<void()> work) {
  if (now_recording) {
    pending.push_back(std::move(work));
  } else {
    work();
  }
}

void on_side_stream(const std::function<void()>& work) { beside(work); }

}  // namespace hyperion::device
