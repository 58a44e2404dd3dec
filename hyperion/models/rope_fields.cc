#include <cmath>
#include <string>

#include "hyperion/models/decoder_fields.h"

namespace hyperion::models {
namespace {

using base::Json;
using nn::RopeScaling;

void read_llama3(const ConfigReader& reader, nn::RopeConfig& rope) {
  rope.scaling = RopeScaling::llama3;
  rope.low_frequency_factor = reader.real("low_freq_factor");
  rope.high_frequency_factor = reader.real("high_freq_factor");
  reader.check(rope.low_frequency_factor > 0 && rope.high_frequency_factor > rope.low_frequency_factor,
               "high_freq_factor must be above low_freq_factor, and both above 0");
}

double yarn_scale(const ConfigReader& reader, double factor) {
  const auto of = [&](double weight) { return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0; };
  const double some = reader.real_or("mscale", 0), all = reader.real_or("mscale_all_dim", 0);
  return reader.real_or("attention_factor", some != 0 && all != 0 ? of(some) / of(all) : of(1));
}

// transformers takes a 0 in beta_fast and beta_slow for none.
void read_yarn(const ConfigReader& reader, nn::RopeConfig& rope) {
  rope.scaling = RopeScaling::yarn;
  const double fast = reader.real_or("beta_fast", 0), slow = reader.real_or("beta_slow", 0);
  if (fast != 0) rope.fast_turns = fast;
  if (slow != 0) rope.slow_turns = slow;
  rope.whole_pairs = reader.flag_or("truncate", true);
  rope.table_scale = yarn_scale(reader, rope.factor);
  reader.check(rope.slow_turns > 0 && rope.fast_turns >= rope.slow_turns,
               "beta_fast must not be below beta_slow, and both must be above 0");
  reader.check(std::isfinite(rope.table_scale) && rope.table_scale > 0,
               "attention_factor, or what mscale and mscale_all_dim make of it, must be above 0");
  reader.check(rope.theta > 1, "rope_theta must be above 1");
}

// The context before it was stretched: one that stands beside the object goes before the object's own.
int64_t original_context(const ConfigReader& reader, const ConfigReader& inner, int64_t context) {
  const char* key = "original_max_position_embeddings";
  return reader.size_or(key, inner.size_or(key, context, kMostContext), kMostContext);
}

void read_scaling(const ConfigReader& reader, const ConfigReader& inner, const LlamaConfig& config,
                  nn::RopeConfig& rope) {
  for (const char* key : {"full_attention", "sliding_attention"}) inner.expect(key, {});  // an object a kind of layer
  const char* kind = inner.text_or("rope_type", "").empty() ? "type" : "rope_type";
  inner.expect(kind, {"default", "linear", "llama3", "yarn", "dynamic"});
  const std::string type = inner.text_or(kind, "default");
  if (type == "default") return;
  rope.original_context = type == "dynamic" ? config.context : original_context(reader, inner, config.context);
  const bool implied = type == "yarn" && inner.has("factor");
  const double ratio = static_cast<double>(config.context) / static_cast<double>(rope.original_context);
  rope.factor = implied ? inner.real_or("factor", ratio) : inner.real("factor");
  inner.check(rope.factor > 0, "factor must be above 0");
  if (type == "linear") rope.scaling = RopeScaling::linear;
  if (type == "llama3") read_llama3(inner, rope);
  if (type == "yarn") read_yarn(inner, rope);
  if (type == "dynamic") {
    rope.scaling = RopeScaling::dynamic;
    inner.check(config.head_width > 2, "dynamic scaling needs heads wider than 2");
  }
}

const char* type_text(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::linear:
      return "linear";
    case RopeScaling::llama3:
      return "llama3";
    case RopeScaling::yarn:
      return "yarn";
    case RopeScaling::dynamic:
      return "dynamic";
    default:
      return "default";
  }
}

}  // namespace

// Newer files have one object, rope_parameters; older ones rope_theta beside rope_scaling.
nn::RopeConfig read_rope(const ConfigReader& reader, const LlamaConfig& config, double theta) {
  nn::RopeConfig rope;
  rope.theta = reader.real_or("rope_theta", theta);
  reader.expect("partial_rotary_factor", {1});
  const char* key = reader.object("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  if (reader.object(key) != nullptr) {
    const ConfigReader inner = reader.inside(key);
    rope.theta = inner.real_or("rope_theta", rope.theta);
    inner.expect("partial_rotary_factor", {1});
    read_scaling(reader, inner, config, rope);
  }
  reader.check(rope.theta > 0, "rope_theta must be above 0");
  return rope;
}

Json rope_json(const nn::RopeConfig& rope) {
  if (rope.scaling == RopeScaling::none) return nullptr;
  Json json = {{"rope_type", type_text(rope.scaling)}, {"factor", rope.factor}};
  if (rope.scaling == RopeScaling::llama3) {
    json["low_freq_factor"] = rope.low_frequency_factor;
    json["high_freq_factor"] = rope.high_frequency_factor;
  }
  if (rope.scaling == RopeScaling::yarn) {
    json["beta_fast"] = rope.fast_turns;
    json["beta_slow"] = rope.slow_turns;
    json["truncate"] = rope.whole_pairs;
    json["attention_factor"] = rope.table_scale;
  }
  if (rope.scaling == RopeScaling::llama3 || rope.scaling == RopeScaling::yarn)
    json["original_max_position_embeddings"] = rope.original_context;
  return json;
}

}  // namespace hyperion::models
