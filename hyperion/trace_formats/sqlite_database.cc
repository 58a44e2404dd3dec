#include "hyperion/trace_formats/sqlite_database.h"

#include <sqlite3.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/text/unicode.h"

namespace hyperion::trace {
namespace {

constexpr int kLongestValue = 64 << 20;                         // bytes
constexpr int64_t kWorkOfAByte = 300, kLeastWork = 10'000'000;  // instructions of SQLite's machine
constexpr int kBetweenLooks = 10'000;

std::string quoted(const std::string& name) { return "\"" + name + "\""; }  // names of ours, without quotes

struct Statement {
  ~Statement() { sqlite3_finalize(handle); }
  sqlite3_stmt* handle = nullptr;
};

}  // namespace

SqliteDatabase::SqliteDatabase(const base::Path& path) : path_(path.string()) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) throw base::FileError(base::format("cannot read {}", path_), error.value());
  rows_left_ = size;
  work_left_ = kWorkOfAByte * size + kLeastWork;
  if (sqlite3_open_v2(path_.c_str(), &database_, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr) != SQLITE_OK) {
    const std::string what = database_ == nullptr ? "no memory" : sqlite3_errmsg(database_);
    sqlite3_close(database_);
    throw base::FileError(base::format("cannot open {} ({})", path_, what), 0);
  }
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  const auto look = [](void* self) {
    auto& left = static_cast<SqliteDatabase*>(self)->work_left_;
    left -= kBetweenLooks;
    return left < 0 || base::stop_signal() != 0 ? 1 : 0;
  };
  sqlite3_progress_handler(database_, kBetweenLooks, look, this);
  run("", "PRAGMA cell_size_check = ON", [](const Row&) {});
}

SqliteDatabase::~SqliteDatabase() { sqlite3_close(database_); }

void SqliteDatabase::fail(const std::string& what) const {
  throw base::CorruptError(base::format("{} is no trace that can be read: {}", path_, what),
                           "was it written to its end, and copied whole?");
}

std::optional<int64_t> SqliteDatabase::Row::number(int column) const {
  const int type = sqlite3_column_type(statement_, column);
  if (type == SQLITE_NULL) return {};
  if (type != SQLITE_INTEGER)
    database_.fail(base::format("{} of {} is no whole number", sqlite3_column_name(statement_, column), table_));
  return sqlite3_column_int64(statement_, column);
}

int64_t SqliteDatabase::Row::needed(int column) const {
  const auto value = number(column);
  if (!value) database_.fail(base::format("{} lacks {}", table_, sqlite3_column_name(statement_, column)));
  return *value;
}

std::string_view SqliteDatabase::Row::text(int column) const {
  const int type = sqlite3_column_type(statement_, column);
  if (type == SQLITE_NULL) return {};
  if (type != SQLITE_TEXT)
    database_.fail(base::format("{} of {} is no text", sqlite3_column_name(statement_, column), table_));
  const auto* begin = sqlite3_column_text(statement_, column);
  const std::string_view text(reinterpret_cast<const char*>(begin),
                              static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  if (text::valid_prefix(text) != text.size()) database_.fail(base::format("a text of {} is not UTF-8", table_));
  return text;
}

void SqliteDatabase::run(const std::string& table, const std::string& query,
                         const std::function<void(const Row&)>& visit) {
  const auto check = [&](int code) {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    base::throw_if_stopped("reading a trace");
    if (code == SQLITE_INTERRUPT) fail("its views take more work than its size allows");
    fail(base::format("{}{}", table.empty() ? "" : table + ": ", sqlite3_errmsg(database_)));
  };
  Statement statement;
  check(sqlite3_prepare_v2(database_, query.c_str(), static_cast<int>(query.size()), &statement.handle, nullptr));
  const Row row(*this, table, statement.handle);
  for (;;) {
    const int code = sqlite3_step(statement.handle);
    check(code);
    if (code == SQLITE_DONE) return;
    if (--rows_left_ < 0) fail(base::format("{} has more rows than its size allows", table));
    visit(row);
  }
}

std::vector<std::string> SqliteDatabase::columns_of(const std::string& table) {
  std::vector<std::string> names;
  run(table, "SELECT name FROM pragma_table_info('" + table + "')",
      [&](const Row& row) { names.emplace_back(row.text(0)); });
  return names;
}

bool SqliteDatabase::has(const std::string& table) { return !columns_of(table).empty(); }

bool SqliteDatabase::has(const std::string& table, const std::string& column) {
  const auto names = columns_of(table);
  return std::find(names.begin(), names.end(), column) != names.end();
}

void SqliteDatabase::each(const std::string& table, const std::vector<std::string>& columns,
                          const std::function<void(const Row&)>& visit) {
  const auto names = columns_of(table);
  if (names.empty()) return;
  std::string query;
  for (const auto& column : columns) {
    const bool there = std::find(names.begin(), names.end(), column) != names.end();
    query += (query.empty() ? "SELECT " : ", ") + (there ? quoted(column) : "NULL AS " + quoted(column));
  }
  run(table, query + " FROM " + quoted(table), visit);
}

}  // namespace hyperion::trace
