// Makes a trace event by event, for readers of other files than Kineto's JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "hyperion/trace/field_packer.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

struct NewEvent {
  char phase = 'X';
  std::string_view category = {};  // as Kineto words it: "kernel", "cuda_runtime", "cpu_op", ...
  std::string_view name = {};
  std::string_view pid = "0", tid = "0";      // as JSON: 7, or "Spans" with its quotes
  int64_t begin = kNoTime, duration = kNone;  // nanoseconds
  // Further fields as members of JSON, without the outer braces: '"args": {"correlation": 7, "stream": 3}'. Of "args"
  // the event takes correlation, external id, device and stream.
  std::string_view members = {};
};

// For one thread.
class TraceBuilder {
 public:
  TraceBuilder() : packer_(trace_.fields) {}
  TraceBuilder(const TraceBuilder&) = delete;
  TraceBuilder& operator=(const TraceBuilder&) = delete;

  FileFacts& facts() { return trace_.facts; }
  void add(const NewEvent& event);  // CorruptError where `members` is not JSON
  Trace take() && { return std::move(trace_); }

 private:
  Trace trace_;
  FieldPacker packer_;
};

}  // namespace hyperion::trace
