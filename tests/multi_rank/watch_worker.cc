// One process of a job that does nothing but wait or count, step after step, with faults planted in it: whether they
// are named, and nothing else is. Rank 0 prints one JSON line a trial. watch_worker WORK LARGE SEED TRIALS CAUSE...
// WORK: sleep, compute. LARGE: 1, or how many times larger the faults are. CAUSE: compute, input, links, stopped, or
// clean, which is one trial of TRIALS steps.
#include <ATen/ops/zeros.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/device/device.h"
#include "hyperion/doctor/job_watch.h"
#include "hyperion/parallel/processes.h"

using namespace hyperion;

namespace {

constexpr int kBefore = 15, kNamedWithin = 20;
constexpr double kWork = 20e-3, kInput = 0.3e-3, kSlower = 0.10, kStarved = 5e-3, kStop = 60e-3, kLate = 2e-3;

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// A second's worth of counting, measured once.
class Counting {
 public:
  void of(double seconds) {
    for (auto left = static_cast<int64_t>(seconds * rate_); left > 0; --left) sink_ = sink_ * 1664525 + 1013904223;
  }

 private:
  double measured() {
    double best = 0;
    for (int i = 0; i < 20; ++i) {
      const double begun = base::now();
      for (int64_t left = kRounds; left > 0; --left) sink_ = sink_ * 1664525 + 1013904223;
      best = std::max(best, kRounds / (base::now() - begun));
    }
    return best;
  }
  static constexpr int64_t kRounds = 1'000'000;
  volatile uint32_t sink_ = 1;
  double rate_ = measured();
};

// Stops its parent again and again until it is killed.
class Stops {
 public:
  explicit Stops(uint64_t seed) : child_(::fork()) {
    if (child_ != 0) return;
    const pid_t parent = ::getppid();
    for (unsigned state = static_cast<unsigned>(seed);;) {
      ::usleep(40'000 + static_cast<useconds_t>(::rand_r(&state) % 60'000));
      if (::kill(parent, SIGSTOP) != 0) ::_exit(0);
      ::usleep(static_cast<useconds_t>(1e6 * kStop));
      if (::kill(parent, SIGCONT) != 0) ::_exit(0);
    }
  }
  // The parent runs, so the child is not in the middle of a stop.
  ~Stops() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Stops(const Stops&) = delete;
  Stops& operator=(const Stops&) = delete;

 private:
  pid_t child_;
};

struct Trial {
  std::string cause;
  int rank = 0;
  int64_t steps = kBefore + kNamedWithin;
  uint64_t seed = 0;
  double large = 1;
};

nlohmann::json run(const Trial& trial, parallel::Processes& processes, Counting* counting) {
  std::mt19937_64 random(trial.seed * 1000 + static_cast<uint64_t>(processes.rank()));
  std::normal_distribution<double> scatter(1, 0.01);
  doctor::JobWatch watch(std::vector<int>(static_cast<size_t>(processes.size()), 0));
  auto& group = processes.gradients();
  const auto tensor = at::zeros({1 << 12});
  std::unique_ptr<Stops> stops;
  auto named = nlohmann::json::array();
  const auto tell = [&](int64_t step, const doctor::SlowRank& slow) {
    named.push_back({{"step", step - kBefore},
                     {"rank", slow.rank},
                     {"cause", doctor::cause_word(slow.cause)},
                     {"text", doctor::slow_text(slow)}});
  };
  for (int64_t step = 0; step < trial.steps; ++step) {
    const bool victim = step >= kBefore && processes.rank() == trial.rank;
    if (watch.suspects_links())
      if (const auto slow = watch.look_at_links(group, processes.control(), c10::kCPU)) tell(step, *slow);
    if (victim && trial.cause == "links") group.set_slow_link({0, kLate * trial.large});
    if (victim && trial.cause == "stopped" && !stops) stops = std::make_unique<Stops>(trial.seed);
    parallel::Processes::Told own{};
    std::ranges::copy(watch.told(), own.begin());
    processes.tell(own);
    watch.begin(processes.traffic().exposed);
    sleep_for(kInput + (victim && trial.cause == "input" ? kStarved * trial.large : 0));
    watch.has_input();
    processes.agree({});
    std::vector<doctor::JobWatch::Told> all;
    for (const auto& told : processes.told())
      std::copy_n(told.begin(), std::tuple_size_v<doctor::JobWatch::Told>, all.emplace_back().begin());
    for (const auto& slow : watch.add(all)) tell(step, slow);
    const double work =
        kWork * scatter(random) * (1 + (victim && trial.cause == "compute" ? kSlower * trial.large : 0));
    counting != nullptr ? counting->of(work) : sleep_for(work);
    group.all_reduce(tensor, "gradients").wait();
    watch.end(processes.traffic().exposed);
  }
  stops.reset();
  group.set_slow_link({});
  return {{"cause", trial.cause}, {"rank", trial.rank}, {"seed", trial.seed}, {"steps", trial.steps}, {"named", named}};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    device::set_cpu_threads(1);
    const auto launch = host::find_launch();
    const std::shared_ptr<comm::World> world = comm::World::join(launch, {.timeout = std::chrono::seconds(60)});
    parallel::Processes processes(world, {});
    const std::string work = argv[1];
    const double large = std::atof(argv[2]);
    const auto seed = std::strtoull(argv[3], nullptr, 10);
    const auto trials = std::strtoll(argv[4], nullptr, 10);
    std::optional<Counting> counting;
    if (work == "compute") counting.emplace();
    for (int i = 5; i < argc; ++i) {
      const std::string cause = argv[i];
      const bool clean = cause == "clean";
      for (int64_t number = 0; number < (clean ? 1 : trials); ++number) {
        Trial trial{.cause = cause, .seed = seed + static_cast<uint64_t>(number), .large = large};
        trial.rank =
            clean ? -1 : static_cast<int>(std::mt19937_64(trial.seed)() % static_cast<uint64_t>(world->size()));
        if (clean) trial.steps = trials;
        const auto outcome = run(trial, processes, counting ? &*counting : nullptr);
        if (world->first()) std::printf("%s\n", outcome.dump().c_str());
        std::fflush(stdout);
      }
    }
    return 0;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  } catch (...) {
    return 1;
  }
}
