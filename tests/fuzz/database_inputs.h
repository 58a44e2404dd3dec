// Good databases of traces, and how they are broken: in their bytes, or in a value that the rest of the file fits.
#pragma once
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/fuzz.h"
#include "tests/trace/support_databases.h"

namespace hyperion::testing {

inline std::vector<std::string> good_databases(const base::Path& folder) {
  std::vector<std::string> list;
  for (const auto& script :
       {trace::test::nsight_script(), trace::test::nsight_script(true), trace::test::rocpd_script({{"0a", 71}}),
        trace::test::rocpd_script({{"0a", 71}, {"1b", 81}})}) {
    std::filesystem::remove(folder / "good");
    trace::test::run_sql(folder / "good", script);
    list.push_back(base::real_files().read(folder / "good"));
  }
  return list;
}

// The tables of a database with their columns.
inline std::vector<std::pair<std::string, std::string>> columns_of(const base::Path& path) {
  std::vector<std::pair<std::string, std::string>> columns;
  const auto add = [](void* list, int, char** values, char**) {
    static_cast<decltype(columns)*>(list)->emplace_back(values[0], values[1]);
    return 0;
  };
  trace::test::run_sql(path,
                       "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
                       add, &columns);
  return columns;
}

inline std::string broken_database(const base::Path& folder, const std::vector<std::string>& good,
                                   std::mt19937& random) {
  const auto& original = good[random() % good.size()];
  const std::vector<std::string> words = {std::string(8, '\xff'), std::string(1, '\0'), "\x01", "\x7f", "\x81\x02"};
  if (random() % 2 == 0) return mutated(original, original.size(), words, random);
  const auto path = folder / "changed";
  std::ofstream(path, std::ios::binary) << original;
  const auto columns = columns_of(path);
  const auto& [table, column] = columns[random() % columns.size()];
  const char* values[] = {"NULL",
                          "-1",
                          "9223372036854775807",
                          "-9223372036854775808",
                          "0.5",
                          "'text'",
                          "x'ff00'",
                          "'{\"message\": 1}'",
                          "''",
                          "CAST(x'c328' AS TEXT)",
                          "1e300",
                          "7",
                          "72057595229110272"};
  const auto rows = random() % 2 == 0 ? "" : " WHERE rowid % 2 = " + std::to_string(random() % 2);
  trace::test::run_sql(path, "UPDATE OR IGNORE \"" + table + "\" SET \"" + column +
                                 "\" = " + values[random() % std::size(values)] + rows);
  return base::real_files().read(path);
}

}  // namespace hyperion::testing
