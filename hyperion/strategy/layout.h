// How the processes of a run are laid out, as a user writes it: "dp=4", "dp=2x2,tp=2".
#pragma once
#include <cstdint>
#include <string>

namespace hyperion::strategy {

// The processes are the product of all axes but `ep`, which is carved out of dp and cp.
struct Layout {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1, ep = 1;

  int64_t dp() const { return dp_replicate * dp_shard; }
  int64_t processes() const { return pp * dp() * cp * tp; }
  std::string text() const;  // "dp=4"; axes of one are left out, and nothing at all is "dp=1"
};

// Throws ConfigError that names the part that cannot be read, an axis twice, or an unknown one.
Layout parse_layout(const std::string& text);

}  // namespace hyperion::strategy
