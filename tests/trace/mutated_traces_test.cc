// Broken traces: what nlohmann's parser takes is read, and nothing else is.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/trace/read_trace.h"
#include "tests/base/support_child.h"
#include "tests/support/seed.h"

namespace hyperion::trace {
namespace {

const char kTrace[] =
    R"json({"schemaVersion": 1, "distributedInfo": {"rank": 3, "x": [1, {"y": null}]}, "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "k<1>(\"x\")", "pid": 0, "tid": 7, "ts": 4827.123, "dur": 12.5,
   "args": { "External id": 5, "device": 0, "stream": 7, "correlation": 33, "grid": [1, 2, 3], "rate": 0.25, "t": true } },
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 12, "tid": 13, "ts": 1, "dur": 0, "args": {"correlation": 33}},
  {"name": "process_name", "ph": "M", "ts": 0.001, "pid": "Spans", "tid": 0, "args": {"name": "python"}},
  {"ph": "s", "id": 33, "pid": 12, "tid": 13, "ts": -2.5, "cat": "ac2g", "name": "ac2g", "bp": "e"}
 ], "traceName": "x.json"})json";

std::string mutated(std::mt19937& random) {
  static const std::string kTokens[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        ",",
                                        ":",
                                        "0",
                                        "1",
                                        "-",
                                        ".",
                                        "e5",
                                        "\\",
                                        "\x01",
                                        "\xff",
                                        "null",
                                        "true",
                                        "1e400",
                                        "99999999999999999999",
                                        "{\"a\":1},",
                                        "\"ph\"",
                                        "\"ts\": 1,",
                                        " ",
                                        "\n",
                                        "\"args\": {",
                                        "\xc3\xa9",
                                        "\"traceEvents\": [",
                                        "00",
                                        "\x02",
                                        "\x03"};
  std::string text = kTrace;
  for (unsigned i = 0; i < 1 + random() % 3; ++i) {
    const size_t at = random() % text.size();
    switch (random() % 5) {
      case 0:
        text.erase(at, 1 + random() % 8);
        break;
      case 1:
        text[at] = static_cast<char>(random());
        break;
      case 2:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
      default:
        text.insert(at, kTokens[random() % std::size(kTokens)]);
        break;
    }
    if (text.empty()) text = " ";
  }
  return text;
}

// Whether a parser of whole trees finds a trace in it; none where it has no room for a number.
std::optional<bool> is_trace(const std::string& text) {
  size_t events = 0;  // members of that name; a tree keeps the last alone
  base::Json json;
  try {
    json = base::Json::parse(text, [&](int depth, base::Json::parse_event_t event, base::Json& parsed) {
      if (depth == 1 && event == base::Json::parse_event_t::key && parsed == "traceEvents") ++events;
      return true;
    });
  } catch (const base::Json::out_of_range&) {
    return std::nullopt;
  } catch (const base::Json::exception&) {
    return false;
  }
  if (json.is_object() && events != 1) return false;
  const auto list = json.is_object() ? json["traceEvents"] : json;
  if (!list.is_array()) return false;
  for (const auto& event : list)
    if (!event.is_object()) return false;
  return true;
}

// Refused by us alone, on purpose: numbers that are no time.
bool is_refused_time(const std::string& error) { return error.find("beyond any clock") != std::string::npos; }

TEST(MutatedTraces, are_read_where_they_are_json_and_else_refused) {
  const auto seed = hyperion::testing::seed();
  std::mt19937 random(static_cast<unsigned>(seed));
  const base::test::TestFolder folder;
  int read = 0, refused = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto text = mutated(random);
    if (text.find("\\u") != std::string::npos) continue;
    std::ofstream(folder / "a.json", std::ios::binary) << text;
    ReadOptions options;
    options.threads = 1 + static_cast<int>(random() % 2);
    options.window = 1 + random() % 600;
    std::string error;
    try {
      const auto trace = read_trace(folder / "a.json", options);
      analysis::analyze(trace);
      for (size_t event = 0; event < trace.size(); ++event) trace.args(event);
      ++read;
    } catch (const base::Error& told) {
      error = base::error_text(told);
      ++refused;
    }
    const auto expected = is_trace(text);
    if (is_refused_time(error) || !expected) continue;
    ASSERT_EQ(error.empty(), *expected) << "seed " << seed << ", " << i << ": " << error << "\n" << text;
  }
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace hyperion::trace
