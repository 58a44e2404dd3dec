// The only place with main, argv and exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "hyperion/base/descriptors.h"
#include "hyperion/base/error.h"
#include "hyperion/base/fault.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/cli/program.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/host/blas.h"
#include "hyperion/profile/marks.h"
#include "hyperion/train/memory.h"

namespace hyperion::cli {
namespace {

// In the order of --help.
void add_commands(Commands& commands, std::vector<std::string> launched) {
  add_train_command(commands);
  add_resume_command(commands);
  add_config_commands(commands);
  add_plan_commands(commands);
  add_init_command(commands);
  add_launch_command(commands, std::move(launched));
  add_rendezvous_command(commands);
  add_eval_command(commands);
  add_compare_command(commands);
  add_generate_command(commands);
  add_chat_command(commands);
  add_classify_command(commands);
  add_probe_command(commands);
  add_export_command(commands);
  add_fetch_command(commands);
  add_data_commands(commands);
  add_doctor_command(commands);
  add_bench_commands(commands);
  add_tune_command(commands);
  add_comm_check_command(commands);
  add_profile_command(commands);
  add_trace_commands(commands);
  add_presets_command(commands);
  add_runs_commands(commands);
  add_checkpoint_commands(commands);
  add_report_command(commands);
  add_dash_command(commands);
  add_completion_command(commands);
}

// CLI11 would take the next word for the value. A setting (--section.key=) may well be empty.
void refuse_empty_values(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--") || !word.ends_with('=') || word.find('.') != word.npos) continue;
    const auto flag = word.substr(0, word.size() - 1);
    throw base::ConfigError(base::format("{} has no value", word),
                            base::format("write {} VALUE, or leave it out; {} '' is an empty one", flag, flag));
  }
}

int run(int argc, char** argv) {
  CLI::App app{
      "hyperion trains deep networks, from a laptop's CPU to a cluster of GPUs, and shows where time and memory went."};
  app.name("hyperion");
  app.set_version_flag(
      "--version", [] { return version_lines(); }, "versions of hyperion and what is under it");
  app.set_help_flag("-h,--help", "show this help");
  app.require_subcommand(1);
  app.footer(
      "\nExamples:\n  hyperion doctor\n  hyperion train recipes/quickstart.toml --run first\n  hyperion generate first "
      "--prompt '347+85:'\n"
      "\nRuns live in ./runs, or where HYPERION_RUNS says. Exit codes: 0 fine, 1 failed, 2 usage, 3 preflight, 75 "
      "preempted, 130 Ctrl-C.");
  Commands commands(app);
  add_commands(commands, take_launched_command(argc, argv));
  refuse_empty_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error, argc, argv);
  }
  profile::mark_spans_where_asked();
  return commands.run();
}

// Errors of the libraries under us. LibTorch's messages carry a backtrace after the first line.
base::Error in_our_words(const std::exception& error, const char* command) {
  if (train::is_out_of_memory(error))
    return train::out_of_memory_error(error, base::format("running `hyperion {}`", command));
  const auto* refused = dynamic_cast<const std::system_error*>(&error);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return base::Error("a further thread could not be started",
                       "raise `ulimit -u` or `ulimit -v`, or ask for fewer threads");
  const std::string what = error.what();
  return base::Error(what.substr(0, what.find('\n')));
}

}  // namespace
}  // namespace hyperion::cli

namespace {

int guarded_run(int argc, char** argv) {
  using hyperion::base::Error;
  using hyperion::base::Interrupted;
  try {
    return hyperion::cli::run(argc, argv);
  } catch (const Interrupted& stop) {
    std::fprintf(stderr, "%s\n", stop.what());
    if (!stop.hint().empty()) std::fprintf(stderr, "hint: %s\n", stop.hint().c_str());
    return stop.exit_code();
  } catch (const Error& error) {
    std::fputs(hyperion::base::error_text(error).c_str(), stderr);
    return error.exit_code();
  } catch (const std::exception& error) {
    const auto told = hyperion::cli::in_our_words(error, argc > 1 ? argv[1] : "");
    std::fputs(hyperion::base::error_text(told).c_str(), stderr);
    return told.exit_code();
  }
}

// A closed stdout's number would be given to the next file opened, and what is printed would land in it.
void open_standard_streams() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // takes the lowest free number, this one
}

[[noreturn]] void refuse_start(const std::string& what, const char* hint) {
  std::fprintf(stderr, "error: %s\nhint: %s\n", what.c_str(), hint);
  ::_exit(2);
}

// OpenMP takes no notice of such a value, and says so before this program begins, without a word of what to do.
void warn_of_thread_count() {
  const char* value = std::getenv("OMP_NUM_THREADS");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.find_first_not_of("0123456789, ") != text.npos)
    hyperion::base::log_warn(hyperion::base::format(
        "OMP_NUM_THREADS=\"{}\" is no number of threads, and is ignored; set it to one, as OMP_NUM_THREADS=4, or unset "
        "it",
        hyperion::base::printable(text)));
  constexpr int64_t kMost = 4096;  // as train.threads has it; OpenMP ends the program where they cannot be made
  if (std::strtoll(std::string(text).c_str(), nullptr, 10) > kMost)
    refuse_start(
        hyperion::base::format("OMP_NUM_THREADS={} is more than {} threads", hyperion::base::printable(text), kMost),
        "set it to as many as there are cores, or unset it");
}

int flush_output(int code) {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed || code != 0) return code;
  if (errno == EPIPE) return 128 + SIGPIPE;  // the reader has seen enough
  std::fprintf(
      stderr,
      "error: the output could not be written: %s\nhint: the work itself is done; give stdout somewhere to go\n",
      errno != 0 ? std::strerror(errno) : "an earlier line was lost");
  return 1;
}

}  // namespace

void hyperion::cli::program(int argc, char** argv) {
  open_standard_streams();
  hyperion::base::raise_descriptor_limit();
  ::setenv("ONEDNN_JIT_PROFILE", "0", /*overwrite=*/0);  // it leaves a file in /tmp for each process
  hyperion::host::settle_blas();
  hyperion::base::watch_stop_signals();
  hyperion::device::log_library_warnings();
  hyperion::base::watch_mapped_files();
  hyperion::base::warn_of_test_variables();
  warn_of_thread_count();
  const int code = flush_output(guarded_run(argc, argv));
  std::fflush(stderr);
  // Not through static destructors: LibTorch's own, beside CUDA's libraries, are not safe to run.
  ::_exit(code);
}
