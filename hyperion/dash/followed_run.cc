#include "hyperion/dash/followed_run.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/report/metrics.h"

namespace hyperion::dash {
namespace {

constexpr size_t kPiece = size_t{256} << 10;
constexpr size_t kMostEvaluations = 4096;

}  // namespace

FollowedRun::Progress FollowedRun::read_on() {
  const auto piece = file_.read_on(kPiece);
  if (piece.anew) forget();
  for (std::string_view rest = piece.lines; !rest.empty();) {
    const size_t end = rest.find('\n') + 1;
    take_line(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  return {piece.anew || !piece.lines.empty(), piece.more};
}

void FollowedRun::take_line(std::string_view line) {
  try {
    auto metrics = report::read_metrics(line);
    for (const auto& record : metrics.steps) take(record);
    for (auto& record : metrics.evaluations) take(std::move(record));
  } catch (const base::Error&) {
    ++damaged_;
  }
}

void FollowedRun::take(const report::StepRecord& record) {
  if (std::isfinite(record.step_ms)) seconds_ += record.step_ms / 1e3;
  if (!first_nonfinite_ && !(std::isfinite(record.loss) && std::isfinite(record.grad_norm)))
    first_nonfinite_ = record.step;
  curves_.add(record.step, seconds_, report::named_values(record));
  newest_.add(record);
}

void FollowedRun::take(report::EvalRecord record) {
  evaluations_.push_back({record.step, seconds_, report::named_values(record)});
  ++evaluations_seen_;
  if (evaluations_.size() > kMostEvaluations) evaluations_.pop_front();
  if (!record.samples.empty()) answers_.push_back(record);
  if (answers_.size() > kKeptAnswers) answers_.pop_front();
  record.samples.clear();
  newest_.add(record);
}

void FollowedRun::forget() {
  curves_.clear();
  evaluations_.clear();
  answers_.clear();
  newest_ = {};
  first_nonfinite_.reset();
  seconds_ = 0, evaluations_seen_ = 0, damaged_ = 0;
}

double FollowedRun::part_read() const {
  if (!file_.was_looked_at()) return 0;
  return file_.size() == 0 ? 1 : static_cast<double>(file_.place()) / static_cast<double>(file_.size());
}

}  // namespace hyperion::dash
