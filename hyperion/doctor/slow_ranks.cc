#include "hyperion/doctor/slow_ranks.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "hyperion/base/format.h"

// Medians over the last steps, so that single slow ones do not count; stops are rare and long, and count by their sum.
// A difference counts where it is more than a few times what the steps of these ranks differ among themselves.
namespace hyperion::doctor {
namespace {

constexpr double kTimesNoise = 5, kStoppedPercent = 2;
constexpr int64_t kSureOfTwo = 20, kSoon = 3, kLongestPause = 1000;  // steps
constexpr double kMuch = 10;                                         // percent of a step
constexpr int kConfirmed = 5;                                        // steps in a row that find it
constexpr auto kAll = static_cast<size_t>(-1);
constexpr double kLeastSeconds = 1e-3;  // a step of which less is lost is not worth a word

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

// Of the median of these values, as a part of what they scatter.
double noise_of_median(const std::vector<double>& values) {
  const double at = median(values);
  std::vector<double> off;
  for (const double value : values) off.push_back(std::abs(value - at));
  return 1.86 * median(std::move(off)) / std::sqrt(static_cast<double>(values.size()));  // 1.48 * 1.25
}

}  // namespace

double StepDigest::own() const { return std::max(0.0, step - input - waited - stopped); }

const char* cause_word(SlowCause cause) {
  static constexpr const char* kWords[] = {"compute", "input", "stopped", "links"};
  return kWords[static_cast<size_t>(cause)];
}

std::string slow_text(const SlowRank& slow) {
  const auto who = slow.rank < 0 ? std::string("every rank") : base::format("rank {}", slow.rank);
  switch (slow.cause) {
    case SlowCause::compute:
      return base::format("{} computes longer than its like by {:.1f}% of a step, for which they wait", who,
                          slow.percent);
    case SlowCause::input:
      return base::format("{} waits for its input, {:.1f}% of a step: more data.workers, a faster disk, or prepare it",
                          who, slow.percent);
    case SlowCause::stopped:
      return base::format("{} did not run for {:.1f}% of its time: stopped, swapped out, or without a core", who,
                          slow.percent);
    case SlowCause::links:
      break;
  }
  return base::format("what travels takes {:.1f}% of a step longer than before{}{}", slow.percent,
                      slow.beside.empty() ? "; no link is slower than the others" : ": ", slow.beside);
}

std::string held_up_text(const SlowRank& slow) {
  return slow.rank < 0 ? base::format("{} of all ranks", cause_word(slow.cause))
                       : base::format("{} of rank {}", cause_word(slow.cause), slow.rank);
}

// The values of each rank in the window, and what a step takes.
struct SlowRanks::Window {
  Window(const std::deque<std::vector<StepDigest>>& steps, const std::function<double(const StepDigest&)>& value) {
    values.resize(steps.front().size());
    for (const auto& step : steps)
      for (size_t rank = 0; rank < step.size(); ++rank) values[rank].push_back(value(step[rank]));
  }
  std::vector<double> medians() const {
    std::vector<double> all;
    for (const auto& list : values) all.push_back(median(list));
    return all;
  }
  std::vector<std::vector<double>> values;
};

SlowRanks::SlowRanks(std::vector<int> kinds) : kinds_(std::move(kinds)) {}

// Beyond the median of the other ranks of its kind.
double SlowRanks::excess(const std::vector<double>& by_rank, size_t rank, double otherwise) const {
  std::vector<double> others;
  for (size_t other = 0; other < by_rank.size(); ++other)
    if (other != rank && kinds_[other] == kinds_[rank]) others.push_back(by_rank[other]);
  return others.empty() ? otherwise : by_rank[rank] - median(std::move(others));
}

// In all steps but one: a difference that comes and goes is none of the rank's.
bool SlowRanks::steadily_longer(const Window& own, size_t rank) const {
  size_t longer = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    std::vector<double> step;
    for (const auto& values : own.values) step.push_back(values[i]);
    longer += excess(step, rank, 0) > 0;
  }
  return longer + 1 >= steps_.size();
}

