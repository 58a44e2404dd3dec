#include "hyperion/trace/trace_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/trace/pack_zstd.h"
#include "hyperion/trace/read_trace.h"
#include "tests/base/support_child.h"
#include "tests/trace/support_random.h"
#include "tests/trace/support_same.h"
#include "tests/trace/support_traces.h"

namespace hyperion::trace {
namespace {

using base::test::error_of;
using test::expect_same_trace;

class TraceFile : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      pack_zstd("");
    } catch (const base::ConfigError&) {
      GTEST_SKIP() << "a build without libzstd";
    }
  }
  Trace read_json(const std::string& text, size_t window = size_t{4} << 20, int threads = 1) {
    std::ofstream(folder_ / "a.json", std::ios::binary) << text;
    ReadOptions options;
    options.window = window;
    options.threads = threads;
    return read_trace(folder_ / "a.json", options);
  }
  std::string bytes_of(const Trace& trace) {
    write_trace_file(base::real_files(), file_, trace);
    return base::real_files().read(file_);
  }
  std::string refusal_of(const std::string& bytes) {
    std::ofstream(file_, std::ios::binary) << bytes;
    return error_of([&] { read_trace_file(file_); });
  }
  base::test::TestFolder folder_;
  base::Path file_ = folder_ / "a.htrace";
};

TEST_F(TraceFile, gives_back_every_event_and_fact) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    const auto trace = read_json(test::random_trace(seed, seed < 50 ? 60 : 3000));
    bytes_of(trace);
    EXPECT_TRUE(is_trace_file(file_));
    const auto again = read_trace(file_);
    expect_same_trace(trace, again);
    EXPECT_EQ(again.facts.rank, 3);
    EXPECT_EQ(again.facts.path, file_.string());
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(TraceFile, a_trace_without_events_or_facts_is_one_too) {
  const auto trace = read_json("[]");
  bytes_of(trace);
  const auto again = read_trace_file(file_);
  EXPECT_EQ(again.size(), 0U);
  EXPECT_TRUE(again.facts.bare);
}

TEST_F(TraceFile, the_same_trace_gives_the_same_bytes_however_it_was_read) {
  const auto text = test::random_trace(7, 5000);
  const auto bytes = bytes_of(read_json(text));
  EXPECT_EQ(bytes_of(read_json(text, 500, 3)), bytes);
  EXPECT_EQ(bytes_of(read_trace_file(file_)), bytes);
}

// More than a block holds; what later blocks say stands on what earlier ones said.
TEST_F(TraceFile, long_traces_are_written_in_blocks) {
  test::SmallTrace small;
  for (int i = 0; i < 150'000; ++i)
    small.kernel(base::format("k{}", i % 7 + i / 60'000), 1000 + i * 100, 1050 + i * 100 + i % 13, 7 + i % 3, i);
  const auto trace = small.take();
  const auto bytes = bytes_of(trace);
  expect_same_trace(trace, read_trace_file(file_));
  EXPECT_LT(bytes.size(), trace.size());  // what can be foretold costs next to nothing
}

TEST_F(TraceFile, parts_written_one_after_the_other_are_one_trace) {
  const auto first = read_json(test::random_trace(1, 4000)), second = read_json(test::random_trace(2, 4000));
  TraceFileWriter writer(base::real_files(), file_, first.facts);
  writer.write(first);
  writer.write(second);
  EXPECT_FALSE(std::filesystem::exists(file_));
  writer.finish();
  const auto both = read_trace_file(file_);
  ASSERT_EQ(both.size(), first.size() + second.size());
  for (size_t i = 0; i < both.size(); ++i) {
    const bool from_first = i < first.size();
    const auto& from = from_first ? first : second;
    test::expect_same_event(from, from_first ? i : i - first.size(), both, i);
  }
}

TEST_F(TraceFile, a_file_cut_anywhere_is_refused) {
  const auto bytes = bytes_of(read_json(test::random_trace(5, 40)));
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto error = refusal_of(bytes.substr(0, length));
    ASSERT_NE(error.find("a.htrace is no trace that can be read"), std::string::npos) << length << error;
    ASSERT_NE(error.find("hint: "), std::string::npos);
  }
}

TEST_F(TraceFile, a_file_with_any_bit_changed_is_refused) {
  const auto bytes = bytes_of(read_json(test::random_trace(5, 40)));
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1 << i % 8);
    ASSERT_NE(refusal_of(changed).find(", at byte "), std::string::npos) << i;
  }
}

TEST_F(TraceFile, refusals_say_what_and_where) {
  const auto bytes = bytes_of(read_json(test::random_trace(5, 40)));
  EXPECT_NE(refusal_of(bytes + "x").find(base::format("something follows its end, at byte {}", bytes.size())),
            std::string::npos);
  EXPECT_NE(refusal_of(bytes.substr(0, bytes.size() - 32)).find("it ends without its end mark"), std::string::npos);
  EXPECT_NE(refusal_of("").find("it ends in its header, at byte 0"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(100, 'x')).find("it does not begin as one of ours"), std::string::npos);
  // Two good blocks that change places.
  const auto one = read_json(test::random_trace(6, 40));
  EXPECT_NE(refusal_of(bytes.substr(0, 32) + bytes.substr(bytes.size() - 32)).find("stands where it does not belong"),
            std::string::npos);
  std::string later = bytes.substr(0, 16) + std::string("\2\0\0\0\0\0\0\0", 8);
  const uint64_t hash = base::hash_64(later);
  later.append(reinterpret_cast<const char*>(&hash), 8);
  EXPECT_NE(refusal_of(later + bytes.substr(32)).find("was written by a later version"), std::string::npos);
}

TEST_F(TraceFile, a_write_that_fails_leaves_nothing) {
  const auto trace = read_json(test::random_trace(5, 40));
  bool done = false;
  for (int operation = 1; !done; ++operation) {
    for (const bool tear : {false, true}) {
      base::FaultyFileSystem files;
      if (tear)
        files.tear_append(operation);
      else
        files.fail_operation(operation);
      const auto error = error_of([&] { write_trace_file(files, file_, trace); });
      if (!tear) done = error.empty();
      if (error.empty()) {
        expect_same_trace(trace, read_trace_file(file_));
        std::filesystem::remove(file_);
      }
      EXPECT_FALSE(std::filesystem::exists(file_));
    }
  }
  // What a crash leaves beside the name is never taken for a trace; a failure that the writer sees leaves not even
  // that.
  base::FaultyFileSystem files;
  files.set_capacity(100);
  EXPECT_NE(error_of<base::FileError>([&] { write_trace_file(files, folder_ / "b.htrace", trace); }), "");
  for (const auto& left : base::real_files().list(folder_.path()))
    EXPECT_EQ(left.string().find("b.htrace"), std::string::npos) << left;
}

TEST_F(TraceFile, says_how_far_it_is) {
  const auto bytes = bytes_of(read_json(test::random_trace(5, 40)));
  uint64_t last = 0;
  read_trace_file(file_, [&](uint64_t read) {
    EXPECT_GT(read, last);
    last = read;
  });
  EXPECT_EQ(last, bytes.size());
}

}  // namespace
}  // namespace hyperion::trace
