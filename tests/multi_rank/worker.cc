// One process of a multi-rank test: joins the others, trains each case named on the command line, and rank 0 prints
// what came out, one JSON line a case. Started by launch.h.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

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
    const std::shared_ptr<comm::World> world = comm::World::join(launch, {std::chrono::seconds(60)});
    train::Processes plain(world, config);
    for (int i = 1; i < argc; ++i) {
      const auto which = testing::read_case(argv[i]);
      std::optional<train::Processes> laid_out;
      if (which.settings.count("layout") + which.settings.count("zeropp") != 0) {
        auto own = config;
        if (which.settings.count("layout") != 0) own.layout = "dp=" + which.value("layout", "");
        own.zero = which.number("zero", 0);
        own.zeropp = which.value("zeropp", ""), own.node_size = which.number("node_size", 0);
        laid_out.emplace(world, own);
      }
      const auto trained = testing::train_case(which, laid_out ? *laid_out : plain);
      if (!world->first()) continue;
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
