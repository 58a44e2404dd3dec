// Work recorded once and replayed with one launch: a CUDA graph. Memory that the work takes stays taken, and every
// replay uses the same addresses.
#pragma once
#include <functional>
#include <memory>

namespace hyperion::device {

class Graph {
 public:
  // Memory of `other`, which was recorded before, serves this one too: for graphs that are replayed in the order in
  // which they were recorded.
  explicit Graph(const Graph* other = nullptr);
  ~Graph();
  // Runs `work` on a stream of its own, which records what it launches and runs none of it. What it throws, this
  // throws.
  void record(const std::function<void()>& work);
  void replay();

 private:
  struct Form;
  std::unique_ptr<Form> form_;
};

// Whether what is launched now is being recorded.
bool recording();
// Runs `work` now; while a graph records, once it is done: for uploads that every replay may find in place.
void once_recorded(std::function<void()> work);

// Runs `work` on a stream of its own, as a graph would, and waits: the libraries set themselves up for that stream.
void on_side_stream(const std::function<void()>& work);

}  // namespace hyperion::device
