// Parquet files by the commands of docs/data.md, in a build with Arrow.
#include "tests/support/parquet_rows.h"

#include "tests/end_to_end/support_prepare.h"
#include "tests/records/support_packed.h"

namespace hyperion {
namespace {

using testing::Prepare;
using testing::write_file;

TEST_F(Prepare, parquet_is_prepared_by_its_columns) {
  write_file(in("rows.parquet"), records::test::from_hex(testing::kParquetRows));
  write_file(in("rows.toml"), "[prepare]\nfiles = \"" + in("rows.parquet") + "\"\nvalidation_files = \"" +
                                  in("rows.parquet") +
                                  "\"\nformat = \"parquet\"\ntext = \"query\"\non_bad = \"skip\"\n" + "output = \"" +
                                  in("set") + "\"\n");
  const auto done = hyperion({"data", "prepare", in("rows.toml")});
  if (done.err.find("without Arrow") != std::string::npos) GTEST_SKIP() << "built without Arrow";
  expect_fine(done);
  const auto shown = hyperion({"data", "inspect", in("set")});
  expect_fine(shown);
  EXPECT_NE(shown.out.find("2+2?"), std::string::npos) << shown.out;
}

}  // namespace
}  // namespace hyperion
