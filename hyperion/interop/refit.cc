#include "hyperion/interop/refit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/random.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/meta.h"
#include "hyperion/nn/projection.h"

namespace hyperion::interop {
namespace {

using base::format;

constexpr float kNoise =
    1e-3f;  // of a new row, in deviations of the table: tokens that are never told apart stay equal

// Mean and deviation of the columns of a table over some rows, in fp64 and row by row: the same whatever its type and
// memory.
struct Columns {
  std::vector<double> mean, deviation;
};

Columns columns_of(const std::vector<int64_t>& rows, int64_t width,
                   const std::function<void(int64_t row, const at::Tensor& out)>& read) {
  Columns columns{std::vector<double>(width), std::vector<double>(width)};
  const at::Tensor row = at::empty({width}, at::kFloat);
  for (const int64_t i : rows) {
    read(i, row);
    const float* values = row.const_data_ptr<float>();
    for (int64_t j = 0; j < width; ++j) {
      columns.mean[j] += values[j];
      columns.deviation[j] += static_cast<double>(values[j]) * values[j];
    }
  }
  const auto count = static_cast<double>(std::max<size_t>(rows.size(), 1));
  for (int64_t j = 0; j < width; ++j) {
    columns.mean[j] /= count;
    const double square = columns.deviation[j] / count - columns.mean[j] * columns.mean[j];
    columns.deviation[j] = std::sqrt(std::max(square, 0.0));
  }
  return columns;
}

// Elements [begin, begin + out.numel()) of the new rows, as if these lay together.
void write_new_rows(const Columns& columns, const std::string& name, uint64_t seed, int64_t begin,
                    const at::Tensor& out) {
  const auto width = static_cast<int64_t>(columns.mean.size());
  const auto key = base::stream_key(seed, "grow/" + name);
  float* values = out.mutable_data_ptr<float>();
  base::fill_normal(key, static_cast<uint64_t>(begin), static_cast<uint64_t>(out.numel()), kNoise, values);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const auto column = static_cast<size_t>((begin + i) % width);
    values[i] = static_cast<float>(columns.mean[column] + columns.deviation[column] * values[i]);
  }
}

enum class Part { same, some_rows, fresh };

std::unique_ptr<models::Model> outline_of(const std::string& config) {
  const nn::MetaScope only_names;
  return models::make_model(config, "the model");
}

// The parameters that have a row for each token id: those that one id more would change.
std::set<std::string> tables_of_tokens(models::Model& model, const std::string& config) {
  base::Json larger = base::parse_json(config, "the model");
  if (model.input() != models::Input::tokens || !larger.contains("vocab_size")) return {};
  larger["vocab_size"] = larger["vocab_size"].get<int64_t>() + 1;
  std::map<std::string, at::Tensor> others;
  const auto outline = outline_of(larger.dump());
  for (const auto& parameter : outline->parameters()) others[parameter.name] = parameter.tensor;
  std::set<std::string> tables;
  for (const auto& parameter : model.parameters())
    if (others.at(parameter.name).sizes() != parameter.tensor.sizes()) tables.insert(parameter.name);
  return tables;
}

// What each parameter of the new model is of the old one's.
class Plan {
 public:
  Plan(models::Model& before, models::Model& after, const Fit& fit, const std::set<std::string>& missing)
      : new_tokens_(fit.new_tokens) {
    if (!new_tokens_.empty()) tables_ = tables_of_tokens(after, fit.config);
    for (const auto& parameter : before.parameters()) old_[parameter.name] = parameter.tensor;
    for (const auto& parameter : after.parameters()) judge(parameter, after.input(), missing);
    const auto buffers = before.buffers();
    for (const auto& buffer : after.buffers())
      if (std::none_of(buffers.begin(), buffers.end(), [&](const auto& one) {
            return one.name == buffer.name && one.tensor.sizes() == buffer.tensor.sizes();
          }))
        refuse(buffer.name, "is of another shape");
  }

