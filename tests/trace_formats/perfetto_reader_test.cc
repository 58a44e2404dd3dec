#include "hyperion/trace_formats/perfetto_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/export_trace.h"
#include "hyperion/trace/gzip_file.h"
#include "hyperion/trace_formats/read_any_trace.h"
#include "tests/base/support_child.h"
#include "tests/support/seed.h"
#include "tests/trace/support_kept.h"
#include "tests/trace/support_perfetto.h"
#include "tests/trace/support_random.h"

namespace hyperion::trace {
namespace {

using test::framed;
using test::small_event;

class PerfettoReader : public ::testing::Test {
 protected:
  Trace read(const std::string& bytes) {
    test::write_anew(folder_ / "a.pftrace", bytes);
    return read_perfetto(folder_ / "a.pftrace");
  }
  base::test::TestFolder folder_;
};

std::string packets_of(const Trace& trace) {
  test::KeptText packets;
  write_perfetto(trace, packets);
  return packets.text;
}

// Phase, category, name, times and arguments of each event but names of tracks and arrows, times from the first.
std::vector<std::string> told(const Trace& trace) {
  int64_t first = INT64_MAX;
  const auto counts = [&](size_t i) {
    const char phase = trace.types[trace.type[i]].phase;
    return (phase == 'X' || phase == 'i' || phase == 'C') && trace.begin[i] != kNoTime;
  };
  for (size_t i = 0; i < trace.size(); ++i)
    if (counts(i)) first = std::min(first, trace.begin[i]);
  std::vector<std::string> lines;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!counts(i)) continue;
    const auto& type = trace.types[trace.type[i]];
    auto args = base::Json::parse(trace.args(i), nullptr, false);
    if (!args.is_object()) args = base::Json::object();
    // Whether 5 was written as 5.0 is not kept, nor more digits than a double has.
    for (auto& each : args)
      if (each.is_number() && !(each.is_number_integer() && each.is_number_unsigned() && each.get<uint64_t>() < 1e15))
        each = each.get<double>();
    lines.push_back(base::format("{} {} {} {} {} {}", type.phase, trace.names[type.category_name], trace.name_text(i),
                                 trace.begin[i] - first, trace.end(i) - trace.begin[i], args.dump()));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

size_t event_named(const Trace& trace, std::string_view name) {
  for (size_t i = 0; i < trace.size(); ++i)
    if (trace.name_text(i) == name) return i;
  ADD_FAILURE() << "no event " << name;
  return 0;
}

std::string track_text(const Trace& trace, size_t i) {
  const auto& track = trace.tracks[trace.track[i]];
  return base::format("{} {} {} {}", track.pid, track.tid, track.device, track.stream);
}

TEST_F(PerfettoReader, reads_what_rocprofv3_writes) {
  const auto trace = read(test::rocprofv3_trace());
  EXPECT_EQ(trace.facts.base_time_ns, 10'500);
  const auto kernel = event_named(trace, "vector_add(float*, int)");
  EXPECT_EQ(trace.category(kernel), Category::kernel);
  EXPECT_EQ(trace.begin[kernel], 4'000);
  EXPECT_EQ(trace.duration[kernel], 1'500);
  EXPECT_EQ(trace.correlation(kernel), 8);
  EXPECT_EQ(track_text(trace, kernel), R"-(41 "COMPUTE AGENT [4] STREAM [1] (GPU)" 4 1)-");
  EXPECT_EQ(trace.integer_arg(kernel, "kernel_id"), 17);
  EXPECT_EQ(trace.arg(kernel, "agent"), R"("Agent 4")");
  const auto copy = event_named(trace, "Memcpy HtoD (MEMORY_COPY_HOST_TO_DEVICE)");
  EXPECT_EQ(trace.category(copy), Category::gpu_memcpy);
  EXPECT_EQ(trace.stream(copy), 1);
  EXPECT_EQ(trace.integer_arg(copy, "copy_bytes"), 4096);
  const auto launch = event_named(trace, "hipLaunchKernel");
  EXPECT_EQ(trace.category(launch), Category::runtime);
  EXPECT_EQ(trace.begin[launch], 1'500);
  EXPECT_EQ(trace.correlation(launch), 8);
  EXPECT_EQ(track_text(trace, launch), "41 41 -1 -1");
  EXPECT_EQ(trace.category(event_named(trace, "hsa_signal_create")), Category::driver);
  const auto marker = event_named(trace, "step 1");
  EXPECT_EQ(trace.category(marker), Category::user_annotation);
  EXPECT_EQ(track_text(trace, marker), R"-(41 "THREAD 1 (42)" -1 -1)-");
  const auto bytes = event_named(trace, "COPY BYTES to Agent [4] (GPU)");
  EXPECT_EQ(trace.category(bytes), Category::counter);
  EXPECT_EQ(trace.integer_arg(bytes, "bytes"), 4096);
  EXPECT_EQ(trace.arg(event_named(trace, "process_name"), "name"), R"("a.out")");
  // Launch to copy and launch to kernel; calls that nothing follows have no arrow.
  std::string arrows;
  for (size_t i = 0; i < trace.size(); ++i)
    if (trace.category(i) == Category::flow)
      arrows += base::format("{}{}@{} ", trace.types[trace.type[i]].phase, trace.correlation(i), trace.begin[i]);
  EXPECT_EQ(arrows, "s1@500 f1@2500 s2@1500 f2@4000 ");

  const auto found = analysis::analyze(trace);
  EXPECT_EQ(found.device_events, 2);
  EXPECT_EQ(found.kernels.size(), 2U);
}

TEST_F(PerfettoReader, reads_what_rocprof_sys_writes) {
  const auto trace = read(test::rocprof_sys_trace());
  const auto kernel = event_named(trace, "vector_add(float*, int)");
  EXPECT_EQ(trace.category(kernel), Category::kernel);
  EXPECT_EQ(trace.correlation(kernel), 8);
  EXPECT_EQ(track_text(trace, kernel), R"(41 "HIP Activity Stream 2" -1 2)");
  const auto copy = event_named(trace, "Memcpy DtoH (MEMORY_COPY_DEVICE_TO_HOST)");
  EXPECT_EQ(trace.category(copy), Category::gpu_memcpy);
  const auto fill = event_named(trace, "fill");
  EXPECT_EQ(track_text(trace, fill), R"(41 "GPU Kernel Dispatch [1] Queue 3" 1 3)");
  EXPECT_EQ(trace.correlation(fill), 509) << "of its flow, where no argument says it";
  EXPECT_EQ(trace.category(event_named(trace, "step")), Category::user_annotation);
  EXPECT_EQ(trace.category(event_named(trace, "here")), Category::instant);
  const auto unclosed = event_named(trace, "main");
  EXPECT_EQ(trace.category(unclosed), Category::cpu_op);
  EXPECT_EQ(trace.end(unclosed), 20'000 - 10'100) << "an open slice lasts until the trace ends";
  EXPECT_EQ(trace.facts.members.back().value, R"({"slices without an end": 1})");
  EXPECT_EQ(analysis::analyze(trace).device_events, 3);
}

TEST_F(PerfettoReader, is_told_by_the_bytes_also_packed_and_not_of_json) {
  const auto bytes = test::rocprofv3_trace();
  std::ofstream(folder_ / "a.json", std::ios::binary) << bytes;
  EXPECT_TRUE(is_perfetto_file(folder_ / "a.json"));
  EXPECT_EQ(told(read_any_trace({folder_ / "a.json"})), told(read(bytes)));
  for (const std::string text :
       {"", "\n", "\n{\"traceEvents\": []}", "\n\n[{\"ph\": \"X\"}]", "\n[                    ]", "[]"}) {
    std::ofstream(folder_ / "b.pftrace", std::ios::binary) << text;
    EXPECT_FALSE(is_perfetto_file(folder_ / "b.pftrace")) << text;
  }
  EXPECT_FALSE(is_perfetto_file(folder_.path()));
  try {
    auto packed = gzip_file(base::real_files().create(folder_ / "c"));
    packed->append(bytes);
    packed->sync();
  } catch (const base::ConfigError&) {
    GTEST_SKIP() << "a build without zlib";
  }
  EXPECT_EQ(told(read_any_trace({folder_ / "c"})), told(read(bytes)));
}

TEST_F(PerfettoReader, gives_back_what_our_exporter_wrote) {
  const auto seed = hyperion::testing::seed();
  size_t slices = 0;
  for (unsigned i = 0; i < 300; ++i) {
    test::write_anew(folder_ / "a.json", test::random_trace(static_cast<unsigned>(seed) + i, 60));
    const auto original = read_any_trace({folder_ / "a.json"});
    if (told(original).empty()) continue;
    const auto back = read(packets_of(original));
    ASSERT_EQ(told(back), told(original)) << "seed " << seed << ", " << i;
    slices += told(back).size();
    // And once more, where names of tracks are already as they are written.
    ASSERT_EQ(told(read(packets_of(back))), told(original)) << "seed " << seed << ", " << i;
  }
  EXPECT_GT(slices, 500U);
}

TEST_F(PerfettoReader, gives_back_instants_counters_arrows_and_tracks) {
  std::ofstream(folder_ / "a.json") << R"({"baseTimeNanoseconds": 1759968000000000000, "traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 41, "tid": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 41, "tid": 43, "args": {"name": "feed"}},
    {"ph": "i", "cat": "here", "name": "a \"b\"", "pid": 41, "tid": 43, "ts": 5.125, "s": "t", "args": {"x": "é\n", "y": [1, {"z": null}], "t": true, "r": -0.5, "w": 2.0}},
    {"ph": "C", "cat": "memory", "name": "in use", "pid": 41, "tid": 43, "ts": 6, "args": {"bytes": 12.5}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 41, "tid": 43, "ts": 5, "dur": 2, "args": {"correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 8.001, "dur": 0.5, "args": {"stream": 7, "device": 0, "correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "l", "pid": 0, "tid": 7, "ts": 8.301, "dur": 0.5, "args": {"stream": 7, "device": 0, "correlation": 4}},
    {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 41, "tid": 43, "ts": 5},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 0, "tid": 7, "ts": 8.001, "bp": "e"}]})";
  const auto original = read_any_trace({folder_ / "a.json"});
  export_trace(base::real_files(), folder_ / "b.pftrace", original, ExportFormat::perfetto);
  const auto back = read_any_trace({folder_ / "b.pftrace"});
  EXPECT_EQ(told(back), told(original));
  EXPECT_EQ(back.facts.base_time_ns + back.begin[event_named(back, "k")], 1759968000000008001);
  EXPECT_EQ(track_text(back, event_named(back, "cudaLaunchKernel")), "41 43 -1 -1");
  EXPECT_EQ(track_text(back, event_named(back, "k")), "0 7 0 7");
  EXPECT_EQ(back.arg(event_named(back, "thread_name"), "name"), R"("feed")");
  const auto arrow = event_named(back, "ac2g");
  EXPECT_EQ(back.types[back.type[arrow]].phase, 's');
  EXPECT_EQ(track_text(back, arrow), "41 43 -1 -1");
}

TEST_F(PerfettoReader, knows_arguments_of_every_kind) {
  const auto annotation = [](const std::string& key, const auto& fill) {
    base::ProtobufMessage message;
    message.text(10, key);
    fill(message);
    return std::string(message.bytes());
  };
  base::ProtobufMessage event, packet;
  event.number(9, 1);
  event.text(22, "a");
  event.text(22, "b");
  event.text(23, "odd \xff name");
  event.text(4, annotation("u", [](auto& m) { m.number(3, UINT64_MAX); }));
  event.text(4, annotation("i", [](auto& m) { m.number(4, static_cast<uint64_t>(int64_t{-5})); }));
  event.text(4, annotation("d", [](auto& m) { m.real(5, 0.1); }));
  event.text(4, annotation("e", [](auto& m) { m.real(5, -1.0 / 0.0); }));
  event.text(4, annotation("p", [](auto& m) { m.number(7, 255); }));
  event.text(4, annotation("j", [](auto& m) { m.text(9, "[1, {\"a\": 2}]"); }));
  event.text(4, annotation("bad\xc3", [](auto& m) { m.text(9, "[1"); }));
  event.text(4, annotation("none", [](auto&) {}));
  event.text(4, annotation("n", [&](auto& m) {
               m.text(11, annotation("x\n", [](auto& inner) { inner.number(2, 1); }));
               m.text(11, annotation("y", [&](auto& inner) {
                        inner.text(12, annotation("", [](auto& e) { e.text(6, "\"\\\t\x01"); }));
                        inner.text(12, annotation("", [](auto& e) { e.number(4, 7); }));
                      }));
             }));
  packet.number(8, 5);
  packet.number(10, 1);
  packet.text(11, event.bytes());
  const auto trace = read(framed(packet));
  ASSERT_EQ(trace.size(), 1U);
  EXPECT_EQ(trace.name_text(0), "odd \xef\xbf\xbd name");
  EXPECT_EQ(trace.names[trace.types[0].category_name], "a,b");
  EXPECT_EQ(trace.args(0), R"({"u": 18446744073709551615, "i": -5, "d": 0.1, "e": "-inf", "p": "0xff", )"
                           "\"j\": [1, {\"a\": 2}], \"bad\xef\xbf\xbd\": \"[1\", \"none\": null, "
                           R"("n": {"x\n": true, "y": ["\"\\\u0009\u0001", 7]}})");
}

