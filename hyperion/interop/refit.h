// A model's weights in one of other classes or tokens: what fits is kept as it is, a head for other classes is made
// anew, and so are the rows of new tokens in tables that grow, or have room for them.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hyperion/interop/hugging_face.h"
#include "hyperion/models/model.h"

namespace hyperion::interop {

// What a base is to become.
struct Fit {
  std::string config;  // as Hugging Face's config.json
  uint64_t seed = 0;   // of what is new
  Head head = Head::brought;
  std::vector<int64_t> new_tokens = {};  // ascending ids; those the base has rows for get other ones
};

struct Refitted {
  std::vector<std::string> new_modules = {};  // whose parameters all begin anew: "classifier"
  std::vector<std::string> tables = {};       // modules whose tables were given rows: "model.embed_tokens"
  std::vector<int64_t> new_rows = {};         // of those tables, ascending
};

// Replaces the model by one of `fit.config`, where that is another in its classes or token ids. `missing`: parameters
// that have no values. New rows are the mean of the others and a little noise; a head begins as in a new model.
// Throws ConfigError where anything else differs.
Refitted refit(std::unique_ptr<models::Model>& model, const Fit& fit, const std::set<std::string>& missing = {});

// The same of a model without memory: its values are then those of the new one.
Refitted refit(ModelOutline& outline, const Fit& fit);

}  // namespace hyperion::interop
