#include "hyperion/interop/refit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/random.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/projection.h"
#include "hyperion/nn/without_memory.h"

namespace hyperion::interop {
namespace {

using base::format;

constexpr float kNoise =
    1e-3f;  // of a new row, in deviations of the table: tokens that are never told apart stay equal

// Mean and deviation of the columns of a table, in fp64 and row by row: the same whatever its type and memory.
struct Columns {
  std::vector<double> mean, deviation;
};

Columns columns_of(int64_t rows, int64_t width, const std::function<void(int64_t row, const at::Tensor& out)>& read) {
  Columns columns{std::vector<double>(width), std::vector<double>(width)};
  const at::Tensor row = at::empty({width}, at::kFloat);
  for (int64_t i = 0; i < rows; ++i) {
    read(i, row);
    const float* values = row.const_data_ptr<float>();
    for (int64_t j = 0; j < width; ++j) {
      columns.mean[j] += values[j];
      columns.deviation[j] += static_cast<double>(values[j]) * values[j];
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    columns.mean[j] /= static_cast<double>(rows);
    const double square = columns.deviation[j] / static_cast<double>(rows) - columns.mean[j] * columns.mean[j];
    columns.deviation[j] = std::sqrt(std::max(square, 0.0));
  }
  return columns;
}

// Elements [begin, begin + out.numel()) of the rows that come after the old ones.
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

enum class Part { same, grown, fresh };

// What each parameter of the new model is of the old one's.
class Plan {
 public:
  Plan(models::Model& before, models::Model& after, const std::set<std::string>& missing) {
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

 private:
  void judge(const models::Parameter& parameter, models::Input input, const std::set<std::string>& missing) {
    const std::string& name = parameter.name;
    const auto found = old_.find(name);
    if (found == old_.end()) refuse(name, "is not there");
    const auto &is = parameter.tensor.sizes(), &was = found->second.sizes();
    const bool rows_only = is.size() == was.size() && is.slice(1) == was.slice(1);
    Part& part = parts_[name];
    if (is == was && !missing.contains(name)) {
      part = Part::same;
    } else if (!rows_only) {
      refuse(name, format("is {}, and {} is asked for", shape_text(was), shape_text(is)));
    } else if (input == models::Input::images) {
      part = Part::fresh;
      const std::string module = name.substr(0, name.find('.'));
      if (std::find(outcome_.new_modules.begin(), outcome_.new_modules.end(), module) == outcome_.new_modules.end())
        outcome_.new_modules.push_back(module);
    } else if (is[0] > was[0]) {
      part = Part::grown;
      outcome_.grown.push_back(name.substr(0, name.rfind('.')));
      outcome_.first_new = was[0], outcome_.rows = is[0];
    } else {
      refuse(name, format("has {} rows, and {} are asked for", was[0], is[0]));
    }
  }
  [[noreturn]] static void refuse(const std::string& name, const std::string& what) {
    throw base::ConfigError(format("the weights to start from do not fit the model: {} {}", name, what),
                            "only classes of images and token ids may be others than those of model.from");
  }

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

std::unique_ptr<models::Model> outline_of(const std::string& config) {
  const nn::WithoutMemory only_names;
  return models::make_model(config, "the model");
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
    if (projection != nullptr && packed.contains(path)) projection->quantise_as(*packed.at(path));
  });
}

at::Tensor new_rows(const at::Tensor& old, int64_t count, const std::string& name, uint64_t seed) {
  const auto columns =
      columns_of(old.size(0), old.size(1), [&](int64_t row, const at::Tensor& out) { out.copy_(old.select(0, row)); });
  const auto rows = at::empty({count, old.size(1)}, at::kFloat);
  write_new_rows(columns, name, seed, 0, rows);
  return rows.to(old.options());
}

}  // namespace

Refitted refit(std::unique_ptr<models::Model>& model, const Fit& fit, const std::set<std::string>& missing) {
  const at::NoGradGuard no_grad;
  auto after = outline_of(fit.config);
  keep_packed(*model, *after);
  const Plan plan(*model, *after, missing);
  const auto fresh = after->initial_values(fit.seed);
  for (const auto& parameter : after->parameters()) {
    const auto& [name, tensor] = std::tie(parameter.name, parameter.tensor);
    const at::Tensor& old = plan.old(name);
    at::Tensor value = old.detach();
    if (plan.part(name) == Part::grown) {
      value = at::cat({old, new_rows(old, tensor.size(0) - old.size(0), name, fit.seed)});
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
  const auto plan = std::make_shared<Plan>(*before, *outline.model, outline.missing);
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
    if (kept == out.numel()) return;
    const int64_t width = old.size(1);
    if (!columns->contains(name))
      (*columns)[name] = columns_of(old.size(0), width,
                                    [&](int64_t row, const at::Tensor& into) { old_values(name, row * width, into); });
    write_new_rows(columns->at(name), name, seed, begin + kept - old.numel(), out.narrow(0, kept, out.numel() - kept));
  };
  return plan->outcome();
}

}  // namespace hyperion::interop
