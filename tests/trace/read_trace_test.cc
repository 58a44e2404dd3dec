#include "hyperion/trace/read_trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "tests/base/support_child.h"

namespace hyperion::trace {
namespace {

using base::test::error_of;

class ReadTrace : public ::testing::Test {
 protected:
  Trace read(const std::string& text, size_t window = size_t{4} << 20, int threads = 2) {
    std::ofstream(folder_ / "a.json", std::ios::binary) << text;
    ReadOptions options;
    options.window = window;
    options.threads = threads;
    return read_trace(folder_ / "a.json", options);
  }
  std::string refusal(const std::string& text) {
    return error_of([&] { read(text); });
  }
  base::test::TestFolder folder_;
};

// What a reader that holds all of the file as a tree makes of it, and what it gives back.
base::Json event_json(const Trace& trace, size_t i) {
  base::Json json = base::Json::parse("{" + trace.fields.text(i) + "}");
  if (trace.name[i] != kNoString) json["name"] = std::string(trace.name_text(i));
  const auto& type = trace.types[trace.type[i]];
  if (type.phase != 0) json["ph"] = std::string(1, type.phase);
  if (type.category_name != kNoString) json["cat"] = std::string(trace.names[type.category_name]);
  const auto& track = trace.tracks[trace.track[i]];
  if (!track.pid.empty()) json["pid"] = base::Json::parse(track.pid);
  if (!track.tid.empty()) json["tid"] = base::Json::parse(track.tid);
  if (trace.begin[i] != kNoTime && !json.contains("ts")) json["ts"] = static_cast<double>(trace.begin[i]) / 1000;
  if (trace.duration[i] != kNone && !json.contains("dur")) json["dur"] = static_cast<double>(trace.duration[i]) / 1000;
  return json;
}

void expect_same_events(const Trace& trace, const base::Json& events) {
  ASSERT_EQ(trace.size(), events.size());
  for (size_t i = 0; i < events.size(); ++i) ASSERT_EQ(event_json(trace, i), events[i]) << i;
}

std::string whole_file() {
  return R"json({ "schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_config": [{"pg_name": "0"}]},
  "a": {"b\n": [1, {"traceEvents": []}]}, "baseTimeNanoseconds": 1759968000000000000,
  "traceEvents": [
  {
    "ph": "X", "cat": "kernel", "name": "void k<1>(\"x\" \u00e9)", "pid": 0, "tid": 7,
    "ts": 4827.123, "dur": 12.5,
    "args": { "External id": 5, "device": 0, "stream": 7, "correlation": 33, "grid": [1, 2, 3], "rate": 0.25 }
  },
  {"ph": "X", "cat": "cpu_op", "name": "a},{\"ph\": b", "pid": 12, "tid": 13, "ts": 1, "dur": 0, "args": {"l": [{"x": 1},{"ph": 2},
 {"ph": 3}]}},
  {"name": "process_name", "ph": "M", "ts": 0.001, "pid": "Spans", "tid": 0, "args": {"name": "python"}},
  {"ph": "s", "id": 33, "pid": 12, "tid": 13, "ts": -2.5, "cat": "ac2g", "name": "ac2g"}
  ], "traceName": "x.json", "displayTimeUnit": "ms"
})json";
}

TEST_F(ReadTrace, takes_every_event_and_fact_of_a_file) {
  const auto trace = read(whole_file());
  expect_same_events(trace, base::Json::parse(whole_file())["traceEvents"]);
  EXPECT_EQ(trace.category(0), Category::kernel);
  EXPECT_EQ(trace.begin[0], 4827123);
  EXPECT_EQ(trace.duration[0], 12500);
  EXPECT_EQ(trace.stream(0), 7);
  EXPECT_EQ(trace.correlation(0), 33);
  EXPECT_EQ(trace.external(0), 5);
  EXPECT_EQ(trace.name_text(0), "void k<1>(\"x\" \xc3\xa9)");
  EXPECT_EQ(trace.correlation(3), 33);
  EXPECT_EQ(trace.begin[3], -2500);
  EXPECT_EQ(trace.facts.rank, 3);
  EXPECT_EQ(trace.facts.world_size, 8);
  EXPECT_EQ(trace.facts.backend, "nccl");
  EXPECT_EQ(trace.facts.base_time_ns, 1759968000000000000);
  ASSERT_EQ(trace.facts.members.size(), 6U);
  EXPECT_EQ(trace.facts.members[2].key, "a");
  EXPECT_EQ(trace.facts.members[2].value, R"({"b\n": [1, {"traceEvents": []}]})");
  EXPECT_EQ(trace.facts.members[5].key, "displayTimeUnit");
}

