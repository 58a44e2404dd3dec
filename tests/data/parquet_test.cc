#include "hyperion/data/parquet.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/data/bad_records.h"
#include "hyperion/data/record_parser.h"
#include "tests/base/support_child.h"
#include "tests/data/support_packed.h"

namespace hyperion::data {
namespace {

using base::test::error_of;

// Three rows of the columns query (text), n (int32), d (lists of int8), m (lists of structs of role and content),
// x (double) and b (bytes), as pyarrow writes them with zstd.
constexpr const char* kThreeRows =
    "504152311500153615482c15061500150615061c00000028b52ffd201bd9000002000000030304000000322b323f0900000061202262220a"
    "5cc3a91500152415362c15061500150615061c00000028b52ffd201291000002000000060101000000feffffff030000001500152215342c"
    "15061500150615061c00000028b52ffd201189000002000000060003000000030700010000001500154615582c15081500150615061c0000"
    "0028b52ffd20231901000200000003020400000003640000040000007573657209000000617373697374616e741500153615482c15081500"
    "150615061c00000028b52ffd201bd900000200000003020400000003640000020000006869030000007965731500153c15482c1506150015"
    "0615061c00000028b52ffd201edd0000a002000000060100e03f00f87fea8ca039593e2946020040c6058c1500151e15302c150615001506"
    "15061c00000028b52ffd200f79000002000000030301000000ff00000000150419dc35001806736368656d61150c00150c25021805717565"
    "727925004c1c0000001502250218016e003502180164150215064c3c000000350418046c697374150200150225021807656c656d656e7425"
    "1e4cac130811000000350218016d150215064c3c000000350418046c69737415020035021807656c656d656e74150400150c25021804726f"
    "6c6525004c1c000000150c25021807636f6e74656e7425004c1c000000150a250218017800150c2502180162001606191c197c26001c150c"
    "192506001918057175657279150c1606165c166e2608491c150015001502003c161a19061926020400000026001c1502192506001918016e"
    "150c1606164a165c2676491c150015001502003c29061926000600000026001c15021925060019380164046c69737407656c656d656e7415"
    "0c16061648165a26d201491c150015001502003c2926060019460202000200000026001c150c192506001948016d046c69737407656c656d"
    "656e7404726f6c65150c1608166c167e26ac02491c150015001502003c161a192606021956020200000400000026001c150c192506001948"
    "016d046c69737407656c656d656e7407636f6e74656e74150c1608165c166e26aa03491c150015001502003c160a19260602195602020000"
    "0400000026001c150a1925060019180178150c16061662166e269804491c150015001502003c29061926000600000026001c150c19250600"
    "19180162150c160616441656268605491c150015001502003c160219061926020400000016dc041606260816d40500282070617271756574"
    "2d6370702d6172726f772076657273696f6e2032312e302e30197c1c00001c00001c00001c00001c00001c00001c0000007b020000504152"
    "31";

class ParquetTest : public testing::Test {
 protected:
  void SetUp() override {
    write(test::from_hex(kThreeRows));
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
  const std::string good = test::from_hex(kThreeRows);
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
}  // namespace hyperion::data
