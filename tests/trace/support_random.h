// JSON of traces that no profiler would write but that a reader must take, for tests.
#pragma once
#include <random>
#include <string>

#include "hyperion/base/format.h"

namespace hyperion::trace::test {

// A few of Kineto's fields, odd values, and forms that differ from event to event.
inline std::string random_trace(unsigned seed, int most_events) {
  std::mt19937 random(seed);
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const auto big = [&] { return std::to_string(static_cast<int64_t>(random()) << any(30)); };
  std::string text =
      "{\"schemaVersion\": 1, \"a\\\"\\u00e9\": [1, {\"b\": null}], \"distributedInfo\": {\"rank\": 3},\n";
  text += " \"traceEvents\": [";
  const int count = any(most_events + 1);
  int64_t now = static_cast<int64_t>(random()) * 1000;
  for (int i = 0; i < count; ++i) {
    std::string event;
    const auto field = [&](const std::string& key, const std::string& value) {
      event += base::format("{}\"{}\": {}", event.empty() ? "" : ", ", key, value);
    };
    now += any(5000) - (any(9) == 0 ? 4000 : 0);
    if (any(20)) field("ph", any(4) ? "\"X\"" : any(2) ? "\"s\"" : "\"XY\"");
    if (any(20)) field("cat", base::format("\"c{}\"", any(4)));
    if (any(20)) field("name", base::format("\"n{} \\\"\\u00e9\\n<{}>\"", any(20), any(3)));
    if (any(20)) field("pid", any(9) ? "7" : "\"Spans\"");
    if (any(20)) field("tid", any(9) ? std::to_string(any(4)) : "[1, {}]");
    if (any(20)) field("ts", any(9) ? base::format("{}.{:03}", now / 1000, now % 1000) : any(2) ? "1.23456" : "-2.5");
    if (any(5)) field("dur", any(9) ? std::to_string(any(300)) : any(2) ? "-4" : "\"12\"");
    if (any(3) == 0) field("id", any(4) ? std::to_string(any(50)) : "\"0x1F\"");
    std::string args;
    const auto arg = [&](const std::string& key, const std::string& value) {
      args += base::format("{}\"{}\": {}", args.empty() ? "" : ",\n  ", key, value);
    };
    if (any(2)) arg("External id", any(9) ? std::to_string(i / 3) : "4294967296");
    if (any(2)) arg("correlation", any(9) ? std::to_string(i / 2) : any(2) ? "18446744073709551615" : big());
    if (any(2)) arg("stream", any(5) ? "7" : "\"9\"");
    if (any(2)) arg("rate", base::format("{}.{}", any(100) - 50, 1 + any(999999)));
    if (any(3) == 0) arg("grid", base::format("[{}, 1, {}]", any(4), any(3)));
    if (any(4) == 0) arg("words", base::format("\"w{} \\\\ \\\"\"", any(9)));
    if (any(9) == 0) arg(base::format("key {}", any(40)), any(2) ? "{\"x\": {\"y\": 1e5}, \"z\": -0.0}" : "true");
    if (any(9) == 0) arg("number", any(2) ? big() : "-" + std::to_string(any(1000)) + ".50");
    if (!args.empty() || any(5) == 0) field("args", any(15) ? "{" + args + "}" : any(2) ? "null" : "[1, 2]");
    text += std::string(i == 0 ? "" : ",") + "\n{" + event + "}";
  }
  return text + "], \"traceName\": \"x.json\"}";
}

}  // namespace hyperion::trace::test
