#include "hyperion/records/byte_stream.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/records/bad_records.h"
#include "hyperion/records/decompress.h"
#include "hyperion/records/open_bytes.h"
#include "tests/base/support_child.h"
#include "tests/records/support_packed.h"

namespace hyperion::records {
namespace {

using namespace test;
using base::test::error_of;

std::string random_text(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

bool has(std::unique_ptr<ByteStream> (*unpack)(std::unique_ptr<ByteStream>, std::string)) {
  return error_of<base::ConfigError>([&] { unpack(bytes_of(""), "x"); }).empty();
}

class ByteStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has(unpack_gzip) || !has(unpack_zstd)) GTEST_SKIP() << "built without zlib or zstd";
  }
  std::string unpacked(const std::string& packed) {
    std::ofstream(folder_ / "any.name", std::ios::binary) << packed;
    return read_all(*open_bytes(folder_ / "any.name"));
  }
  std::string refusal(const std::string& packed) {
    return error_of<BadRecord>([&] { unpacked(packed); });
  }
  base::test::TestFolder folder_;
};

TEST_F(ByteStreamTest, what_a_file_is_packed_with_is_told_by_its_bytes) {
  for (const std::string& text : {std::string("a"), random_text(300000, 1), packed_well()}) {
    EXPECT_EQ(unpacked(text), text);
    EXPECT_EQ(unpacked(gzip_of(text)), text);
    EXPECT_EQ(unpacked(zstd_of(text)), text);
  }
  EXPECT_EQ(unpacked(packed_well_gzip()), packed_well());
  EXPECT_EQ(unpacked(packed_well_zstd()), packed_well());
  EXPECT_EQ(unpacked(""), "");
  EXPECT_EQ(unpacked("\x1f"), "\x1f");
}

TEST_F(ByteStreamTest, members_and_frames_follow_each_other) {
  EXPECT_EQ(unpacked(gzip_of("one,") + packed_well_gzip() + gzip_of("") + gzip_of("two")),
            "one," + packed_well() + "two");
  EXPECT_EQ(unpacked(zstd_to_be_skipped("index") + zstd_of("one,") + packed_well_zstd() + zstd_of("") +
                     zstd_to_be_skipped("") + zstd_of("two")),
            "one," + packed_well() + "two");
}

TEST_F(ByteStreamTest, zeros_may_fill_up_the_end_of_gzip_and_nothing_else_may) {
  EXPECT_EQ(unpacked(gzip_of("text") + std::string(200000, '\0')), "text");
  EXPECT_NE(refusal(gzip_of("text") + std::string(100, '\0') + "x").find("something else after"), std::string::npos);
  EXPECT_NE(refusal(gzip_of("text") + "x").find("gzip data"), std::string::npos);
  EXPECT_NE(refusal(zstd_of("text") + "x").find("zstd data"), std::string::npos);
}

// Any cut, for the whole of what is cut is checked by its end.
TEST_F(ByteStreamTest, a_cut_anywhere_is_refused_with_the_byte) {
  for (const std::string& whole : {packed_well_gzip(), packed_well_zstd()})
    for (size_t size = 4; size < whole.size(); ++size) {
      const std::string told = refusal(whole.substr(0, size));
      ASSERT_NE(told.find(base::format("ends in the middle of its {} data (byte {})",
                                       whole[0] == '\x1f' ? "gzip" : "zstd", size)),
                std::string::npos)
          << told;
      ASSERT_NE(told.find((folder_ / "any.name").string() + ": "), std::string::npos) << told;
    }
}

TEST_F(ByteStreamTest, a_flipped_bit_gives_the_same_text_or_is_refused) {
  for (const std::string& whole : {packed_well_gzip(), packed_well_zstd()})
    for (size_t bit = 32; bit < whole.size() * 8; ++bit) {
      std::string broken = whole;
      broken[bit / 8] ^= static_cast<char>(1 << bit % 8);
      try {
        const auto unpack = whole[0] == '\x1f' ? unpack_gzip : unpack_zstd;
        ASSERT_EQ(read_all(*unpack(bytes_of(broken), "x")), packed_well()) << bit;  // it says nothing: gzip's time
      } catch (const BadRecord&) {
      }
    }
}

TEST_F(ByteStreamTest, pieces_of_any_size_give_the_same_bytes) {
  const std::string text = random_text(200000, 2) + packed_well();
  const std::string gzip = gzip_of(text) + packed_well_gzip(), zstd = zstd_of(text) + packed_well_zstd();
  for (unsigned seed = 0; seed < 30; ++seed)
    for (const size_t most : {1, 3, 1000, 100000}) {
      if (most == 1 && seed > 1) continue;
      const auto in = [&](const std::string& packed) { return std::make_unique<PiecewiseBytes>(packed, most, seed); };
      ASSERT_EQ(read_all(*unpack_gzip(in(gzip), "x"), 1 + seed * 999, seed), text + packed_well())
          << seed << " " << most;
      ASSERT_EQ(read_all(*unpack_zstd(in(zstd), "x"), 1 + seed * 999, seed), text + packed_well())
          << seed << " " << most;
    }
}

TEST_F(ByteStreamTest, a_missing_file_is_a_file_error) {
  EXPECT_NE(error_of<base::FileError>([&] { open_bytes(folder_ / "none"); }).find("none"), std::string::npos);
}

TEST(BufferedBytes, shows_every_byte_once_whatever_the_pieces) {
  const std::string text = random_text(700000, 3);
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    BufferedBytes bytes(std::make_unique<PiecewiseBytes>(text, 1 + random() % 200000, seed));
    std::string all;
    for (;;) {
      const size_t wanted = random() % 4097;
      const std::string_view piece = wanted % 2 ? bytes.peek(wanted) : bytes.peek();
      ASSERT_EQ(bytes.position(), all.size());
      if (wanted % 2) {
        ASSERT_TRUE(piece.size() >= wanted || all.size() + piece.size() == text.size());
      }
      if (piece.empty()) break;
      all += piece.substr(0, 1 + random() % piece.size());
      bytes.skip(all.size() - bytes.position());
    }
    ASSERT_EQ(all, text) << seed;
    EXPECT_FALSE(bytes.failed());
  }
}

TEST(BufferedBytes, a_stream_that_threw_is_at_its_end) {
  struct Throws final : ByteStream {
    size_t read(std::span<char>) override { throw BadRecord("x", 0, "broken"); }
  };
  BufferedBytes bytes(std::make_unique<Throws>());
  EXPECT_THROW(bytes.peek(), BadRecord);
  EXPECT_TRUE(bytes.failed());
  EXPECT_TRUE(bytes.peek().empty());
  EXPECT_TRUE(bytes.peek(10).empty());
}

}  // namespace
}  // namespace hyperion::records
