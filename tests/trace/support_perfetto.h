// Traces as programs write them that use Perfetto's own library, built after its published schema, for tests.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyperion/base/protobuf_message.h"

namespace hyperion::trace::test {

using base::ProtobufMessage;

inline std::string framed(const ProtobufMessage& packet) {
  ProtobufMessage frame;
  frame.text(1, packet.bytes());
  return std::string(frame.bytes());
}

// An event "e" on a track, with these numbers in its packet.
inline std::string small_event(const std::vector<std::pair<int, uint64_t>>& of_packet, uint64_t type,
                               uint64_t track = 5) {
  ProtobufMessage event, packet;
  event.number(9, type);
  event.number(11, track);
  event.text(23, "e");
  for (const auto& [field, value] : of_packet) packet.number(field, value);
  packet.text(11, event.bytes());
  return framed(packet);
}

// A process (pid 41), its main thread, and packets of one writer whose times count from the packet before.
class LibraryTrace {
 public:
  static constexpr uint64_t kProcess = 1000, kMainThread = 1001;

  explicit LibraryTrace(uint64_t begin) : last_(begin) {
    ProtobufMessage service, clocks;
    clocks.text(1, clock(6, begin - 500, false));
    clocks.text(1, clock(1, 1'700'000'000'000'000'000, false));
    clocks.number(2, 6);
    service.text(6, clocks.bytes());
    service.number(3, 0);
    service.number(10, 1);
    bytes_ += framed(service);

    ProtobufMessage first, defaults, of_events, both;
    of_events.number(11, kMainThread);
    defaults.number(58, 64);
    defaults.text(11, of_events.bytes());
    both.text(1, clock(6, begin, false));
    both.text(1, clock(64, begin, true));
    first.number(8, 0);
    first.number(13, 1);
    first.text(59, defaults.bytes());
    first.text(6, both.bytes());
    packet(first);

    ProtobufMessage process, thread, descriptor;
    process.number(1, 41);
    process.text(6, "a.out");
    descriptor.number(1, kProcess);
    descriptor.text(3, process.bytes());
    track_packet(descriptor);
    descriptor.clear();
    thread.number(1, 41);
    thread.number(2, 41);
    thread.text(5, "main");
    descriptor.number(1, kMainThread);
    descriptor.number(5, kProcess);
    descriptor.text(4, thread.bytes());
    track_packet(descriptor);
  }

  uint64_t track(const std::string& name, bool counts = false) {
    ProtobufMessage descriptor;
    descriptor.number(1, ++tracks_);
    descriptor.number(5, kProcess);
    descriptor.text(2, name);
    if (counts) {
      ProtobufMessage counter;
      counter.number(3, 3);     // bytes
      counter.number(4, 1024);  // in units of 1024
      descriptor.text(8, counter.bytes());
    }
    track_packet(descriptor);
    return tracks_;
  }

  struct Argument {
    std::string key;
    uint64_t number = 0;
    std::string text = {};
  };

