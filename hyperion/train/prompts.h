// What a model in training makes of the prompts of eval.prompts: seen at each validation.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/interop/text.h"
#include "hyperion/report/metrics.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

class Prompts {
 public:
  // Tokens are those of the run's set. Throws ConfigError for a prompt that is empty, or leaves no room for an answer.
  Prompts(base::FileSystem& files, const RunConfig& config, const data::Split& split,
          const strategy::ModelShape& shape);

  bool empty() const { return tokens_.empty(); }
  // `stoppable`: a stop request ends it, by Interrupted.
  std::vector<report::Continuation> ask(models::Model& model, at::Device device, bool stoppable) const;

 private:
  const EvalConfig& config_;
  std::optional<interop::Text> text_;
  std::vector<models::Tokens> tokens_;
};

// One of them as a line for people.
std::string continuation_line(const report::Continuation& sample);

}  // namespace hyperion::train
