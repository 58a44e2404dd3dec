// The long run: fuzz_images [SECONDS] [SEED]. Breaks good images and decodes them, whole and in part, until the time is
// over. Input that ends in another error than a refusal, or takes long, is kept in fuzz-failure and ends it with 1.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "hyperion/base/files.h"
#include "tests/fuzz/image_inputs.h"
#include "tests/support/fuzz.h"

namespace {

using namespace hyperion;
using namespace hyperion::testing;
using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 10;

[[noreturn]] void give_up(const std::string& input, const std::string& reason) {
  base::write_atomically(base::real_files(), "fuzz-failure", input);
  std::printf("fuzz: %s; the input is in ./fuzz-failure\n", reason.c_str());
  std::exit(1);
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 60;
  const auto seed = static_cast<unsigned>(argc > 2 ? std::atol(argv[2]) : std::random_device()());
  std::printf("fuzz: images, seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<std::string> pool = good_images();
  long tried = 0, read = 0;
  double slowest = 0;
  for (const auto begin = Clock::now(); since(begin) < seconds; ++tried) {
    const std::string& good = pool[random() % pool.size()];
    const std::string file = mutated(good, random() % 2 == 0 ? 700 : good.size(), image_words(), random);
    const auto place = static_cast<uint32_t>(random());
    const auto started = Clock::now();
    try {
      if (reads_image(file, place)) {
        ++read;
        if (file.size() < 20000 && pool.size() < 2000) pool.push_back(file);  // so that breaks add up
      }
    } catch (const std::exception& error) {
      give_up(file, std::string("another error than a refusal: ") + error.what());
    }
    slowest = std::max(slowest, since(started));
    if (slowest > kMostSeconds) give_up(file, "took longer than 10 seconds");
  }
  std::printf("fuzz: %ld images, %ld decoded, %ld refused, no crash, the slowest took %.2f s\n", tried, read,
              tried - read, slowest);
  return 0;
}
