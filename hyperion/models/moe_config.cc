#include "hyperion/models/decoder_fields.h"
#include "hyperion/models/moe.h"

namespace hyperion::models {
namespace {

using base::Json;

constexpr int64_t kMostExperts = 4096;

bool every_second_below(int64_t layer, int64_t bound) { return layer % 2 == 0 && layer < bound; }

void read_routing(const ConfigReader& reader, const char* experts, MoeConfig& config) {
  config.experts = reader.size(experts, kMostExperts);
  config.choices = reader.size("num_experts_per_tok", config.experts);
  config.balance = reader.flag_or("output_router_logits", false);
  config.balance_coefficient = reader.real_or("router_aux_loss_coef", 0.001);
  config.z_coefficient = reader.real_or("router_z_loss_coef", 0);
  config.capacity_factor = reader.real_or("expert_capacity_factor", 0);
  reader.check(config.balance_coefficient >= 0 && config.z_coefficient >= 0 && config.capacity_factor >= 0,
               "router_aux_loss_coef, router_z_loss_coef and expert_capacity_factor must not be below 0");
}

}  // namespace

std::string to_json(const MoeConfig& config) {
  Json json = decoder_json(config.decoder);
  json["num_experts_per_tok"] = config.choices;
  json["output_router_logits"] = config.balance;
  json["router_aux_loss_coef"] = config.balance_coefficient;
  if (config.z_coefficient > 0) json["router_z_loss_coef"] = config.z_coefficient;
  if (config.capacity_factor > 0) json["expert_capacity_factor"] = config.capacity_factor;
  if (config.decoder.model_type == "mixtral") {
    json["num_local_experts"] = config.experts;
    json["intermediate_size"] = config.expert_inner;
    json["sliding_window"] = window_json(config.decoder);
    return json.dump();
  }
  json["num_experts"] = config.experts;
  json["moe_intermediate_size"] = config.expert_inner;
  json["shared_expert_intermediate_size"] = config.shared_inner;
  json["norm_topk_prob"] = config.normalised;
  json["decoder_sparse_step"] = config.sparse_step;
  json["mlp_only_layers"] = config.dense_layers;
  json["qkv_bias"] = config.decoder.query_key_value_bias;
  json["use_sliding_window"] = false;
  write_layer_windows(config.decoder, json);
  return json.dump();
}

MoeConfig mixtral_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "mixtral");
  reader.expect("router_jitter_noise", {0});
  MoeConfig config;
  config.decoder = read_decoder(reader, {.theta = 1e6, .epsilon = 1e-5});
  config.decoder.model_type = "mixtral";
  read_window(reader, /*absent=*/0, config.decoder);
  config.expert_inner = config.decoder.inner;
  read_routing(reader, "num_local_experts", config);
  return config;
}

MoeConfig qwen2_moe_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "qwen2_moe");
  MoeConfig config;
  config.decoder = read_decoder(reader);
  config.decoder.model_type = "qwen2_moe";
  config.decoder.query_key_value_bias = reader.flag_or("qkv_bias", true);
  read_layer_windows(reader, every_second_below, config.decoder);
  read_routing(reader, "num_experts", config);
  config.expert_inner = reader.size("moe_intermediate_size", kMostWidth);
  config.shared_inner = reader.size("shared_expert_intermediate_size", kMostWidth);
  config.normalised = reader.flag_or("norm_topk_prob", false);
  config.sparse_step = reader.size_or("decoder_sparse_step", 1, kMostLayers);
  config.dense_layers = reader.indices("mlp_only_layers", config.decoder.layers);
  return config;
}

strategy::ModelShape shape_of(const MoeConfig& config, int64_t length) {
  const int64_t width = config.decoder.width, expert = 3 * width * config.expert_inner;
  int64_t beside = config.experts * width;  // the router, and what of a sparse layer every token uses
  if (config.shared_inner > 0) beside += 3 * width * config.shared_inner + width;
  int64_t all = 0, used = 0, kept = 0, of_experts = 0;
  for (int64_t layer = 0; layer < config.decoder.layers; ++layer) {
    const int64_t dense = 3 * width * config.decoder.inner;
    all += config.sparse(layer) ? config.experts * expert + beside : dense;
    of_experts += config.sparse(layer) ? config.experts * expert : 0;
    used += config.sparse(layer) ? config.choices * expert + beside : dense;
    // An expert keeps its row, its answer, and four tensors of the gated part.
    kept += config.sparse(layer)
                ? config.choices * (2 * width + 4 * config.expert_inner) + 4 * config.shared_inner + config.experts
                : 4 * config.decoder.inner;
  }
  auto shape = decoder_shape(config.decoder, {all, used, kept}, length);
  shape.of_experts = of_experts;
  return shape;
}

}  // namespace hyperion::models
