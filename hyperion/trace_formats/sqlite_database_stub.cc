// In a build without SQLite.
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace_formats/sqlite_database.h"

namespace hyperion::trace {

SqliteDatabase::SqliteDatabase(const base::Path& path) {
  throw base::ConfigError(base::format("{} is a database of SQLite, which this build was made without", path.string()),
                          "run script/setup and build again");
}

SqliteDatabase::~SqliteDatabase() = default;

void SqliteDatabase::fail(const std::string& what) const { throw base::CorruptError(what); }

std::optional<int64_t> SqliteDatabase::Row::number(int) const { return {}; }
int64_t SqliteDatabase::Row::needed(int) const { return 0; }
std::string_view SqliteDatabase::Row::text(int) const { return {}; }
bool SqliteDatabase::has(const std::string&) { return false; }
bool SqliteDatabase::has(const std::string&, const std::string&) { return false; }
void SqliteDatabase::each(const std::string&, const std::vector<std::string>&, const std::function<void(const Row&)>&) {
}

}  // namespace hyperion::trace