TEST_F(ReadTrace, windows_of_any_length_and_threads_give_the_same) {
  const auto events = base::Json::parse(whole_file())["traceEvents"];
  for (size_t window = 1; window < 400; window += 1 + window / 8)
    for (const int threads : {1, 3}) expect_same_events(read(whole_file(), window, threads), events);
}

TEST_F(ReadTrace, odd_events_are_kept_as_they_are) {
  const std::string events =
      R"([{}, {"ph": "XY", "cat": 7, "name": null, "pid": null, "tid": [1], "ts": "12", "dur": true},
    {"ts": 1.23456, "dur": 1e3, "args": null}, {"args": [1, 2]}, {"args": "text", "id": "0x1F", "ph": "f"},
    {"dur": -4, "ts": 7, "ph": "X"}, {"ts": 1682725898237042, "dur": 3}, {"ts": 0.0005}, {"": {}, "s": "g"},
    {"args": {"stream": "9", "correlation": 18446744073709551615, "device": 1.5, "External id": 4294967296}}])";
  const auto trace = read(events);
  expect_same_events(trace, base::Json::parse(events));
  EXPECT_TRUE(trace.facts.bare);
  EXPECT_EQ(trace.duration[5], 0);
  EXPECT_EQ(trace.begin[6], 1682725898237042000);
  EXPECT_EQ(trace.stream(9), 9);
  EXPECT_EQ(trace.correlation(9), kNone);
  EXPECT_EQ(trace.external(9), 4294967296);
}

TEST_F(ReadTrace, random_files_are_read_as_by_a_whole_tree) {
  std::mt19937 random(3);
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const char* spaces[] = {"", " ", "\n", "\t \r\n"};
  const auto space = [&] { return spaces[any(4)]; };
  for (int round = 0; round < 60; ++round) {
    std::string text = std::string(space()) + "{" + space() + "\"traceEvents\"" + space() + ":[" + space();
    const int count = any(60);
    for (int i = 0; i < count; ++i) {
      const auto field = [&](const std::string& key, const std::string& value) {
        text +=
            std::string(text.back() == '{' ? "" : ",") + space() + "\"" + key + "\"" + space() + ":" + space() + value;
      };
      text += std::string(i > 0 ? "," : "") + space() + "{";
      if (any(9)) field("ph", any(5) ? "\"X\"" : "\"f\"");
      if (any(9)) field("name", base::format("\"n{}\\\"{}\"", any(30), any(2) ? "},{\\\"ph\\\":" : "\\\\"));
      if (any(9)) field("cat", any(2) ? "\"kernel\"" : "\"cpu_op\"");
      if (any(9)) field("ts", base::format("{}.{}", any(100000), any(1000)));
      if (any(5)) field("dur", base::format("{}", any(1000)));
      if (any(5)) field("pid", any(2) ? "7" : "\"Spans\"");
      if (any(2))
        field("args", base::format("{{\"correlation\":{}, \"x\":[{{\"a\":{}}},{{\"ph\":1}}] ,\"y\":\"}},{{\"}}",
                                   any(1 << 30), any(9)));
      text += std::string(space()) + "}" + space();
    }
    text += std::string("]") + space() + "," + space() + "\"rank\": [{},{\"ph\": 1}]}" + space();
    expect_same_events(read(text, static_cast<size_t>(1 + any(300)), 1 + any(3)),
                       base::Json::parse(text)["traceEvents"]);
  }
}

