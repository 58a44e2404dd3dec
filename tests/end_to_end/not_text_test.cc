// Files of something else than the recipe says.
#include "tests/end_to_end/support_prepare.h"
#include "tests/records/support_packed.h"
#include "tests/support/parquet_rows.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Prepare;
using testing::write_file;

class NotText : public Prepare {
 protected:
  Finished prepare(const std::string& content, const std::string& name, const std::string& format) {
    write_file(in(name), content);
    write_file(in("recipe.toml"), "[prepare]\nfiles = \"" + in(name) + "\"\nvalidation_files = \"" + in(name) +
                                      "\"\nformat = \"" + format + "\"\noutput = \"" + in("set") + "\"\n");
    return hyperion({"data", "prepare", in("recipe.toml")});
  }
};

TEST_F(NotText, parquet_is_never_learned_as_text) {
  const std::string rows = records::test::from_hex(testing::kParquetRows);
  for (const char* format : {"text", "lines", "wikitext", "jsonl"}) {
    const Finished done = prepare(rows, "rows.parquet", format);
    EXPECT_EQ(done.code, 1) << format;
    EXPECT_NE(done.err.find("rows.parquet: is a Parquet file; set format = \"parquet\""), std::string::npos)
        << done.err;
  }
}

TEST_F(NotText, what_is_packed_or_no_parquet_is_not_read_as_such) {
  const Finished packed = prepare("\x1f\x8b\x08 rows", "rows.parquet.gz", "parquet");
  if (packed.err.find("without Arrow") != std::string::npos) GTEST_SKIP() << "built without Arrow";
  EXPECT_NE(packed.err.find("rows.parquet.gz: is packed"), std::string::npos) << packed.err;
  const Finished other = prepare("{\"text\": \"a\"}\n", "rows.parquet", "parquet");
  EXPECT_NE(other.err.find("it does not begin with PAR1"), std::string::npos) << other.err;
}

TEST_F(NotText, bytes_that_are_no_text_are_told_of) {
  const Finished done = prepare(std::string("GIF89a\x01\0\xff\xfe in the middle", 26), "image.gif", "text");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("image.gif is no text in UTF-8 (byte 7)"), std::string::npos) << done.err;
  std::filesystem::remove_all(in("set"));
  EXPECT_EQ(prepare("Größe, 日本\n", "words.txt", "text").err.find("UTF-8"), std::string::npos);
}

}  // namespace
}  // namespace hyperion
