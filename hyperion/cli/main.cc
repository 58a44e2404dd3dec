#include <cxxabi.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <new>
#include <typeinfo>

#include "hyperion/base/signals.h"
#include "hyperion/cli/program.h"

namespace {

bool main_has_begun = false;
std::terminate_handler handler_before = nullptr;

// Where nobody catches that memory ran out: in a library's static initialisers, or in a thread of its own.
[[noreturn]] void explain_lost_memory() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown == nullptr || *thrown != typeid(std::bad_alloc)) {
    handler_before();
    ::_exit(1);  // not reached: a terminate handler does not return
  }
  const char* text = main_has_begun ? "error: memory ran out\n" : "error: memory ran out while starting\n";
  const char* hint = "hint: give the program more memory: `ulimit -v` tells a limit\n";
  const bool said = ::write(STDERR_FILENO, text, std::strlen(text)) >= 0;
  if (said && ::write(STDERR_FILENO, hint, std::strlen(hint)) < 0) ::_exit(1);
  ::_exit(1);
}

// A request to stop that comes while the libraries initialise themselves is heeded once there is something to stop.
void install_handlers() {
  handler_before = std::set_terminate(explain_lost_memory);
  hyperion::base::watch_stop_signals();
}

// The only code of a program that runs before the initialisers of the libraries it is linked with.
[[gnu::section(".preinit_array"), gnu::used]] void (*before_libraries)() = install_handlers;

}  // namespace

int main(int argc, char** argv) {
  main_has_begun = true;
  hyperion::cli::program(argc, argv);
}