TEST_F(ReadTrace, an_event_may_be_longer_than_many_windows) {
  const auto text = R"([{"name": "a", "args": {"x": ")" + std::string(100000, 'y') + R"("}}, {"name": "b"}])";
  expect_same_events(read(text, 1000), base::Json::parse(text));
}

TEST_F(ReadTrace, a_file_cut_anywhere_is_refused) {
  const auto text = whole_file();
  for (size_t length = 0; length < text.size(); ++length) {
    const auto error = refusal(text.substr(0, length));
    EXPECT_NE(error.find("a.json is no trace that can be read"), std::string::npos) << length << error;
    EXPECT_NE(error.find("hint: "), std::string::npos);
  }
}

TEST_F(ReadTrace, bad_files_are_refused_with_the_byte) {
  const auto expect_refused = [&](const std::string& text, const std::string& what) {
    const auto error = refusal(text);
    EXPECT_NE(error.find(what), std::string::npos) << text.substr(0, 80) << "\n" << error;
  };
  expect_refused("", "it is empty, at byte 0");
  expect_refused("hello", "neither an object nor an array begins, at byte 0");
  expect_refused("{}", "it has no \"traceEvents\", at byte 1");
  expect_refused(R"({"a": 1})", "it has no \"traceEvents\", at byte 7");
  expect_refused(R"({"traceEvents": 1})", "\"traceEvents\" is no array, at byte 16");
  expect_refused(R"({"traceEvents": [], "traceEvents": []})", "twice");
  expect_refused(R"({"traceEvents": []} x)", "at byte 20");
  expect_refused(R"([] x)", "something follows its last ']'");
  expect_refused(R"([{"ph": "X"} {"ph": "X"}])", "a ',' or ']' is missing, at byte 13");
  expect_refused(R"([{"ph": "X"},])", "an event is no object, at byte 13");
  expect_refused(R"([1])", "an event is no object, at byte 1");
  expect_refused(R"([{"ts": 1e300}])", "a time is beyond any clock, at byte 8");
  expect_refused(R"([{"ts": 99999999999999999}])", "a time is beyond any clock");
  expect_refused("[{\"name\": \"\xff\"}]", "a text is not UTF-8, at byte 11");
  expect_refused("[{\"name\": \"a\x01\"}]", "a value is not JSON");
  expect_refused("[" + std::string(100000, '['), "an event is no object");
  expect_refused("[{\"args\": " + std::string(100000, '['), "it nests more than 200 deep");
  std::string deep = "[{\"args\": ";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  expect_refused(deep, "it nests more than 200 deep");
  expect_refused("{\"traceEvents\": [], \"a\": " + std::string(100000, '['), "no trace that can be read");
  EXPECT_NE(error_of<base::FileError>([&] { read_trace(folder_ / "none.json"); }).find("none.json"), std::string::npos);
}

TEST_F(ReadTrace, damage_far_behind_is_found_at_its_place) {
  std::string text = "[";
  for (int i = 0; i < 5000; ++i)
    text += R"({"ph": "X", "name": "a", "ts": 1, "dur": 1},)"
            "\n";
  const size_t at = text.size();
  text += R"({"ph": "X" "name": "a"}])";
  for (const size_t window : {size_t{1000}, size_t{1} << 20}) {
    const auto error = error_of([&] { read(text, window, 3); });
    EXPECT_NE(error.find(base::format("a ',' or '}}' is missing, at byte {}", at + 11)), std::string::npos) << error;
  }
}

TEST_F(ReadTrace, says_how_far_it_is) {
  uint64_t last = 0;
  std::ofstream(folder_ / "b.json") << whole_file();
  ReadOptions options;
  options.progress = [&](uint64_t bytes) {
    EXPECT_GE(bytes, last);
    last = bytes;
  };
  read_trace(folder_ / "b.json", options);
  EXPECT_EQ(last, whole_file().size());
}

}  // namespace
}  // namespace hyperion::trace
