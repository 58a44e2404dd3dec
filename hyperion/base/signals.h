// Stop requests. The first SIGINT, SIGTERM or SIGUSR1 is noted for the program to act on between two pieces of work; a
// second SIGINT stops the process at once with 130.
#pragma once

namespace hyperion::base {

void watch_stop_signals();
int stop_signal();  // 0 while nobody asked

// 130 for Ctrl-C, 75 for SIGTERM and SIGUSR1 (preempted: the caller saved its state).
int stop_exit_code(int signal);

// For work that has nothing to save: throws Interrupted with 128 + signal when a stop was asked for.
void throw_if_stopped(const char* doing);

}  // namespace hyperion::base
