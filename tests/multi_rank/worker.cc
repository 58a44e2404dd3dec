// One process of a multi-rank test: joins the others, trains each case named on the command line, and rank 0 prints
// what came out, one JSON line a case. Started by launch.h.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/kernels/device.h"
#include "tests/multi_rank/cases.h"

using namespace hyperion;

int main(int argc, char** argv) {
  try {
    kernels::set_cpu_threads(1);
    const auto launch = host::find_launch();
    parallel::ParallelConfig config;
    config.sync_batch_norm = true;  // makes the group; a case uses it or not
    train::Processes processes(comm::World::join(launch, {std::chrono::seconds(60)}), config);
    for (int i = 1; i < argc; ++i) {
      const auto which = testing::read_case(argv[i]);
      const auto trained = testing::train_case(which, processes);
      if (!processes.first()) continue;
      std::printf("%s\n", nlohmann::json{{"case", which.text},
                                         {"losses", trained.losses},
                                         {"norms", trained.norms},
                                         {"digest", trained.digest},
                                         {"weights", trained.weights},
                                         {"gradients", trained.gradients},
                                         {"optimizer", trained.optimizer},
                                         {"seconds", trained.seconds},
                                         {"exposed", trained.exposed},
                                         {"under_way", trained.under_way},
                                         {"sent", trained.sent}}
                              .dump()
                              .c_str());
      std::fflush(stdout);
    }
    return 0;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s", base::error_text(error).c_str());
    return error.exit_code();
  }
}
