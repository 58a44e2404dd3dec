#include "hyperion/data/set_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "tests/base/support_child.h"
#include "tests/support/seed.h"

namespace hyperion {
namespace {

using base::test::TestFolder;
using data::SetFile;
using data::SetWriter;

std::vector<std::string> random_records(std::mt19937& random, int count, int longest) {
  std::vector<std::string> records(count);
  for (auto& record : records) {
    record.resize(random() % (longest + 1));
    for (char& byte : record) byte = static_cast<char>(random());
  }
  return records;
}

void write_set(const base::Path& path, const std::vector<std::string>& records, const std::string& extra = {}) {
  SetWriter writer(base::real_files(), path);
  for (const auto& record : records) writer.add(record);
  if (!extra.empty()) writer.append("extra", extra);
  writer.finish("tokens", {{"answer", 42}});
}

std::string content(const base::Path& path) { return base::real_files().read(path); }

void overwrite(const base::Path& path, std::string bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(SetFile, gives_every_record_section_and_fact_back) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  for (const int longest : {0, 1, 70, 300'000}) {
    const auto records = random_records(random, longest > 1000 ? 20 : 100, longest);
    write_set(folder / "set", records, "something more");
    const SetFile set(folder / "set");
    set.verify();
    EXPECT_EQ(set.kind(), "tokens");
    EXPECT_EQ(set.meta().at("answer"), 42);
    EXPECT_EQ(set.section("extra"), "something more");
    EXPECT_EQ(set.section("other"), "");
    ASSERT_EQ(set.records(), static_cast<int64_t>(records.size()));
    for (size_t i = 0; i < records.size(); ++i) ASSERT_EQ(set.record(static_cast<int64_t>(i)), records[i]);
  }
}

TEST(SetFile, holds_no_records_too) {
  TestFolder folder;
  write_set(folder / "set", {});
  const SetFile set(folder / "set");
  set.verify();
  EXPECT_EQ(set.records(), 0);
}

TEST(SetFile, leaves_nothing_else_beside_it) {
  TestFolder folder;
  write_set(folder / "set", {"a", "b"}, "c");
  EXPECT_EQ(base::real_files().list(folder.path()).size(), 1U);
}

TEST(SetFile, any_changed_byte_is_found_by_verify_or_by_opening) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  const base::Path path = folder / "set";
  write_set(path, random_records(random, 30, 200'000), "more");
  const std::string good = content(path);
  for (int i = 0; i < 60; ++i) {
    std::string bad = good;
    const size_t at = i % 3 == 0 ? bad.size() - 1 - random() % 2000 : random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8));
    overwrite(path, bad);
    EXPECT_THROW(SetFile(path).verify(), base::CorruptError) << "byte " << at << " of " << bad.size();
  }
}

TEST(SetFile, names_the_damaged_block_and_its_records) {
  TestFolder folder;
  const base::Path path = folder / "set";
  write_set(path, std::vector<std::string>(5, std::string(1 << 20, 'x')));
  std::string bad = content(path);
  bad[64 + (3 << 20) + 100] = 'y';
  overwrite(path, bad);
  try {
    SetFile(path).verify();
    FAIL() << "the damage was not found";
  } catch (const base::CorruptError& error) {
    EXPECT_NE(std::string(error.what()).find("block 3 (bytes 3145728 to 4194304: payload, records 2 to 3)"),
              std::string::npos)
        << error.what();
  }
}

std::string refusal_of(const std::function<void()>& read) {
  try {
    read();
  } catch (const base::CorruptError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(SetFile, a_damaged_block_is_refused_when_it_is_read_and_the_others_are_not) {
  TestFolder folder;
  const base::Path path = folder / "set";
  write_set(path, std::vector<std::string>(5, std::string(1 << 20, 'x')));
  std::string bad = content(path);
  bad[64 + (3 << 20) + 100] = 'y';
  overwrite(path, bad);
  const SetFile set(path);
  for (const int64_t record : {0, 1, 4}) EXPECT_EQ(set.record(record), std::string(1 << 20, 'x'));
  for (const int64_t record : {2, 3, 2}) {
    const auto refusal = refusal_of([&] { set.record(record); });
    EXPECT_NE(refusal.find("set is damaged: block 3"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("hyperion data verify " + folder.path().string()), std::string::npos) << refusal;
  }
}

TEST(SetFile, a_damaged_index_or_section_is_refused_when_it_is_read) {
  TestFolder folder;
  const base::Path path = folder / "set";
  write_set(path, {std::string(1 << 20, 'x'), "b", "c"}, "more");
  const std::string good = content(path);
  for (const size_t back : {size_t{0}, size_t{64}}) {  // of the index, or of the section before it
    std::string bad = good;
    bad[good.find("more") + back] ^= 1;
    overwrite(path, bad);
    const SetFile set(path);
    EXPECT_NE(refusal_of([&] { set.checked(set.section("extra")); }), "");
    EXPECT_NE(refusal_of([&] { set.bounds(1); }), "");
    EXPECT_EQ(refusal_of([&] { set.checked(set.payload().substr(0, 100)); }), "");
  }
}

TEST(SetFile, a_block_is_hashed_once_whoever_reads_it) {
  TestFolder folder;
  const base::Path path = folder / "set";
  write_set(path, std::vector<std::string>(64, std::string(100'000, 'x')));
  const SetFile set(path);
  std::vector<std::thread> readers;
  std::atomic<int64_t> bytes{0};
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&, i] {
      for (int64_t record = 0; record < 64; ++record) bytes += std::ssize(set.record((record + 16 * i) % 64));
    });
  for (auto& reader : readers) reader.join();
  EXPECT_EQ(bytes, 4 * 64 * 100'000);
  // What has its hash is not looked at again: damage that comes later is for `verify` to find.
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(64 + 10), file.put('y'), file.close();
  EXPECT_EQ(set.record(0)[10], 'y');
  EXPECT_NE(refusal_of([&] { set.verify(); }), "");
}

TEST(SetFile, a_cut_file_is_refused_at_any_length) {
  TestFolder folder;
  const base::Path path = folder / "set";
  write_set(path, {"one", "two", "three"}, "more");
  const std::string good = content(path);
  for (size_t size = 0; size < good.size(); ++size) {
    overwrite(path, good.substr(0, size));
    EXPECT_THROW(SetFile{path}, base::CorruptError) << size;
  }
}

TEST(SetWriter, goes_on_where_all_was_safe_and_gives_the_same_bytes) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  const auto records = random_records(random, 40, 100'000);
  write_set(folder / "whole", records, "0123456789");
  for (int round = 0; round < 10; ++round) {
    const base::Path path = folder / "resumed";
    const size_t safe = random() % records.size();
    SetWriter::Kept kept;
    {
      SetWriter writer(base::real_files(), path);
      for (size_t i = 0; i < safe; ++i) writer.add(records[i]);
      writer.append("extra", "01234");
      kept = writer.make_safe();
      for (size_t i = safe; i < records.size() && random() % 4 != 0; ++i) writer.add(records[i]);
      writer.append("extra", "lost");
      if (random() % 2 == 0) writer.make_safe();  // on the disk, but nobody was told
    }
    SetWriter writer(base::real_files(), path, kept);
    EXPECT_EQ(writer.records(), static_cast<int64_t>(safe));
    for (size_t i = safe; i < records.size(); ++i) writer.add(records[i]);
    writer.append("extra", "56789");
    writer.finish("tokens", {{"answer", 42}});
    EXPECT_EQ(content(path), content(folder / "whole"));
  }
}

TEST(SetWriter, a_failure_at_any_operation_leaves_no_file_of_that_name) {
  TestFolder folder;
  const base::Path path = folder / "set";
  for (int64_t n = 1;; ++n) {
    base::FaultyFileSystem files;
    files.fail_operation(n);
    try {
      SetWriter writer(files, path);
      writer.add("record");
      writer.append("extra", "more");
      writer.finish("tokens", {});
      break;
    } catch (const base::FileError&) {
      EXPECT_FALSE(base::real_files().exists(path)) << "operation " << n;
    }
  }
  SetFile(path).verify();
}

}  // namespace
}  // namespace hyperion
