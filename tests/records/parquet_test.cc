#include "hyperion/records/parquet.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/records/bad_records.h"
#include "hyperion/records/record_parser.h"
#include "tests/base/support_child.h"
#include "tests/records/support_packed.h"
#include "tests/support/parquet_rows.h"

namespace hyperion::records {
namespace {

using base::test::error_of;

class ParquetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write(test::from_hex(testing::kParquetRows));
    if (!error_of<base::ConfigError>([&] { open_parquet(path_, {}); }).empty()) GTEST_SKIP() << "built without Arrow";
  }
  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  std::vector<RawRecord> rows() {
    std::vector<RawRecord> all;
    const auto records = open_raw_records({path_}, RecordFormat::parquet);
    for (RawRecord record; records->next(record);) all.push_back(record);
    return all;
  }
  base::test::TestFolder folder_;
  base::Path path_ = folder_ / "rows.parquet";
};

TEST_F(ParquetTest, rows_are_json_objects) {
  const auto all = rows();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].bytes, R"({"query":"2+2?","n":1,"d":[1],"m":[{"role":"user","content":"hi"},{"role":"assistant",)"
                          R"("content":"yes"}],"x":0.5})");
  EXPECT_EQ(all[1].bytes, R"({"query":"a \"b\"\n\\é","n":-2,"d":[],"m":[],"x":null})");
  EXPECT_EQ(all[2].bytes, R"({"query":null,"n":3,"d":null,"m":null,"x":1e+30})");
  EXPECT_EQ(all[2].line, 3);
}

TEST_F(ParquetTest, columns_are_fields) {
  const auto all = rows();
  FieldMapping mapping;
  mapping.text = "query";
  EXPECT_EQ(parse_record(all.at(1), RecordFormat::parquet, mapping).text, "a \"b\"\n\\é");
  EXPECT_NE(error_of<BadRecord>([&] {
              parse_record(all.at(2), RecordFormat::parquet, mapping);
            }).find("rows.parquet:3: field \"query\" is null, and text is needed"),
            std::string::npos);
  mapping.messages = "m";
  EXPECT_EQ(parse_record(all.at(0), RecordFormat::parquet, mapping).messages[1].content, "yes");
}

TEST_F(ParquetTest, broken_files_are_refused_and_the_next_one_is_read) {
  const std::string good = test::from_hex(testing::kParquetRows);
  std::mt19937 random(5);
  int refused = 0;
  std::ofstream(folder_ / "good", std::ios::binary) << good;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (i % 5 == 0) bytes.resize(random() % bytes.size());
    write(bytes);
    const auto records = open_raw_records({path_, folder_ / "good"}, RecordFormat::parquet);
    RawRecord record;
    int read = 0;
    for (bool more = true; more;) {
      try {
        more = records->next(record);
        read += more && record.file->ends_with("good");
      } catch (const BadRecord&) {
        ++refused;
      }
    }
    ASSERT_EQ(read, 3) << i;
  }
  EXPECT_GT(refused, 60);
}

}  // namespace
}  // namespace hyperion::records
