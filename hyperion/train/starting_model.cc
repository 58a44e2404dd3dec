#include "hyperion/train/starting_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/interop/peft.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/nn/projection.h"

namespace hyperion::train {
namespace {

using base::format;

// Puts the weights of a model that was made without memory into 4 bits: only one of them at a time is ever whole.
void pack_one_by_one(models::Model& model, at::ScalarType type, const models::Values& values) {
  if (model.tree() == nullptr) return;
  const at::NoGradGuard no_grad;
  model.tree()->visit([&](const std::string& path, nn::Module& module) {
    auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection == nullptr || nn::is_output(path) || nn::is_materialized(projection->weight())) return;
    const auto whole = at::empty(projection->weight().sizes(), at::kFloat);
    values(path + ".weight", 0, whole.view(-1));
    at::Tensor(projection->weight()).set_data(whole.to(type));
    projection->quantize();
  });
}

interop::Fit fit_of_base(const Beginning& beginning) {
  return {beginning.model_config, static_cast<uint64_t>(beginning.config.train.seed),
          beginning.past == nullptr ? interop::Head::may_be_missing : interop::Head::brought, beginning.new_tokens};
}

StartingModel make_whole(base::FileSystem& files, const Beginning& beginning) {
  const RunConfig& config = beginning.config;
  if (!config.model.from.empty() && beginning.past == nullptr) {
    const auto fit = fit_of_base(beginning);
    return {interop::open_base(files, config.model.from, at::kCPU, at::kFloat, &fit).model, {}};
  }
  auto model = models::make_model(beginning.model_config, "the model");
  model->initialise(config.train.seed);
  return {std::move(model), {}};
}

// Names and shapes alone: each process gives memory to its own piece, which is all it has room for.
StartingModel make_outline(base::FileSystem& files, const Beginning& beginning) {
  const RunConfig& config = beginning.config;
  if (!config.model.from.empty() && beginning.past == nullptr) {
    auto outline = interop::outline_model(files, config.model.from, interop::Head::may_be_missing);
    if (!outline.model) return make_whole(files, beginning);
    interop::refit(outline, fit_of_base(beginning));
    return {std::move(outline.model), std::move(outline.values)};
  }
  const nn::MetaScope only_names;
  auto model = models::make_model(beginning.model_config, "the model");
  model->initialise(config.train.seed);  // of a module of one's own, whatever has memory all the same
  auto values = model->initial_values(config.train.seed);
  return {std::move(model), std::move(values)};
}

// Where the tables have no memory, the rows that are trained beside them have no values yet.
void fill_token_rows(const StartingModel& start, const nn::LoraConfig& adapter) {
  if (!start.values) return;
  const at::NoGradGuard no_grad;
  for (const auto& [name, rows] : start.model->adapters().parameters(interop::kRunAdapter)) {
    if (!name.ends_with(nn::kTokenRowsParameter)) continue;
    const std::string module = name.substr(0, name.size() - std::string_view(nn::kTokenRowsParameter).size());
    const auto row = at::empty({rows.size(1)}, at::kFloat);
    for (const auto& [table, tokens] : adapter.token_rows)
      for (size_t i = 0; i < tokens.size() && nn::fits({.names = {table}}, module); ++i) {
        start.values(module + ".weight", tokens[i] * rows.size(1), row);
        rows.select(0, static_cast<int64_t>(i)).copy_(row);
      }
  }
}

// Whether the module is trained whole: it, or one that it lies in, is named.
bool is_saved(const std::string& module, const std::vector<std::string>& saved) {
  for (size_t end = module.find('.'); end != module.npos; end = module.find('.', end + 1))
    if (nn::saves(saved, module.substr(0, end))) return true;
  return nn::saves(saved, module);
}

// What the model was given anew is trained beside the adapter: a head whole, of the tables of tokens their new rows,
// unless the whole table is. A run that goes on trains the rows that it did before.
void add_adapter(const StartingModel& start, const Beginning& beginning, const interop::Refitted& refitted) {
  const RunConfig& config = beginning.config;
  auto adapter = nn::config_of(config.lora);
  for (const auto& module : refitted.new_modules) adapter.saved.push_back(module);
  if (beginning.past != nullptr) {
    const auto before = interop::parse_adapter_config(beginning.past->state.adapter, beginning.past->manifest());
    adapter.token_rows = before.config.token_rows;
  } else {
    for (const auto& module : refitted.tables)
      if (!is_saved(module, adapter.saved))
        adapter.token_rows.emplace_back(module.substr(module.rfind('.') + 1), refitted.new_rows);
  }
  start.model->adapters().add(interop::kRunAdapter, adapter, config.train.seed);
  const auto trained = start.model->adapters().parameters(interop::kRunAdapter);
  if (beginning.past == nullptr &&
      std::any_of(trained.begin(), trained.end(), [](const auto& item) { return nn::is_routed(item.name); }))
    base::log_info(
        "experts and routers get adapters, of which PEFT has none: the run can be exported merged, and not "
        "with --as-adapter; lora.targets = \"q_proj,k_proj,v_proj,o_proj\" leaves them out");
  fill_token_rows(start, adapter);
}

// The frozen model in the type it is used in, with an adapter; also on resume, as checkpoints hold the adapter alone.
StartingModel make_adapted(base::FileSystem& files, const Beginning& beginning) {
  const RunConfig& config = beginning.config;
  StartingModel start;
  std::string from = config.model.from;
  if (beginning.past != nullptr) {
    start.base_digest = beginning.past->state.base_digest;
    const auto recorded = interop::parse_adapter_config(beginning.past->state.adapter, beginning.past->manifest());
    from = interop::find_base(files, beginning.run, from, start.base_digest, beginning.past->checkpoint.path.string(),
                              recorded.base_model);
    if (from != config.model.from)
      base::log_info(format("{} has not the weights any more beside which this run is trained: taken from {}",
                            config.model.from, from));
  }
  if (start.base_digest.empty()) start.base_digest = beginning.base_digest;
  if (start.base_digest.empty()) start.base_digest = interop::weights_digest(files, from);
  const auto type = compute_type(config.train.precision);
  const bool packed = config.model.quantize == models::Quantize::nf4;
  const auto fit = fit_of_base(beginning);
  interop::Refitted refitted;
  if (beginning.outline) {
    auto outline = interop::outline_model(files, from, fit.head);
    if (outline.model) refitted = interop::refit(outline, fit);
    start.model = std::move(outline.model), start.values = std::move(outline.values);
  }
  if (start.model) {
    start.model->to(at::kCPU, type);
    if (packed) pack_one_by_one(*start.model, type, start.values);
  } else {
    auto opened = interop::open_base(files, from, at::kCPU, type, &fit);
    start.model = std::move(opened.model), refitted = std::move(opened.refitted);
  }
  if (packed) start.model->quantize();
  add_adapter(start, beginning, refitted);
  if (beginning.first) interop::keep_base(files, beginning.run, from);
  return start;
}

}  // namespace

StartingModel make_starting_model(base::FileSystem& files, const Beginning& beginning) {
  if (beginning.config.lora.rank > 0) return make_adapted(files, beginning);
  return beginning.outline ? make_outline(files, beginning) : make_whole(files, beginning);
}

}  // namespace hyperion::train
