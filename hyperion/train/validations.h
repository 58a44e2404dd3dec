// What the validations of a run have told so far: where the loss was lowest, and for how long it has not fallen.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace hyperion::train {

struct Validations {
  struct Found {
    int64_t step = 0;
    double loss = 0;
  };
  std::optional<Found> best;  // the lowest of those whose checkpoint is kept; none: none is
  std::optional<Found> mark;  // the last one that was lower by more than train.min_delta; the first is
  int64_t waited = 0;         // validations since `mark`
  int64_t last = 0;           // the step of the last one; 0: there was none

  // `kept`: where it is the lowest, its checkpoint stays.
  void add(const Found& now, double min_delta, bool kept);
  bool best_is(int64_t step) const { return best && best->step == step; }
  bool over(int64_t patience) const { return patience > 0 && waited >= patience; }
  // "3 validations in a row were not below 0.4123 of step 240"
  std::string waited_text(double min_delta) const;
};

}  // namespace hyperion::train
