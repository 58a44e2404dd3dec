// Perfetto's packets that are cut, damaged or made to be misread.
#include <gtest/gtest.h>

#include <random>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/format.h"
#include "hyperion/trace_formats/perfetto_reader.h"
#include "hyperion/trace_formats/read_any_trace.h"
#include "tests/base/support_child.h"
#include "tests/support/fuzz.h"
#include "tests/support/seed.h"
#include "tests/trace/support_kept.h"
#include "tests/trace/support_perfetto.h"

namespace hyperion::trace {
namespace {

using test::framed;
using test::small_event;

class BrokenPerfetto : public ::testing::Test {
 protected:
  Trace read(const std::string& bytes) {
    test::write_anew(folder_ / "a.pftrace", bytes);
    return read_perfetto(folder_ / "a.pftrace");
  }
  std::string refusal(const std::string& bytes) {
    return base::test::error_of<base::CorruptError>([&] { read(bytes); });
  }
  base::test::TestFolder folder_;
};

TEST_F(BrokenPerfetto, is_refused_with_the_byte) {
  const auto good = small_event({{8, 10}, {10, 1}}, 1);
  const auto says = [](const std::string& error, const std::string& what) {
    EXPECT_NE(error.find(what), std::string::npos) << error;
  };
  says(refusal(good + small_event({{8, 10}, {10, 1}, {58, 64}}, 1)), "beyond any clock that it tells of");
  says(refusal(good + small_event({{8, UINT64_MAX}, {10, 1}}, 1)), "beyond any clock");
  says(refusal(small_event({{10, 1}}, 1)), "an event has no time");
  says(refusal(good + "x"), base::format("no packet begins there, at byte {}", good.size()));
  says(refusal(good + "\x0a"), "in the middle of a packet");
  says(refusal(good + "\x0a\xff\xff\xff\xff\x7f"), "longer than 64 MiB");
  says(refusal(good + std::string("\x0a\x02\x58\xff", 4)),
       base::format("a number ends too early, at byte {}", good.size() + 3));
  base::ProtobufMessage packed;
  packed.text(50, "x");
  says(refusal(good + framed(packed)), "packed one by one");
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    base::ProtobufMessage around;
    around.text(12, deep);
    deep = around.bytes();
  }
  base::ProtobufMessage event, packet;
  event.number(9, 1);
  event.text(4, deep);
  packet.number(8, 10);
  packet.text(11, event.bytes());
  says(refusal(framed(packet)), "nest more than 32 deep");
}

// Events of some 30 bytes, each with an array of a text that stands in the file once.
TEST_F(BrokenPerfetto, does_not_make_a_large_trace_of_a_small_file) {
  base::ProtobufMessage text, interned, first;
  text.number(1, 1);
  text.text(2, std::string(1 << 20, 'x'));
  interned.text(29, text.bytes());
  first.number(10, 1);
  first.text(12, interned.bytes());
  std::string file = framed(first);
  for (uint64_t i = 0; i < 400; ++i) {
    base::ProtobufMessage reference, number, array, event, packet;
    reference.number(17, 1);
    number.number(4, i);
    array.text(10, "a");
    array.text(12, reference.bytes());
    array.text(12, number.bytes());
    event.number(9, 3);
    event.text(4, array.bytes());
    packet.number(8, i);
    packet.number(10, 1);
    packet.text(11, event.bytes());
    file += framed(packet);
  }
  std::string error;
  const size_t peak = hyperion::testing::peak_allocated([&] { error = refusal(file); });
  EXPECT_NE(error.find("refer to far more text"), std::string::npos) << error;
  EXPECT_LE(peak, file.size() + hyperion::testing::kMostReaderBytes);
}

TEST_F(BrokenPerfetto, cut_anywhere_it_is_refused_or_has_fewer_events) {
  for (const auto& whole : {test::rocprofv3_trace(), test::rocprof_sys_trace()}) {
    const auto all = read(whole).size();
    int read_ones = 0;
    for (size_t size = 0; size < whole.size(); ++size) {
      test::write_anew(folder_ / "a.pftrace", whole.substr(0, size));
      try {
        const auto trace = read_any_trace({folder_ / "a.pftrace"});
        EXPECT_LE(trace.size(), all) << size;
        ++read_ones;
      } catch (const base::CorruptError&) {
      }
    }
    EXPECT_GT(read_ones, 10);
    EXPECT_LT(read_ones, 50);
  }
}

TEST_F(BrokenPerfetto, is_read_or_refused_within_their_memory) {
  const auto seed = hyperion::testing::seed();
  std::mt19937 random(static_cast<unsigned>(seed));
  const std::vector<std::string> files = {test::rocprofv3_trace(), test::rocprof_sys_trace()};
  const std::vector<std::string> words = {"\x0a", "\x12", "\x80", "\xff", std::string(9, '\xff') + "\x01", "\x5a\x02"};
  int read_ones = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto& good = files[random() % files.size()];
    const auto bytes = hyperion::testing::mutated(good, good.size(), words, random);
    const size_t peak = hyperion::testing::peak_allocated([&] {
      try {
        const auto trace = read(bytes);
        analysis::analyze(trace);
        for (size_t event = 0; event < trace.size(); ++event) trace.args(event);
        ++read_ones;
      } catch (const base::CorruptError&) {
        ++refused;
      }
    });
    ASSERT_LE(peak, bytes.size() + (size_t{4} << 20)) << "seed " << seed << ", " << i;
  }
  EXPECT_GT(read_ones, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace hyperion::trace
