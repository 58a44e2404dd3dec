#include "hyperion/parallel/config.h"

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::parallel {

using base::format;

void describe(base::Settings& settings, ParallelConfig& config) {
  settings.section("parallel", "runs on several processes")
      .text("layout", config.layout, "as dp=4: processes that share the batch; empty: all of them")
      .integer("zero", config.zero, {0, 3},
               "what is cut among them: 0 nothing, 1 optimizer, 2 and gradients, 3 and weights")
      .integer("bucket", config.bucket, {1, 100'000}, "gradients reduced at once while the backward runs", "MB")
      .integer("prefetch", config.prefetch, {0, 64}, "zero = 3: blocks whose weights are fetched ahead of their use")
      .choice("wire", config.wire, {"own", "fp32", "bf16", "fp16"},
              "type of gradients between processes; own: as they are")
      .flag("sync_batch_norm", config.sync_batch_norm, "batch norms train on the batch of all processes")
      .flag("same_bits", config.same_bits,
            "the same bits on 1, 2, 4, ... processes and for every zero, at some cost: --deterministic=layout")
      .flag("check_calls", config.check_calls, "compare what the processes ask of each other before it is done")
      .integer("check_every", config.check_every, {0, 1'000'000'000},
               "compare the weights of all processes; 0: only at the start", "steps")
      .integer("timeout", config.timeout, {1, 86'400}, "after which a process that others wait for is given up", "s");
}

strategy::Layout layout_of(const ParallelConfig& config, int64_t processes) {
  strategy::Layout layout;
  layout.dp_shard = processes;
  if (config.layout.empty()) return layout;
  layout = strategy::parse_layout(config.layout);
  if (layout.pp * layout.cp * layout.tp * layout.ep * layout.dp_replicate > 1)
    throw base::ConfigError(format("parallel.layout = \"{}\": only dp=N is there yet", config.layout),
                            format("use dp={}", processes));
  if (layout.processes() != processes)
    throw base::ConfigError(format("parallel.layout = \"{}\" needs {} processes, and there {} {}", config.layout,
                                   layout.processes(), processes == 1 ? "is" : "are", processes),
                            format("start {} processes, or use dp={}", layout.processes(), processes));
  return layout;
}

}  // namespace hyperion::parallel
