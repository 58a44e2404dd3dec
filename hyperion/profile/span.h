// What the program's own parts did when: a step and its phases, blocks, collectives, the feed, checkpoints. Times are
// of the host's clock: on a GPU they tell when work was queued, not when it ran.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hyperion::profile {

struct RecordedSpan {
  std::string name;              // "forward", "block transformer.h.3", "all_reduce gradients"
  int64_t thread = 0;            // numbered from 0 as they first told something
  int64_t begin = 0, end = 0;    // nanoseconds, monotonic
  int64_t bytes = 0;             // moved or read; 0: none, or not known
  int64_t rank = -1, step = -1;  // -1: not known to the thread
  // Of a collective: the group's name and ranks, and how many of its kind the group did before. -1: it is none.
  std::string group = {}, ranks = {};
  int64_t number = -1;
  int64_t stage = -1, micro_batch = -1;  // of a pipeline, where it is a part of one
  // Numbers of autograd's nodes that were made in it: from the first to before the second; -1: not said.
  int64_t first_node = -1, end_node = -1;
};

struct RecordedSpans {
  std::vector<RecordedSpan> spans;  // by begin, an outer one before those within it
  int64_t dropped = 0;              // ended, and there was no room
};

// While it lives, spans are recorded on all threads. One at a time in a process.
class SpanRecorder {
 public:
  // Holds at most so many that were not taken; further ones are dropped, and counted.
  explicit SpanRecorder(size_t most = size_t{1} << 18);
  ~SpanRecorder();
  SpanRecorder(const SpanRecorder&) = delete;
  SpanRecorder& operator=(const SpanRecorder&) = delete;

  // What began under this recorder and has ended since the last take. From any thread.
  RecordedSpans take();
};

// Whom spans are told to as they begin and end, on their threads, one within the other: profilers from outside
// (marks.h). Null: nobody. Must live for ever.
struct SpanMarker {
  void (*begin)(const char* name) = nullptr;
  void (*end)() = nullptr;
};
void set_span_marker(const SpanMarker* marker);

// From here to the end of its scope. Costs one relaxed load where nobody records.
class Span {
 public:
  // Recorded as "name of", which are put together only then. Both must live as long as the span.
  explicit Span(std::string_view name, std::string_view of = {}, int64_t bytes = 0) noexcept
      : recorder_(listening.load(std::memory_order_relaxed)) {
    if (recorder_ != 0) begin(name, of, bytes);
  }
  ~Span() { end(); }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void add_bytes(int64_t bytes) { bytes_ += bytes; }
  // It is a collective of this group, whose name and ranks must live as long as the span.
  void set_group(std::string_view group, std::string_view ranks, int64_t number) {
    group_ = group, ranks_ = ranks, number_ = number;
  }
  // It is what a stage of a pipeline does with one micro-batch.
  void set_piece(int64_t stage, int64_t micro_batch) { stage_ = stage, micro_batch_ = micro_batch; }
  // These nodes of autograd were made in it: their backward is its own.
  void set_nodes(int64_t first, int64_t end) { first_node_ = first, end_node_ = end; }
  bool recorded() const { return recorder_ != 0; }
  // Before its scope does; later ends change nothing.
  void end() noexcept {
    if (recorder_ != 0) record();
  }

 private:
  friend class SpanRecorder;
  friend void set_span_marker(const SpanMarker* marker);
  void begin(std::string_view name, std::string_view of, int64_t bytes) noexcept;
  void record() noexcept;

  static constexpr uint64_t kMarked = uint64_t{1} << 63;
  static inline std::atomic<uint64_t> listening{
      0};              // the recorder's number, 0: none; and kMarked where there is a marker
  uint64_t recorder_;  // as it was when the span began
  std::string_view name_ = {}, of_ = {}, group_ = {}, ranks_ = {};
  int64_t begin_ = 0, bytes_ = 0, number_ = -1, stage_ = -1, micro_batch_ = -1;
  int64_t first_node_ = -1, end_node_ = -1;
};

// Spans that end in its scope, on its thread, bear this rank and step.
class SpanPlace {
 public:
  SpanPlace(int64_t rank, int64_t step);
  ~SpanPlace();
  SpanPlace(const SpanPlace&) = delete;
  SpanPlace& operator=(const SpanPlace&) = delete;

 private:
  int64_t rank_, step_;  // those before
};

// As Chrome's and Perfetto's JSON: a process for each rank, a line for each thread.
std::string to_chrome_json(const RecordedSpans& recorded);

}  // namespace hyperion::profile
