// One process of a multi-rank test: joins the others, trains each case named on the command line, and rank 0 prints
// what came out, one JSON line a case. Started by support_launch.h. On the device of HYPERION_TEST_DEVICE (CPU where it
// is not set), over the wires of HYPERION_TEST_WIRES (nccl, also for one process; else Gloo).
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/device/device.h"
#include "tests/multi_rank/cases.h"

using namespace hyperion;

int main(int argc, char** argv) {
  try {
    device::set_cpu_threads(1);
    const auto launch = host::find_launch();
    const char *named = std::getenv("HYPERION_TEST_DEVICE"), *wires = std::getenv("HYPERION_TEST_WIRES");
    at::Device device = device::open_device(named != nullptr ? named : "cpu");
    if (device.is_cuda())
      device = device::open_device("cuda:" + std::to_string(launch.local_rank % device::gpu_count()));
    device::allow_tf32(false);  // as a run in fp32 does
    if (device.is_cuda()) device::use_deterministic_algorithms();
    const bool nccl = wires != nullptr && std::string(wires) == "nccl";
    parallel::ParallelConfig config;
    config.sync_batch_norm = true;  // makes the group; a case uses it or not
    const std::shared_ptr<comm::World> world =
        comm::World::join(launch, {.timeout = std::chrono::seconds(60), .wires_for_one = nccl});
    parallel::Processes plain(world, config, nccl);
    for (int i = 1; i < argc; ++i) {
      const auto which = testing::read_case(argv[i]);
      std::optional<parallel::Processes> laid_out;
      if (which.settings.count("layout") + which.settings.count("zeropp") + which.settings.count("reduce") != 0) {
        auto own = config;
        own.layout = which.layout(), own.chunks = which.number("chunks", 0);
        own.schedule = which.choice("schedule", own.schedule);
        own.zero = which.number("zero", 0), own.reduce = which.choice("reduce", own.reduce);
        own.same_bits = which.number("same_bits", 0) != 0;
        own.context = which.choice("context", own.context);
        own.zeropp = parallel::ZeroPlusPlus(which.value("zeropp", "")), own.node_size = which.number("node_size", 0);
        laid_out.emplace(world, own, nccl);
      }
      const auto trained = testing::train_case(which, laid_out ? *laid_out : plain, device);
      if (!world->first()) continue;
      std::printf("%s\n", nlohmann::json{{"case", which.text},
                                         {"losses", trained.losses},
                                         {"norms", trained.norms},
                                         {"validation", trained.validation},
                                         {"digest", trained.digest},
                                         {"largest", trained.largest},
                                         {"weights", trained.weights},
                                         {"gradients", trained.gradients},
                                         {"optimizer", trained.optimizer},
                                         {"seconds", trained.seconds},
                                         {"exposed", trained.exposed},
                                         {"under_way", trained.under_way},
                                         {"sent", trained.sent},
                                         {"planned", trained.planned},
                                         {"calls", trained.calls},
                                         {"memory_off", trained.memory_off},
                                         {"recorded", trained.recorded},
                                         {"routes", trained.routes},
                                         {"route_margin", trained.route_margin},
                                         {"expert_load", trained.expert_load},
                                         {"model", trained.model},
                                         {"activations", trained.activations},
                                         {"made", trained.made},
                                         {"read", trained.read},
                                         {"wires", plain.gradients().kind()},
                                         {"device", device::device_text(device)}}
                              .dump()
                              .c_str());
      std::fflush(stdout);
    }
    return 0;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s", base::error_text(error).c_str());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