  void slice(uint64_t track, const std::string& category, const std::string& name, uint64_t begin, uint64_t end,
             const std::vector<Argument>& arguments = {}, uint64_t flow = 0) {
    event(1, track, begin, category, name, arguments, flow);
    event(2, track, end, {}, {}, {}, 0);
  }
  void begin_slice(const std::string& category, const std::string& name, uint64_t begin) {
    event(1, 0, begin, category, name, {}, 0);
  }
  void end_slice(uint64_t end) { event(2, 0, end, {}, {}, {}, 0); }
  void instant(uint64_t track, const std::string& category, const std::string& name, uint64_t time) {
    event(3, track, time, category, name, {}, 0);
  }
  void value(uint64_t track, uint64_t time, uint64_t value) {
    ProtobufMessage event;
    event.number(9, 4);
    event.number(11, track);
    event.number(30, value);
    event_packet(event, {}, time);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  static std::string clock(uint64_t id, uint64_t time, bool counts_on) {
    ProtobufMessage clock;
    clock.number(1, id);
    clock.number(2, time);
    if (counts_on) clock.number(3, 1);
    return std::string(clock.bytes());
  }

  uint64_t interned(int field, const std::string& text, ProtobufMessage& fresh) {
    auto& numbers = numbers_[field];
    const auto [found, added] = numbers.try_emplace(text, numbers.size() + 1);
    if (added) {
      ProtobufMessage entry;
      entry.number(1, found->second);
      entry.text(2, text);
      fresh.text(field, entry.bytes());
    }
    return found->second;
  }

  void event(uint64_t type, uint64_t track, uint64_t time, const std::string& category, const std::string& name,
             const std::vector<Argument>& arguments, uint64_t flow) {
    ProtobufMessage event, fresh;
    event.number(9, type);
    if (track != 0) event.number(11, track);
    if (!category.empty()) event.number(3, interned(1, category, fresh));
    if (!name.empty()) event.number(10, interned(2, name, fresh));
    for (const auto& argument : arguments) {
      ProtobufMessage annotation;
      annotation.number(1, interned(3, argument.key, fresh));
      if (argument.text.empty())
        annotation.number(3, argument.number);
      else
        annotation.text(6, argument.text);
      event.text(4, annotation.bytes());
    }
    if (flow != 0) event.fixed64(47, flow);
    event_packet(event, fresh, time);
  }

  // What lies before the packet before says its clock.
  void event_packet(const ProtobufMessage& event, const ProtobufMessage& fresh, uint64_t time) {
    ProtobufMessage packet_;
    packet_.text(11, event.bytes());
    packet_.number(8, time >= last_ ? time - last_ : time);
    if (time < last_) packet_.number(58, 6);
    if (time >= last_) last_ = time;
    if (!fresh.empty()) packet_.text(12, fresh.bytes());
    packet_.number(13, 2);
    packet(packet_);
  }

  void track_packet(const ProtobufMessage& descriptor) {
    ProtobufMessage packet_;
    packet_.number(8, 0);
    packet_.text(60, descriptor.bytes());
    packet(packet_);
  }

  void packet(ProtobufMessage& content) {
    content.number(10, 2);
    bytes_ += framed(content);
  }

  std::string bytes_;
  uint64_t last_, tracks_ = 2000;
  std::map<int, std::map<std::string, uint64_t>> numbers_;  // by field of InternedData
};

// A step of a launch, a copy and a kernel, with tracks, categories and arguments as rocprofv3 --output-format pftrace
// names them: calls of HSA first, then of HIP, and each slice's end behind its begin.
inline std::string rocprofv3_trace() {
  LibraryTrace trace(10'000);
  const auto thread = trace.track("THREAD 1 (42)");
  const auto compute = trace.track("COMPUTE AGENT [4] STREAM [1] (GPU)");
  const auto copies = trace.track("COPY to AGENT [4] STREAM [1] (GPU)");
  const auto bytes = trace.track("COPY BYTES to Agent [4] (GPU)", true);
  const auto times = [](uint64_t begin, uint64_t end, uint64_t correlation) {
    return std::vector<LibraryTrace::Argument>{
        {"begin_ns", begin}, {"end_ns", end}, {"delta_ns", end - begin}, {"corr_id", correlation}};
  };
  trace.slice(0, "hsa_api", "hsa_signal_create", 12'100, 12'200, times(12'100, 12'200, 11), 511);
  trace.slice(0, "hip_api", "hipMemcpyAsync", 11'000, 11'500, times(11'000, 11'500, 7), 507);
  trace.slice(0, "hip_api", "hipLaunchKernel", 12'000, 13'000, times(12'000, 13'000, 8), 508);
  trace.slice(thread, "marker_api", "step 1", 10'500, 20'000, times(10'500, 20'000, 12), 512);
  auto copy = times(13'000, 14'000, 7);
  copy.push_back({"dst_agent", 0, "Agent 4"});
  copy.push_back({"copy_bytes", 4096});
  trace.slice(copies, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", 13'000, 14'000, copy, 507);
  auto kernel = times(14'500, 16'000, 8);
  kernel.push_back({"agent", 0, "Agent 4"});
  kernel.push_back({"queue", 3});
  kernel.push_back({"kernel_id", 17});
  trace.slice(compute, "kernel_dispatch", "vector_add(float*, int)", 14'500, 16'000, kernel, 508);
  trace.value(bytes, 13'000, 4);
  trace.value(bytes, 14'000, 0);
  return trace.bytes();
}

// The same of rocprof-sys: kernels and copies share the track and the category of their stream.
inline std::string rocprof_sys_trace() {
  LibraryTrace trace(10'000);
  const auto stream = trace.track("HIP Activity Stream 2");
  const auto queue = trace.track("GPU Kernel Dispatch [1] Queue 3");
  trace.begin_slice("host", "main", 10'100);
  trace.begin_slice("user", "step", 10'500);
  trace.begin_slice("rocm_hip_api", "hipLaunchKernel", 12'000);
  trace.end_slice(13'000);
  trace.instant(0, "user", "here", 13'500);
  trace.end_slice(20'000);
  trace.slice(stream, "rocm_hip_stream", "MEMORY_COPY_DEVICE_TO_HOST", 13'000, 14'000,
              {{"begin_ns", 13'000}, {"corr_id", 7}, {"stream_id", 2}, {"src_agent_id", 1}, {"bytes", 64}}, 507);
  trace.slice(stream, "rocm_hip_stream", "vector_add(float*, int)", 14'500, 16'000,
              {{"begin_ns", 14'500}, {"corr_id", 8}, {"stream_id", 2}, {"queue", 3}, {"grid_size", 0, "(1,1,1)"}}, 508);
  trace.slice(queue, "rocm_kernel_dispatch", "fill", 16'000, 17'000, {{"queue", 3}}, 509);
  return trace.bytes();  // main() has no end
}

}  // namespace hyperion::trace::test