TEST_F(PerfettoReader, ends_the_slice_of_the_same_writer) {
  const auto trace = read(small_event({{8, 10}, {10, 1}}, 1) + small_event({{8, 20}, {10, 2}}, 1) +
                          small_event({{8, 30}, {10, 1}}, 2) + small_event({{8, 50}, {10, 3}}, 2) +
                          small_event({{8, 60}, {10, 3}}, 2));
  ASSERT_EQ(trace.size(), 2U);
  EXPECT_EQ(trace.duration[0], 20);
  EXPECT_EQ(trace.duration[1], 30);
  EXPECT_EQ(trace.facts.members.back().value, R"({"ends without a slice": 1})");
}

TEST_F(PerfettoReader, passes_over_what_refers_to_lost_packets) {
  const auto trace =
      read(small_event({{8, 10}, {10, 1}, {13, 2}}, 3) + small_event({{8, 20}, {10, 1}, {13, 3}}, 3) +
           small_event({{8, 30}, {10, 1}, {13, 2}}, 3) + small_event({{8, 40}, {10, 1}, {13, 2}, {42, 1}}, 3));
  EXPECT_EQ(trace.size(), 2U);
  EXPECT_EQ(trace.facts.members.back().value, R"({"events that refer to lost packets": 2})");
}

TEST_F(PerfettoReader, holds_tracks_that_hold_each_other) {
  std::string file;
  for (const uint64_t uuid : {5, 6}) {
    base::ProtobufMessage descriptor, packet;
    descriptor.number(1, uuid);
    descriptor.number(5, 11 - uuid);
    descriptor.text(2, "same");
    packet.text(60, descriptor.bytes());
    file += framed(packet);
  }
  const auto trace = read(file + small_event({{8, 10}}, 1, 5) + small_event({{8, 10}}, 1, 6));
  EXPECT_EQ(track_text(trace, 0), R"("same" "same" -1 -1)");
  EXPECT_EQ(track_text(trace, 1), R"("same" "same #6" -1 -1)");
}

}  // namespace
}  // namespace hyperion::trace
