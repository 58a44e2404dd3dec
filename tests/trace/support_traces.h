// Traces of a few events, for tests.
#pragma once
#include <string>

#include "hyperion/base/format.h"
#include "hyperion/trace/trace_builder.h"

namespace hyperion::trace::test {

// Times in nanoseconds.
class SmallTrace {
 public:
  void kernel(const std::string& name, int64_t begin, int64_t end, int64_t stream = 7, int64_t correlation = kNone,
              const std::string& category = "kernel", int64_t external = kNone) {
    std::string args = base::format(R"("args": {{"stream": {}, "device": 0)", stream);
    if (correlation != kNone) args += base::format(R"(, "correlation": {})", correlation);
    if (external != kNone) args += base::format(R"(, "External id": {})", external);
    add(category, name, "0", std::to_string(stream), begin, end, args + "}");
  }
  void launch(int64_t begin, int64_t end, int64_t correlation) {
    add("cuda_runtime", "cudaLaunchKernel", "70", "70", begin, end,
        base::format(R"("args": {{"correlation": {}}})", correlation));
  }
  void step(int number, int64_t begin, int64_t end) {
    add("user_annotation", base::format("ProfilerStep#{}", number), "70", "70", begin, end, "");
  }
  void op(const std::string& name, int64_t begin, int64_t end, int64_t external = kNone,
          const std::string& thread = "70") {
    add("cpu_op", name, "70", thread, begin, end, base::format(R"("args": {{"External id": {}}})", external));
  }
  void add(const std::string& category, const std::string& name, const std::string& pid, const std::string& tid,
           int64_t begin, int64_t end, const std::string& members) {
    builder_.add({.category = category,
                  .name = name,
                  .pid = pid,
                  .tid = tid,
                  .begin = begin,
                  .duration = end - begin,
                  .members = members});
  }
  FileFacts& facts() { return builder_.facts(); }
  Trace take() { return std::move(builder_).take(); }

 private:
  TraceBuilder builder_;
};

}  // namespace hyperion::trace::test
