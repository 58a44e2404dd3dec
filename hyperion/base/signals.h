// Stop requests. The first SIGINT, SIGTERM, SIGHUP, SIGUSR1 or SIGXCPU (the limit on CPU time, sent each second until
// the hard limit kills) is noted for the program to act on between two pieces of work. A second SIGINT stops the
// process at once with 130; so does, with 128 + its number, a second SIGTERM or SIGHUP half a second or more after the
// first: schedulers send one and the same request twice, to a process and to its group.
#pragma once

namespace hyperion::base {

void watch_stop_signals();  // a SIGHUP that is ignored at the start, as under nohup, stays so
int stop_signal();          // 0 while nobody asked
bool forget_interrupt();    // whether it was Ctrl-C, which then counts as not pressed: what it stopped was a part only

// 130 for Ctrl-C, 75 for the others (preempted: the caller saved its state).
int stop_exit_code(int signal);

// For work that has nothing to save: throws Interrupted with 128 + signal when a stop was asked for.
void throw_if_stopped(const char* doing);

}  // namespace hyperion::base
