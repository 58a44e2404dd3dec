#include "hyperion/parallel/config.h"

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/strategy/automatic_layout.h"
#include "hyperion/strategy/expert_parallel.h"

namespace hyperion::parallel {

using base::format;

void describe(base::Settings& settings, ParallelConfig& config) {
  settings.section("parallel", "runs on several processes")
      .text("layout", config.layout,
            "as dp=4: processes that share the batch; dp=2x4: what zero cuts is cut among 4, and held twice; "
            "pp=2,dp=2: the model's blocks lie on 2, one behind the other; tp=2,dp=2: each layer is cut between 2; "
            "cp=2,dp=2: the tokens of each sample are; dp=4,ep=2: of every mixture's experts each has half; "
            "auto: pp=2 of 2, pp=2,tp=2 of 4, pp=2,tp=2,dp=2 of 8 processes, with ep for mixtures and cp for long "
            "samples, as far as the model and the batch can be laid out so")
      .choice("schedule", config.schedule,
              "pp: which micro-batch (train.accumulate) a process runs when; interleaved: with several stages a "
              "process; zb-h1, zbv, dualpipev: gradients of weights fill the waits, the last two with stages in a V")
      .integer("chunks", config.chunks, {0, 64},
               "pp: stages a process; 0: 2 with interleaved, zbv and dualpipev, else 1")
      .flag("sequence", config.sequence,
            "tp: between cut layers (norms, dropout, residuals) each process has a part of the sequence: less memory")
      .choice("context", config.context,
              "cp: how queries meet other processes' keys; ring: these go round; ulysses: around attention tokens are "
              "exchanged for heads, of which each process has some")
      .integer("zero", config.zero, {0, 3},
               "what is cut among them: 0 nothing, 1 optimizer, 2 and gradients, 3 and weights")
      .integer("bucket", config.bucket, {1, 100'000}, "gradients reduced at once while the backward runs", "MB")
      .integer("prefetch", config.prefetch, {0, 64}, "zero = 3: blocks whose weights are fetched ahead of their use")
      .choice("wire", config.wire, "type of gradients between processes; own: as they are")
      .choice("reduce", config.reduce,
              "who adds up: NCCL or Gloo in their own order and the type that travels, or we in fp32 in a fixed order, "
              "the same bits in every run; auto: the library over NCCL, else fixed")
      .written(
          "zeropp", config.zeropp,
          "zero = 3 with fewer bytes between machines, any of weights,secondary,grads: weights in 8 bits, a second "
          "copy in each machine for the backward, gradients in 8 bits")
      .integer("node_size", config.node_size, {0, 1 << 20}, "processes a machine; 0: as the launcher says")
      .flag("sync_batch_norm", config.sync_batch_norm, "batch norms train on the batch of all processes")
      .flag("same_bits", config.same_bits,
            "the same bits on 1, 2, 4, ... processes that share the batch, any number of stages and for every zero, at "
            "some cost: --deterministic=layout")
      .flag("check_calls", config.check_calls, "compare what the processes ask of each other before it is done")
      .integer("check_every", config.check_every, {0, 1'000'000'000},
               "compare the weights of all processes; 0: only at the start", "steps")
      .integer("timeout", config.timeout, {1, 86'400}, "after which a process that others wait for is given up", "s")
      .integer("stall", config.stall, {0, 86'400},
               "after which it is told of, with who is missing, at half of the timeout at the latest; 0: never", "s");
  comm::describe(settings, config.nccl);
}

ZeroPlusPlus::ZeroPlusPlus(const std::string& text) : text_(text) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string word = text.substr(at, end - at);
    bool* const target = word == "weights"     ? &weights_
                         : word == "secondary" ? &secondary_
                         : word == "grads"     ? &grads_
                                               : nullptr;
    if (target == nullptr)
      throw base::ConfigError(
          format("parallel.zeropp = \"{}\": \"{}\" is none of weights, secondary and grads", text, word),
          "name any of them with commas between");
    *target = true;
    at = end + 1;
  }
}

namespace {

void check_zeropp(const ParallelConfig& config, int64_t processes) {
  const std::string needed =
      format("{}{}{}", config.zero != 3 ? " --zero 3" : "", config.same_bits ? " --parallel.same_bits=false" : "",
             config.wire != Wire::own ? " --parallel.wire=own" : "");
  if (!config.zeropp.empty() && !needed.empty())
    throw base::ConfigError(
        format("parallel.zeropp = \"{}\" is a form of parallel.zero = 3, with neither same_bits nor a wire of its own",
               config.zeropp.text()),
        format("add{}, or go without it: --parallel.zeropp=", needed));
  if (config.zeropp.nodes() && config.node_size > 0 && processes % config.node_size != 0)
    throw base::ConfigError(format("parallel.node_size = {} does not divide {} processes", config.node_size, processes),
                            "every machine has as many");
}

[[noreturn]] void refuse_count(const std::string& text, const strategy::Layout& layout, int64_t processes) {
  const int64_t needed = layout.processes(), copies = layout.dp_replicate;
  std::string instead = format("--parallel dp={}", processes);
  if (copies > 1 && processes % copies == 0 && processes > copies)
    instead += format(" or --parallel dp={}x{}", copies, processes / copies);
  throw base::ConfigError(format("parallel.layout = \"{}\" needs {} processes, and there {} {}", text, needed,
                                 processes == 1 ? "is" : "are", processes),
                          format("start {} of them (hyperion launch -n {}), or write {}", needed, needed, instead));
}

bool is_power_of_two(int64_t number) { return (number & (number - 1)) == 0; }

void check_model_parallel(const ParallelConfig& config, const strategy::Layout& layout) {
  const auto refuse = [&](const std::string& what, const std::string& instead) {
    throw base::ConfigError(format("parallel.layout = \"{}\" cannot be had with {}", config.layout, what), instead);
  };
  if (!config.zeropp.empty())
    refuse("parallel.zeropp, which cuts among machines whose processes all share the batch",
           format("use --parallel dp={}, or leave parallel.zeropp out", layout.processes()));
  const int64_t cut = layout.tp * layout.cp;
  if (!config.same_bits || cut * layout.ep == 1) return;
  strategy::Layout other = layout;
  other.tp = other.cp = other.ep = 1, (is_power_of_two(layout.dp() * cut) ? other.dp_shard : other.pp) *= cut;
  refuse(
      layout.tp > 1 ? "parallel.same_bits: of a layer that tp cuts, parts of a product are added up in another order"
      : layout.cp > 1
          ? "parallel.same_bits: of samples that cp cuts, parts of gradients are added up in another order"
          : "parallel.same_bits: an expert of ep sees the tokens of several processes at once, and sums over them in "
            "another order",
      format("use --parallel {}, or leave parallel.same_bits out", other.text()));
}

}  // namespace

strategy::Layout layout_of(const ParallelConfig& config, int64_t processes) {
  check_zeropp(config, processes);
  if (config.same_bits && config.reduce == ReduceChoice::library)
    throw base::ConfigError(
        "parallel.reduce = \"library\" adds up in an order of its own, and parallel.same_bits asks for one",
        "leave one of them out");
  strategy::Layout layout;
  layout.dp_shard = processes;
  if (config.layout.empty()) return layout;
  layout = config.layout == "auto" ? strategy::automatic_layouts(processes, {}).front()
                                   : strategy::parse_layout(config.layout);
  strategy::check_expert_processes(layout);
  if (layout.processes() != processes) refuse_count(config.layout, layout, processes);
  if (layout.pp * layout.tp * layout.cp * layout.ep > 1) check_model_parallel(config, layout);
  if (layout.dp_replicate > 1 && !config.zeropp.empty())
    throw base::ConfigError("parallel.zeropp cuts over all processes, and parallel.layout says not to",
                            format("use dp={}", processes));
  if (layout.dp_replicate > 1 && config.same_bits) {
    strategy::Layout other = layout;
    other.dp_replicate = 1, other.dp_shard = layout.dp();
    throw base::ConfigError(
        format("parallel.layout = \"{}\" sums in another order than parallel.same_bits", config.layout),
        format("use {}", other.text()));
  }
  return layout;
}

}  // namespace hyperion::parallel
