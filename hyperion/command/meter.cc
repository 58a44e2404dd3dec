#include "hyperion/command/meter.h"

#include <algorithm>

#include "hyperion/base/format.h"

namespace hyperion::cli {

void Meter::show(const std::string& doing, uint64_t done, uint64_t all, const std::string& more) {
  const double now = base::real_clock().seconds();
  if (doing != doing_) doing_ = doing, begun_ = now, first_ = done;
  if (!line_.live() && now - told_ < 10) return;
  if (line_.live() && now - told_ < 0.1 && done < all) return;
  told_ = now;
  const double rate = static_cast<double>(done - first_) / std::max(now - begun_, 1e-3);
  std::string text = base::format("{} {}", doing, base::bytes_text(done));
  if (all >= done && all > 0) text += base::format(" of {}", base::bytes_text(all));
  if (now - begun_ > 0.5) text += base::format("  {}/s", base::bytes_text(static_cast<uint64_t>(rate)));
  if (all > done && now - begun_ > 1 && rate > 0)
    text += base::format("  eta {}", base::duration_text(static_cast<double>(all - done) / rate));
  text += more;
  if (line_.live())
    line_.show(text);
  else
    base::log_info(text);
}

}  // namespace hyperion::cli
