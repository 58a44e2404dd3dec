// "zero_optimization" of DeepSpeed's JSON.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"
#include "hyperion/interop/deepspeed_keys.h"

namespace hyperion::interop {

using base::format;

namespace {

const DeepSpeedNotes kZeroWithoutCounterpart = {
    {"overlap_comm", "gradients always travel while the backward runs"},
    {"contiguous_gradients", "gradients always lie side by side, in buckets"},
    {"reduce_scatter", "gradients that are cut are always summed so"},
    {"allgather_partitions", "weights are always gathered so"},
    {"allgather_bucket_size", "weights are gathered in the buckets of their gradients"},
    {"round_robin_gradients", "each process has an equal piece of each bucket"},
    {"stage3_param_persistence_threshold", "small weights are gathered with the block they belong to"},
    {"stage3_model_persistence_threshold", "small weights are gathered with the block they belong to"},
    {"stage3_max_live_parameters", "a block's weights, and those of parallel.prefetch blocks, are there at a time"},
    {"stage3_max_reuse_distance", "a block's weights go when it was computed"},
    {"stage3_use_all_reduce_for_fetch_params", "weights are gathered"},
    {"stage3_module_granularity_threshold", "weights are gathered a block at a time"},
    {"stage3_gather_16bit_weights_on_model_save", "checkpoints and exports always hold whole weights"},
    {"stage3_gather_fp16_weights_on_model_save", "checkpoints and exports always hold whole weights"},
    {"sub_group_size", "each bucket is updated by itself"},
    {"ignore_unused_parameters", "a layer that a step does not use stops nothing"},
    {"load_from_fp32_weights", "masters are always read from the checkpoint"},
    {"elastic_checkpoint", "checkpoints are whole, and can be read by any number of processes"},
    {"legacy_stage1", "there is one parallel.zero = 1"},
    {"memory_efficient_linear", "linear layers keep their inputs alone"},
    {"pipeline_loading_checkpoint", "weights are read from mapped files"},
    {"log_trace_cache_warnings", "blocks are fetched in the order they are used in"},
    {"use_multi_rank_bucket_allreduce", "each bucket is summed by itself"},
};

constexpr const char* kCopied = "host memory is pinned where it can be, and copied ahead of its use";
const DeepSpeedNotes kOffloadDetails = {{"pin_memory", kCopied},
                                        {"buffer_count", kCopied},
                                        {"buffer_size", kCopied},
                                        {"max_in_cpu", kCopied},
                                        {"fast_init", kCopied},
                                        {"pipeline", kCopied},
                                        {"pipeline_read", kCopied},
                                        {"pipeline_write", kCopied},
                                        {"nvme_path", "nothing is kept on disks while training"},
                                        {"cpuadam_cores_perc", "train.threads says how many cores are used"}};

// Whether the state is to live in host memory.
bool is_on_host(DeepSpeedKeys& zero, const char* key) {
  auto offload = zero.object(key);
  if (!offload) return false;
  const std::string device = offload->word("device").value_or("none");
  if (device != "none" && device != "cpu")
    offload->refuse("device", "must be none or cpu: nothing is kept on disks while training");
  offload->refuse_used({{"super_offload", "masters and moments go to the device and back, a group at a time"}});
  if (device == "cpu") offload->note_all(kOffloadDetails);
  if (const auto ratio = offload->number("ratio"); ratio && *ratio != 1)
    offload->refuse("ratio", "all of it goes to the host, or nothing");
  if (device == "cpu") offload->refuse_unread();
  return device == "cpu";
}

void read_buckets(DeepSpeedKeys& zero, int64_t stage, bool narrow) {
  constexpr int64_t kMegabyte = 1 << 20;
  if (const auto elements = zero.whole("reduce_bucket_size", 1)) {
    if (stage == 3)
      zero.note("reduce_bucket_size", "with stage 3 gradients are summed a block at a time");
    else
      zero.set("reduce_bucket_size", "parallel.bucket",
               format("{}", std::max<int64_t>(1, (*elements * (narrow ? 2 : 4) + kMegabyte / 2) / kMegabyte)),
               format("{} gradients of {} bytes", *elements, narrow ? 2 : 4));
  }
  if (const auto ahead = zero.whole("stage3_prefetch_bucket_size", 0)) {
    if (*ahead == 0 && stage == 3)
      zero.set("stage3_prefetch_bucket_size", "parallel.prefetch", "0");
    else
      zero.note("stage3_prefetch_bucket_size", "parallel.prefetch counts blocks; one is fetched ahead");
  }
}

void read_zero_plus_plus(DeepSpeedKeys& zero, int64_t stage) {
  std::string words, keys;
  const auto add = [&](const char* key, const char* word) {
    if (stage != 3) return zero.refuse(key, format("needs stage 3, and stage is {}", stage));
    words += (words.empty() ? "" : ",") + std::string(word), keys += (keys.empty() ? "" : ", ") + std::string(key);
  };
  if (zero.flag("zero_quantized_weights").value_or(false)) add("zero_quantized_weights", "weights");
  if (const auto size = zero.whole("zero_hpz_partition_size", 1); size && *size > 1) {
    add("zero_hpz_partition_size", "secondary");
    zero.set("zero_hpz_partition_size", "parallel.node_size", format("{}", *size));
  }
  if (zero.flag("zero_quantized_gradients").value_or(false)) add("zero_quantized_gradients", "grads");
  if (!words.empty()) zero.set(keys, "parallel.zeropp", words);
}

}  // namespace

void read_deepspeed_zero(DeepSpeedKeys& zero, bool narrow) {
  const int64_t stage = zero.whole("stage", 0).value_or(0);
  if (stage > 3)
    zero.refuse("stage", format("{} is not 0, 1, 2 or 3", stage));
  else
    zero.set("stage", "parallel.zero", format("{}", stage));
  if (is_on_host(zero, "offload_optimizer")) zero.set("offload_optimizer", "memory.offload_optimizer", "true");
  if (is_on_host(zero, "offload_param"))
    zero.refuse("offload_param",
                "weights in host memory are not here yet: with stage 3 they are cut among the processes, and "
                "offload_optimizer and activation_checkpointing make room");
  if (zero.flag("cpu_offload").value_or(false)) zero.set("cpu_offload", "memory.offload_optimizer", "true");
  read_buckets(zero, stage, narrow);
  read_zero_plus_plus(zero, stage);
  zero.note_all(kZeroWithoutCounterpart);
  zero.refuse_used({
      {"cpu_offload_params", "weights in host memory are not here yet"},
      {"cpu_offload_use_pin_memory", "use offload_optimizer with pin_memory"},
      {"zero_quantized_nontrainable_weights", "use model.quantize = \"nf4\" for frozen weights"},
      {"zeropp_loco_param", "gradients in 8 bits carry no error over to the next step"},
      {"override_module_apply", "models are made without memory and filled piece by piece"},
  });
  if (const auto size = zero.number("mics_shard_size"); size && *size > 0)
    zero.refuse("mics_shard_size", format("write parallel.layout = \"dp=COPIESx{}\" in the recipe", *size));
  zero.note_all({{"mics_hierarchical_params_gather", "weights are gathered by one collective"}});
  zero.refuse_unread();
}

}  // namespace hyperion::interop
