// A database of SQLite, read only. What it says is not trusted: its views cannot call functions that do anything, and
// neither more rows nor more work is taken from it than a file of its size can hold.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hyperion::trace {

constexpr std::string_view kSqliteMagic = {"SQLite format 3\0", 16};

// All throw CorruptError where the file is damaged or has another form, and Interrupted.
class SqliteDatabase {
 public:
  // Throws ConfigError in a build without SQLite.
  explicit SqliteDatabase(const base::Path& path);
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  class Row {
   public:
    std::optional<int64_t> number(int column) const;  // nothing: NULL
    int64_t number(int column, int64_t otherwise) const { return number(column).value_or(otherwise); }
    int64_t needed(int column) const;         // that must be there
    std::string_view text(int column) const;  // "" where NULL; UTF-8; until the next row

   private:
    friend class SqliteDatabase;
    Row(const SqliteDatabase& database, const std::string& table, sqlite3_stmt* statement)
        : database_(database), table_(table), statement_(statement) {}
    const SqliteDatabase& database_;
    const std::string& table_;
    sqlite3_stmt* statement_;
  };

  bool has(const std::string& table);  // or view
  bool has(const std::string& table, const std::string& column);
  // All rows with these columns; one that the table lacks is NULL. No table: no rows.
  void each(const std::string& table, const std::vector<std::string>& columns,
            const std::function<void(const Row&)>& visit);
  [[noreturn]] void fail(const std::string& what) const;  // CorruptError with the file

 private:
  friend class Row;
  std::vector<std::string> columns_of(const std::string& table);
  void run(const std::string& table, const std::string& query, const std::function<void(const Row&)>& visit);

  std::string path_;
  sqlite3* database_ = nullptr;
  int64_t rows_left_ = 0, work_left_ = 0;
};

}  // namespace hyperion::trace