  Part part(const std::string& name) const { return parts_.at(name); }
  const at::Tensor& old(const std::string& name) const { return old_.at(name); }
  const Refitted& outcome() const { return outcome_; }

  // What the mean is taken of.
  std::vector<int64_t> kept_rows(const std::string& name) const {
    std::vector<int64_t> kept;
    const auto& rows = outcome_.new_rows;
    for (int64_t row = 0; row < old(name).size(0); ++row)
      if (!std::binary_search(rows.begin(), rows.end(), row)) kept.push_back(row);
    return kept;
  }

 private:
  void judge(const models::Parameter& parameter, models::Input input, const std::set<std::string>& missing) {
    const std::string& name = parameter.name;
    const auto found = old_.find(name);
    if (found == old_.end()) refuse(name, "is not there");
    const auto &is = parameter.tensor.sizes(), &was = found->second.sizes();
    const bool rows_only = is.size() == was.size() && is.slice(1) == was.slice(1);
    Part& part = parts_[name];
    auto rows = rows_from(was.empty() ? 0 : was[0], is.empty() ? 0 : is[0]);
    if (tables_.contains(name))
      rows.insert(rows.begin(), new_tokens_.begin(), std::lower_bound(new_tokens_.begin(), new_tokens_.end(), was[0]));
    if (is == was && rows.empty() && !missing.contains(name)) {
      part = Part::same;
    } else if (!rows_only) {
      refuse(name, format("is {}, and {} is asked for", shape_text(was), shape_text(is)));
    } else if (input == models::Input::images) {
      part = Part::fresh;
      const std::string module = name.substr(0, name.find('.'));
      if (std::find(outcome_.new_modules.begin(), outcome_.new_modules.end(), module) == outcome_.new_modules.end())
        outcome_.new_modules.push_back(module);
    } else if (!rows.empty() && is[0] >= was[0]) {
      part = Part::some_rows;
      outcome_.tables.push_back(name.substr(0, name.rfind('.')));
      outcome_.new_rows = std::move(rows);
    } else {
      refuse(name, format("has {} rows, and {} are asked for", was[0], is[0]));
    }
  }
  static std::vector<int64_t> rows_from(int64_t begin, int64_t end) {
    std::vector<int64_t> rows(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
    std::iota(rows.begin(), rows.end(), begin);
    return rows;
  }
  [[noreturn]] static void refuse(const std::string& name, const std::string& what) {
    throw base::ConfigError(format("the weights to start from do not fit the model: {} {}", name, what),
                            "only classes of images and token ids may be others than those of model.from");
  }

  std::vector<int64_t> new_tokens_;
  std::set<std::string> tables_;
  std::map<std::string, at::Tensor> old_;
  std::map<std::string, Part> parts_;
  Refitted outcome_;
};

void copy_buffers(models::Model& from, models::Model& to) {
  const auto buffers = from.buffers();
  for (auto& [name, tensor] : to.buffers())
    for (const auto& old : buffers)
      if (old.name == name) tensor.copy_(old.tensor);
}

// Layers in 4 bits have no parameter to be judged by, and stay as they are.
void keep_packed(models::Model& from, models::Model& to) {
  if (from.tree() == nullptr || to.tree() == nullptr) return;
  std::map<std::string, const nn::Projection*> packed;
  from.tree()->visit([&](const std::string& path, nn::Module& module) {
    const auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection != nullptr && !projection->packed().empty()) packed[path] = projection;
  });
  to.tree()->visit([&](const std::string& path, nn::Module& module) {
    auto* projection = dynamic_cast<nn::Projection*>(&module);
    if (projection != nullptr && packed.contains(path)) projection->quantize_as(*packed.at(path));
  });
}

at::Tensor with_new_rows(const Plan& plan, const std::string& name, int64_t rows, uint64_t seed) {
  const at::Tensor& old = plan.old(name);
  const auto& added = plan.outcome().new_rows;
  const auto columns = columns_of(plan.kept_rows(name), old.size(1),
                                  [&](int64_t row, const at::Tensor& out) { out.copy_(old.select(0, row)); });
  const auto values = at::empty({static_cast<int64_t>(added.size()), old.size(1)}, at::kFloat);
  write_new_rows(columns, name, seed, 0, values);
  const auto table = at::empty({rows, old.size(1)}, old.options().requires_grad(false));
  table.narrow(0, 0, old.size(0)).copy_(old);
  return table.index_copy_(0, at::tensor(added, at::kLong).to(old.device()), values.to(table.options()));
}

// Calls `write` for what of the new rows lies in the elements [begin, begin + out.numel()) of a table, with the place
// in them as if they lay together.
void each_new_stretch(const std::vector<int64_t>& added, int64_t width, int64_t begin, const at::Tensor& out,
                      const std::function<void(int64_t place, const at::Tensor& part)>& write) {
  const int64_t end = begin + out.numel();
  auto row = std::lower_bound(added.begin(), added.end(), begin / width);
  for (; row != added.end() && *row * width < end; ++row) {
    const int64_t from = std::max(*row * width, begin), to = std::min((*row + 1) * width, end);
    write((row - added.begin() - *row) * width + from, out.narrow(0, from - begin, to - from));
  }
}

}  // namespace

