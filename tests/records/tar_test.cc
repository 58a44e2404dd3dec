#include "hyperion/records/tar.h"

#include <gtest/gtest.h>

#include "hyperion/records/bad_records.h"
#include "tests/base/support_child.h"
#include "tests/records/support_packed.h"

namespace hyperion::records {
namespace {

using namespace test;
using base::test::error_of;
using Members = std::vector<std::pair<std::string, std::string>>;

Members members_of(std::unique_ptr<ByteStream> stream) {
  TarReader tar(std::move(stream), "a.tar");
  Members all;
  TarMember member;
  while (tar.next(member)) {
    all.emplace_back(member.name, "");
    tar.read(all.back().second);
    EXPECT_EQ(member.size, all.back().second.size());
  }
  return all;
}
Members members_of(const std::string& tar) { return members_of(bytes_of(tar)); }

std::string tar_refusal(const std::string& tar) {
  return error_of<BadRecord>([&] { members_of(tar); });
}

const Members kSome = {
    {"a/1.txt", "one"}, {"a/2.txt", ""}, {"b", std::string(512, 'x')}, {"c", std::string(300000, 'y')}};

TEST(Tar, gives_every_file_whatever_the_pieces) {
  for (unsigned seed = 0; seed < 20; ++seed)
    EXPECT_EQ(members_of(std::make_unique<PiecewiseBytes>(tar_of(kSome), 1 + seed * seed * 50, seed)), kSome) << seed;
}

TEST(Tar, a_member_may_be_left_unread_or_half_of_it) {
  TarReader tar(bytes_of(tar_of(kSome)), "a.tar");
  TarMember member;
  Members all;
  while (tar.next(member)) {
    all.emplace_back(member.name, "");
    EXPECT_EQ(member.offset, tar.position());
  }
  ASSERT_EQ(all.size(), kSome.size());
  EXPECT_EQ(all.back().first, "c");
}

TEST(Tar, folders_links_and_devices_are_passed_over) {
  std::string tar = tar_member("folder/", "", '5') + tar_member("old_folder/", "") + tar_member("file", "text");
  for (const char type : {'1', '2', '3', '4', '6'}) tar += tar_header("no file", 0, type);
  tar += tar_header("a hard link may tell the size of its file", 700, '1') + tar_member("unknown", "content", 'Z');
  tar += tar_member("file of type 7", "seven", '7') + tar_member("of version 7", "old", '\0') + tar_end();
  EXPECT_EQ(members_of(tar), (Members{{"file", "text"}, {"file of type 7", "seven"}, {"of version 7", "old"}}));
}

TEST(Tar, long_names_come_from_gnu_pax_or_the_prefix) {
  const std::string name = "folder/" + std::string(1000, 'n') + ".txt";
  std::string prefixed = tar_header("name.txt", 1);
  prefixed.replace(345, 6, "some/f");
  const std::string tar = tar_member("././@LongLink", name + std::string(1, '\0'), 'L') +
                          tar_member("././@LongLink", "where a link points", 'K') + tar_member("cut", "1") +
                          tar_member("PaxHeader", pax_record("mtime", "1.5") + pax_record("path", name), 'x') +
                          tar_member("cut", "2") + tar_member("global", pax_record("comment", "x"), 'g') +
                          with_checksum(prefixed) + padded_to_a_block("3") + tar_member("short", "4") + tar_end();
  EXPECT_EQ(members_of(tar), (Members{{name, "1"}, {name, "2"}, {"some/f/name.txt", "3"}, {"short", "4"}}));
}

TEST(Tar, sizes_come_from_pax_and_from_gnus_binary_form_too) {
  std::string binary = tar_header("binary", 0);
  binary.replace(124, 12, "\x80" + std::string(10, '\0') + "\3");
  const std::string tar = tar_member("PaxHeader", pax_record("size", "5"), 'x') + tar_header("pax", 0) +
                          padded_to_a_block("12345") + with_checksum(binary) + padded_to_a_block("123") + tar_end();
  EXPECT_EQ(members_of(tar), (Members{{"pax", "12345"}, {"binary", "123"}}));
}

TEST(Tar, a_flipped_bit_in_a_header_is_refused_with_the_byte) {
  const std::string good = tar_member("first", "1") + tar_member("second", "2") + tar_end();
  for (size_t bit = 8192; bit < 12288; ++bit) {  // of the second header, at byte 1024
    std::string broken = good;
    broken[bit / 8] ^= static_cast<char>(1 << bit % 8);
    const bool says_nothing = bit / 8 - 1024 >= 148 && bit / 8 - 1024 < 156;  // the checksum's own spaces
    const std::string told = tar_refusal(broken);
    if (!says_nothing) {
      ASSERT_NE(told.find("damaged tar header, or is no tar (byte 1024"), std::string::npos) << bit;
    }
  }
}

TEST(Tar, a_cut_anywhere_is_refused) {
  const std::string good = tar_member("first", "1") + tar_member("second", std::string(600, '2')) + tar_end();
  for (size_t size = 0; size < good.size() - 1024; ++size)
    ASSERT_NE(tar_refusal(good.substr(0, size)).find(": ends "), std::string::npos) << size;
  EXPECT_EQ(members_of(good.substr(0, good.size() - 512)).size(), 2u);
}

TEST(Tar, what_follows_the_end_mark_is_refused) {
  EXPECT_NE(tar_refusal(tar_of(kSome) + tar_of(kSome)).find("after tar's end mark"), std::string::npos);
  EXPECT_EQ(members_of(tar_of(kSome) + std::string(9000, '\0')), kSome);
}

TEST(Tar, a_refusal_of_the_tar_ends_it) {
  TarReader tar(bytes_of(tar_member("first", "1") + std::string(512, 'x') + tar_end()), "a.tar");
  TarMember member;
  EXPECT_TRUE(tar.next(member));
  EXPECT_THROW(tar.next(member), BadRecord);
  EXPECT_FALSE(tar.next(member));
}

TEST(Tar, a_stream_that_breaks_is_told_of_once) {
  struct Breaks final : ByteStream {
    size_t read(std::span<char>) override { throw BadRecord("a.tar", 0, "has damaged gzip data"); }
  };
  TarReader tar(std::make_unique<Breaks>(), "a.tar");
  TarMember member;
  EXPECT_THROW(tar.next(member), BadRecord);
  EXPECT_FALSE(tar.next(member));
}

TEST(Tar, a_member_beyond_the_most_is_refused_and_the_next_one_read) {
  TarReader tar(bytes_of(tar_of({{"large", std::string(2000, 'x')}, {"small", "y"}})), "a.tar");
  TarMember member;
  std::string content;
  ASSERT_TRUE(tar.next(member));
  EXPECT_NE(error_of<BadRecord>([&] { tar.read(content, 1999); }).find("large has 2.0 KiB, and the most is 2.0 KiB"),
            std::string::npos);
  ASSERT_TRUE(tar.next(member));
  tar.read(content, 1999);
  EXPECT_EQ(content, "y");
}

TEST(Tar, sizes_that_cannot_be_are_refused) {
  std::string negative = tar_header("x", 0), large = tar_header("x", 0), letters = tar_header("x", 0);
  negative.replace(124, 12, std::string(12, '\xff'));
  large.replace(124, 12, "\x80" + std::string(11, '\x7f'));
  letters.replace(124, 12, "0000000000g\0", 12);
  for (const std::string& header : {negative, large, letters})
    EXPECT_NE(tar_refusal(with_checksum(header)).find("size that is no number"), std::string::npos);
  for (const char* size : {"-1", "", "5x", "99999999999999999999", "2000000000000000000"})
    EXPECT_NE(tar_refusal(tar_member("p", pax_record("size", size), 'x') + tar_member("x", "1")).find("is no number"),
              std::string::npos)
        << size;
  for (const char* pax : {"9 a=b\n", "6 a b\n", "x", "5 a=b", "3 \n", "99999999999999999999 a=b\n"})
    EXPECT_NE(tar_refusal(tar_member("p", pax, 'x') + tar_end()).find("damaged pax header"), std::string::npos) << pax;
  EXPECT_NE(tar_refusal(tar_header("p", 1 << 30, 'x')).find("1.0 GiB, and the most is 1.0 MiB"), std::string::npos);
  EXPECT_NE(tar_refusal(tar_member("x", "1", 'S')).find("sparse"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::records
