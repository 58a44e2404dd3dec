// The commands that start and join jobs of several processes.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/host/launch.h"

namespace hyperion::cli {

struct LaunchOptions {
  int64_t ranks = 0;
  std::string logs, show = "rank0", bind = "auto", nodes, listen, ssh = "ssh -o BatchMode=yes";
  int64_t port = 0, node_count = 1, node_rank = -1;
  std::string master;
  std::string emit, name = "hyperion", image = "hyperion:latest";
  int64_t gpus_per_node = -1;
  bool agent = false;
  double frozen_seconds = -1, back_off = 1;  // -1: not told
  int64_t restarts = 0;
  std::vector<std::string> command;  // what follows --
};
// `commands` are the program's own: a command line that begins with one of them runs this program.
int launch_command(const LaunchOptions& options, const std::vector<std::string>& commands);

// Who this process is, for those who start each by hand.
void add_rank_flags(CLI::App* command, host::RankFlags& flags);

struct RendezvousOptions {
  double timeout = 60, hold = 0;
  bool json = false;
  host::RankFlags rank;
};
int rendezvous_command(const RendezvousOptions& options);

// Takes what follows the first -- of `hyperion launch` off the command line; other command lines stay as they are.
std::vector<std::string> take_launched_command(int& argc, char** argv);

}  // namespace hyperion::cli
