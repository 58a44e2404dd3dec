// Typed errors. Each says what went wrong, where, and what to do about it, and remembers the rank, step and operation
// it happened in. Only cli turns one into an exit code.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace hyperion::base {

// What this thread is doing now; copied into every Error it throws.
struct Activity {
  int rank = 0;
  int64_t step = -1;      // -1: not in a step
  std::string operation;  // "checkpoint.save"; empty: none named
};
Activity& current_activity();

// Names the operation of this thread until the end of the scope.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;

 private:
  std::string outer_;
};

class Error : public std::exception {
 public:
  // `what` may end with the place ("..., recipe.toml:3:7"); `hint` says what to do, may be empty.
  explicit Error(std::string what, std::string hint = {});
  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& hint() const { return hint_; }
  const Activity& activity() const { return activity_; }
  virtual int exit_code() const { return 1; }

 private:
  std::string what_, hint_;
  Activity activity_;
};

// A command line, recipe or setting that cannot be meant: exit code 2.
class ConfigError : public Error {
  using Error::Error;
  int exit_code() const override { return 2; }
};

// The machine or job failed its checks before the start: exit code 3.
class PreflightError : public Error {
  using Error::Error;
  int exit_code() const override { return 3; }
};

// The operating system refused a read or write. `code` is errno.
class FileError : public Error {
 public:
  FileError(std::string what, int code, std::string hint = {});
  int code() const { return code_; }

 private:
  int code_;
};

// A file was read whole but is not what was written, or not what its format allows.
class CorruptError : public Error {
  using Error::Error;
};

// A signal asked the program to stop; exit code 128 + signal, or 75 when the state was saved for a later resume.
class Interrupted : public Error {
 public:
  Interrupted(std::string what, int exit_code, std::string hint = {});
  int exit_code() const override { return exit_code_; }

 private:
  int exit_code_;
};

// "error: ..." and "hint: ..." lines, with the activity where there is one.
std::string error_text(const Error& error);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

// The candidate nearest to `word` if it is near enough to be a typing slip, else empty.
std::string nearest(std::string_view word, const std::string* begin, const std::string* end);

}  // namespace hyperion::base

// A promise of our own code; a breach is a bug here, not the user's mistake.
#define HYPERION_CHECK(condition, message) \
  ((condition) ? void() : ::hyperion::base::check_failed(__FILE__, __LINE__, #condition, message))