Refitted refit(std::unique_ptr<models::Model>& model, const Fit& fit, const std::set<std::string>& missing) {
  const at::NoGradGuard no_grad;
  auto after = outline_of(fit.config);
  keep_packed(*model, *after);
  const Plan plan(*model, *after, fit, missing);
  const auto fresh = after->initial_values(fit.seed);
  for (const auto& parameter : after->parameters()) {
    const auto& [name, tensor] = std::tie(parameter.name, parameter.tensor);
    const at::Tensor& old = plan.old(name);
    at::Tensor value = old.detach();
    if (plan.part(name) == Part::some_rows) {
      value = with_new_rows(plan, name, tensor.size(0), fit.seed);
    } else if (plan.part(name) == Part::fresh) {
      const auto whole = at::empty(tensor.sizes(), at::kFloat);
      fresh(name, 0, whole.view(-1));
      value = whole.to(old.options());
    }
    tensor.set_data(value);
  }
  copy_buffers(*model, *after);
  model = std::move(after);
  return plan.outcome();
}

Refitted refit(ModelOutline& outline, const Fit& fit) {
  std::shared_ptr<models::Model> before = std::move(outline.model);
  outline.model = outline_of(fit.config);
  const auto plan = std::make_shared<Plan>(*before, *outline.model, fit, outline.missing);
  const at::NoGradGuard no_grad;
  copy_buffers(*before, *outline.model);
  const auto columns = std::make_shared<std::map<std::string, Columns>>();
  outline.values = [plan, columns, seed = fit.seed, old_values = std::move(outline.values),
                    fresh = outline.model->initial_values(fit.seed)](const std::string& name, int64_t begin,
                                                                     const at::Tensor& out) {
    if (plan->part(name) == Part::fresh) return fresh(name, begin, out);
    const auto& old = plan->old(name);
    const int64_t kept = std::clamp<int64_t>(old.numel() - begin, 0, out.numel());
    if (kept > 0) old_values(name, begin, out.narrow(0, 0, kept));
    if (plan->part(name) == Part::same) return;
    const int64_t width = old.size(1);
    each_new_stretch(plan->outcome().new_rows, width, begin, out, [&](int64_t place, const at::Tensor& part) {
      if (!columns->contains(name))
        (*columns)[name] = columns_of(plan->kept_rows(name), width, [&](int64_t row, const at::Tensor& into) {
          old_values(name, row * width, into);
        });
      write_new_rows(columns->at(name), name, seed, place, part);
    });
  };
  return plan->outcome();
}

}  // namespace hyperion::interop
