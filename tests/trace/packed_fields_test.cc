#include "hyperion/trace/packed_fields.h"

#include <gtest/gtest.h>

#include <random>

#include "hyperion/trace/field_packer.h"
#include "hyperion/trace/json_scan.h"
#include "hyperion/trace/trace_builder.h"
#include "tests/base/support_child.h"

namespace hyperion::trace {
namespace {

class Packing : public ::testing::Test {
 protected:
  // What stands in the fields after packing "args": value.
  std::string kept(const std::string& value) {
    packer_.begin();
    packer_.add("args", value);
    fields_.append(packer_.finish());
    return fields_.text(fields_.size() - 1);
  }
  std::string fault(const std::string& value) {
    try {
      kept(value);
    } catch (const ScanFault& found) {
      return found.what;
    }
    return "none";
  }
  PackedFields fields_;
  FieldPacker packer_{fields_};
};

TEST_F(Packing, gives_back_every_byte) {
  for (const std::string value :
       {"{}", "{ }", R"({"a": 1})", R"({"a":-1,"b":[1, 2,3],"c":{"d":"e\"f","g":null}})", R"({"x": 0.5, "y": -0.05})",
        R"({"x": 12345678901234567890, "y": 1e5, "z": 1.5E-7, "w": -0, "v": -0.0, "u": 0.10})", "7", "\"text\"", "true",
        "[]", R"([{"a": [1]}])", R"({"a": 999999999999999999, "b": -999999999999999999, "c": 1000000000000000000})",
        "{\n      \"External id\": 3,\n   \"Call stack\": \"a\\n\xc3\xa9\"\n    }"})
    EXPECT_EQ(kept(value), "\"args\": " + value);
}

TEST_F(Packing, gives_back_every_byte_of_random_values) {
  std::mt19937 random(7);
  const auto any = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)); };
  const std::function<std::string(int)> value = [&](int depth) -> std::string {
    switch (any(depth > 3 ? 5 : 7)) {
      case 0:
        return std::to_string(static_cast<int64_t>(random()) * (any(2) * 2 - 1) * (any(3) == 0 ? 1000000007 : 1));
      case 1:
        return std::to_string(any(1000)) + "." + std::to_string(any(100000));
      case 2:
        return "-0." + std::string(static_cast<size_t>(any(20)), '0') + std::to_string(1 + any(9));
      case 3:
        return "\"" + std::string(static_cast<size_t>(any(40)), static_cast<char>('a' + any(26))) + "\"";
      case 4:
        return any(2) ? "null" : "false";
      case 5:
        return "[" + value(depth + 1) + ", " + value(depth + 1) + "]";
      default:
        return "{\"k" + std::to_string(any(5)) + "\":" + value(depth + 1) + ",\n \"l\" : " + value(depth + 1) + "}";
    }
  };
  for (int i = 0; i < 5000; ++i) {
    const auto text = value(0);
    EXPECT_EQ(kept(text), "\"args\": " + text);
  }
}

TEST_F(Packing, forms_are_shared_by_events_that_differ_in_numbers_and_texts) {
  for (int i = 0; i < 1000; ++i)
    kept(R"({"correlation": )" + std::to_string(i) + R"(, "kind": ")" + (i % 2 ? "a" : "b") + R"(", "rate": 0.)" +
         std::to_string(i + 1) + "}");
  EXPECT_EQ(fields_.forms.size(), 1U);
  EXPECT_EQ(fields_.texts.size(), 2U);
}

TEST_F(Packing, refuses_what_is_not_json) {
  EXPECT_EQ(fault(R"({"a": 01})"), "a value is not JSON");
  EXPECT_EQ(fault(R"({"a": "\x"})"), "a value is not JSON");
  EXPECT_EQ(fault("{\"a\": \"\x01\"}"), "a value is not JSON");
  EXPECT_EQ(fault("{\"\x01\": 1}"), "a name holds a control character");
  EXPECT_EQ(fault("{\"a\": \"\xff\"}"), "a text is not UTF-8");
  EXPECT_EQ(fault("{\"\xff\": 1}"), "a text is not UTF-8");
  EXPECT_EQ(fault(R"({"a" 1})"), "a ':' is missing");
  EXPECT_EQ(fault(R"({"a": 1 "b": 2})"), "a ',' or '}' is missing");
  EXPECT_EQ(fault(R"({"a": 1,})"), "a string is missing");
  EXPECT_EQ(fault(R"({"a": nul})"), "no value begins so");
  EXPECT_EQ(fault(R"({"a": -})"), "a value is not JSON");
  EXPECT_EQ(fault(R"({"a": 1.})"), "a value is not JSON");
  EXPECT_EQ(fault(R"({"a": [1,]})"), "a value is not JSON");
  EXPECT_EQ(fault(R"({"a": 1}})"), "something follows a value");
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += R"({"a":)";
  EXPECT_EQ(fault(deep + "1" + std::string(1000, '}')), "it nests more than 200 deep");
  EXPECT_EQ(fault(std::string(1000, '[') + std::string(1000, ']')), "it nests more than 200 deep");
}

TEST(TraceBuilder, keeps_fields_and_finds_known_arguments) {
  TraceBuilder builder;
  builder.add(
      {.category = "kernel",
       .name = "gemm",
       .pid = "0",
       .tid = "7",
       .begin = 5,
       .duration = 10,
       .members = R"("args": {"device": 0, "stream": 7, "correlation": 12, "External id": 99, "grid": [1, 2, 3]})"});
  builder.add({.phase = 's', .category = "ac2g", .name = "ac2g", .members = R"("id": 5000000000)"});
  builder.add({.category = "strange", .name = "gemm"});
  const Trace trace = std::move(builder).take();
  ASSERT_EQ(trace.size(), 3U);
  EXPECT_EQ(trace.category(0), Category::kernel);
  EXPECT_EQ(trace.name_text(0), "gemm");
  EXPECT_EQ(trace.stream(0), 7);
  EXPECT_EQ(trace.device(0), 0);
  EXPECT_EQ(trace.correlation(0), 12);
  EXPECT_EQ(trace.external(0), 99);
  EXPECT_EQ(trace.end(0), 15);
  EXPECT_EQ(trace.arg(0, "grid"), "[1, 2, 3]");
  EXPECT_EQ(trace.integer_arg(0, "stream"), 7);
  EXPECT_EQ(trace.integer_arg(0, "grid"), kNone);
  EXPECT_EQ(trace.category(1), Category::flow);
  EXPECT_EQ(trace.correlation(1), 5000000000);
  EXPECT_EQ(trace.category(2), Category::other);
  EXPECT_EQ(trace.correlation(2), kNone);
  EXPECT_EQ(trace.args(2), "");
  EXPECT_EQ(trace.name[0], trace.name[2]);
}

TEST(TraceBuilder, refuses_fields_that_are_not_json) {
  TraceBuilder builder;
  builder.facts().path = "a.sqlite";
  EXPECT_NE(base::test::error_of([&] { builder.add({.name = "x", .members = "\"args\": {"}); }).find("a.sqlite"),
            std::string::npos);
}

}  // namespace
}  // namespace hyperion::trace
