#include "hyperion/bench/data_images.h"

#include <ctime>

#include "hyperion/base/error.h"
#include "hyperion/images/augment.h"

namespace hyperion::bench {
namespace {

// Of the processor, not of the wall: what else runs on the machine should not count.
double seconds_of_this_thread() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

ImageRate time_images(const std::vector<std::string>& files, int64_t side, const profile::Budget& budget) {
  HYPERION_CHECK(!files.empty(), "there are images to time");
  images::AugmentConfig config;
  config.crop = images::Crop::resized, config.flip = true;
  const images::Augmenter augmenter(config, side, /*seed=*/1, /*training=*/true, images::kImagenet);
  std::vector<float> out(static_cast<size_t>(3 * side * side));
  const auto count = static_cast<int64_t>(files.size());
  int64_t epoch = 0;
  const profile::Block pass = [&](int64_t calls) {
    const double begin = seconds_of_this_thread();
    for (int64_t call = 0; call < calls; ++call, ++epoch)
      for (int64_t index = 0; index < count; ++index) augmenter.apply(files[index], "image", index, epoch, out);
    return seconds_of_this_thread() - begin;
  };
  profile::Spread spread = profile::repeat(pass, budget);
  for (double* value : {&spread.median, &spread.low, &spread.high}) *value /= static_cast<double>(count);
  return {spread, 1 / spread.median};
}

}  // namespace hyperion::bench