void SlowRanks::find(std::vector<SlowRank>& found) const {
  const Window all(steps_, [](const StepDigest& step) { return step.step; });
  const Window own(steps_, [](const StepDigest& step) { return step.own(); });
  const double step = median(all.medians());
  if (step <= 0) return;
  const auto percent = [&](double seconds) { return 100 * seconds / step; };
  const auto told = [&](size_t rank, SlowCause cause) {
    return std::any_of(now_.begin(), now_.end(), [&](const SlowRank& slow) {
      return slow.rank == static_cast<int>(rank) && slow.cause == cause;
    });
  };
  const auto least = [&](size_t rank, SlowCause cause) {
    return told(rank, cause) ? kLeastPercent / 2 : kLeastPercent;
  };

  const auto medians = own.medians();
  for (size_t rank = 0; rank < medians.size(); ++rank) {
    const double more = excess(medians, rank, 0);
    if (more < kLeastSeconds || percent(more) < least(rank, SlowCause::compute)) continue;
    double noise = 0;
    for (size_t other = 0; other < medians.size(); ++other)
      if (kinds_[other] == kinds_[rank] && other != rank) noise = std::max(noise, noise_of_median(own.values[other]));
    if (more > kTimesNoise * std::hypot(noise, noise_of_median(own.values[rank])) && steadily_longer(own, rank))
      found.push_back({static_cast<int>(rank), SlowCause::compute, percent(more)});
  }

  std::vector<double> inputs, stopped;
  for (size_t rank = 0; rank < medians.size(); ++rank) {
    double input = 0, stop = 0, whole = 0;
    for (const auto& one : steps_) input += one[rank].input, stop += one[rank].stopped, whole += one[rank].step;
    inputs.push_back(input / static_cast<double>(steps_.size()));
    stopped.push_back(whole > 0 ? 100 * stop / whole : 0);
  }
  const auto late = [&](double seconds, size_t rank) {
    return seconds >= kLeastSeconds && percent(seconds) >= least(rank, SlowCause::input);
  };
  auto sorted = inputs;
  std::sort(sorted.begin(), sorted.end());
  const double usual = sorted[(sorted.size() - 1) / 2];  // of two ranks the less
  if (inputs.size() > 1 && late(usual, kAll))
    found.push_back({-1, SlowCause::input, percent(usual)});
  else
    for (size_t rank = 0; rank < inputs.size(); ++rank)
      if (late(inputs[rank] - (inputs.size() > 1 ? std::min(usual, inputs[rank]) : 0), rank))
        found.push_back({static_cast<int>(rank), SlowCause::input, percent(inputs[rank])});
  for (size_t rank = 0; rank < stopped.size(); ++rank)
    if (stopped[rank] >= kStoppedPercent) found.push_back({static_cast<int>(rank), SlowCause::stopped, stopped[rank]});
}

// The rank that waits least waits for what travels alone, as long as no other is late.
void SlowRanks::weigh_links(double step) {
  std::vector<double> least;
  for (const auto& one : steps_) {
    double waited = one.front().waited;
    for (const auto& rank : one) waited = std::min(waited, rank.waited);
    least.push_back(waited);
  }
  const double now = median(least);
  if (least_waited_ < 0 || now < least_waited_) least_waited_ = now;
  const double more = now - least_waited_;
  lost_to_links_ = step > 0 ? 100 * more / step : 0;
  const bool longer = kinds_.size() > 1 && more >= kLeastSeconds && lost_to_links_ >= kLeastPercent &&
                      more > kTimesNoise * noise_of_median(least);
  suspicious_ = longer ? suspicious_ + 1 : 0;
  const bool sure = kinds_.size() > 2 || (suspicious_ >= kSureOfTwo && lost_to_links_ >= kMuch);
  suspects_links_ = longer && sure && seen_ >= look_after_;
}

void SlowRanks::looked_at_links(bool soon_again) {
  suspects_links_ = false;
  look_after_ = seen_ + (soon_again ? kSoon : pause_);
  if (!soon_again) pause_ = std::min<int64_t>(2 * pause_, kLongestPause);
}

std::vector<SlowRank> SlowRanks::add(const std::vector<StepDigest>& step) {
  steps_.push_back(step);
  ++seen_;
  if (steps_.size() < kWindow) return {};
  if (steps_.size() > kWindow) steps_.pop_front();
  std::vector<SlowRank> found, fresh;
  find(found);
  weigh_links(median(Window(steps_, [](const StepDigest& one) { return one.step; }).medians()));
  for (const auto& slow : found)
    if (std::none_of(now_.begin(), now_.end(),
                     [&](const SlowRank& known) { return known.rank == slow.rank && known.cause == slow.cause; }))
      fresh.push_back(slow);
  now_ = std::move(found);
  return fresh;
}

}  // namespace hyperion::doctor
