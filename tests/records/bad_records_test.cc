#include "hyperion/records/bad_records.h"

#include <gtest/gtest.h>

#include "tests/base/support_child.h"

namespace hyperion::records {
namespace {

using base::test::error_of;

TEST(BadRecord, names_file_line_and_reason) {
  EXPECT_STREQ(BadRecord("a.jsonl", 7, "is no JSON").what(), "a.jsonl:7: is no JSON");
  EXPECT_STREQ(BadRecord("a.gz", 0, "is cut").what(), "a.gz: is cut");
}

TEST(BadRecords, fail_throws_the_first_with_what_to_do) {
  BadRecords bad(OnBad::fail);
  EXPECT_EQ(error_of<BadRecord>([&] {
              bad.add({"a", 7, "is no JSON"});
            }),
            "error: a:7: is no JSON\nhint: mend or remove it, or pass --on-bad=skip\n");
  EXPECT_EQ(error_of<BadRecord>([&] {
              bad.add({"a", 0, "is cut", "fetch it again"});
            }),
            "error: a: is cut\nhint: fetch it again; or mend or remove it, or pass --on-bad=skip\n");
}

TEST(BadRecords, skip_lists_them_and_ends_beyond_the_limit) {
  BadRecords bad(OnBad::skip, 2);
  bad.add({"a", 1, "one"});
  bad.add({"a", 2, "two"});
  EXPECT_EQ(bad.count(), 2);
  EXPECT_EQ(bad.list()[1].line, 2);
  try {
    bad.add({"b", 3, "three"});
    FAIL() << "the limit does not hold";
  } catch (const BadRecord&) {
    FAIL() << "a caller that skips bad records would skip this";
  } catch (const base::CorruptError& error) {
    EXPECT_STREQ(error.what(), "3 bad records, and the limit is 2; the last is b:3: three");
  }
}

}  // namespace
}  // namespace hyperion::records
