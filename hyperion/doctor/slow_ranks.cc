#include "hyperion/doctor/slow_ranks.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/format.h"

// Medians over the last steps, so that single slow ones do not count; stops are rare and long, and count by their sum.
// A difference counts where it is more than a few times what the steps of these ranks differ among themselves.
namespace hyperion::doctor {
namespace {

constexpr double kTimesNoise = 5, kStoppedPercent = 2;
constexpr int64_t kSureOfTwo = 20, kSoon = 3, kLongestPause = 1000;  // steps
constexpr double kMuch = 10;                                         // percent of a step
constexpr double kLeastSeconds = 1e-3;                               // a step of which less is lost is not worth a word

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

// Of sorted values but the one at this place.
double median_without(const std::vector<double>& sorted, size_t place) {
  const auto at = [&](size_t i) { return sorted[i < place ? i : i + 1]; };
  const auto count = sorted.size() - 1, middle = count / 2;
  return count % 2 == 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2;
}

// What a step takes: the median over the window, of the median over the ranks.
double usual_step(const std::deque<std::vector<StepDigest>>& steps) {
  std::vector<double> all;
  for (const auto& step : steps) {
    std::vector<double> ranks;
    for (const auto& rank : step) ranks.push_back(rank.step);
    all.push_back(median(std::move(ranks)));
  }
  return median(std::move(all));
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
      return base::format("{} computes longer than its like by {:.1f}% of a step, for which they wait{}{}", who,
                          slow.percent, slow.beside.empty() ? "" : ": ", slow.beside);
    case SlowCause::input:
      return base::format("{} waits for its input, {:.1f}% of a step: more data.threads, a faster disk, or prepare it",
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

SlowRanks::SlowRanks(const std::vector<int>& kinds) {
  std::map<int, std::vector<size_t>> by_kind;
  for (size_t rank = 0; rank < kinds.size(); ++rank) by_kind[kinds[rank]].push_back(rank);
  for (auto& [kind, ranks] : by_kind) kinds_.push_back(std::move(ranks));
  ranks_ = kinds.size();
}

// Of each rank, beyond the median of the other ranks of its kind; zero where it has no like.
std::vector<double> SlowRanks::beyond_like(const std::vector<double>& by_rank) const {
  std::vector<double> beyond(by_rank.size());
  for (const auto& ranks : kinds_) {
    if (ranks.size() < 2) continue;
    std::vector<double> sorted;
    for (const auto rank : ranks) sorted.push_back(by_rank[rank]);
    std::sort(sorted.begin(), sorted.end());
    for (const auto rank : ranks) {
      const auto place = std::lower_bound(sorted.begin(), sorted.end(), by_rank[rank]) - sorted.begin();
      beyond[rank] = by_rank[rank] - median_without(sorted, static_cast<size_t>(place));
    }
  }
  return beyond;
}

// Enough of a step to be told of. What was told ends at half of it, so that it does not come and go.
bool SlowRanks::counts(double seconds, double step, int rank, SlowCause cause) const {
  const bool told = std::any_of(now_.begin(), now_.end(),
                                [&](const SlowRank& slow) { return slow.rank == rank && slow.cause == cause; });
  return seconds >= kLeastSeconds && 100 * seconds >= step * (told ? kLeastPercent / 2 : kLeastPercent);
}

// Work beyond that of its like, by more than either scatters, in all steps but one: a difference that comes and goes
// is none of the rank's.
void SlowRanks::find_longer(double step, std::vector<SlowRank>& found) const {
  std::vector<double> medians(ranks_), noise(ranks_);
  std::vector<size_t> longer(ranks_);
  for (const auto& one : steps_) {
    std::vector<double> own;
    for (const auto& rank : one) own.push_back(rank.own());
    const auto beyond = beyond_like(own);
    for (size_t rank = 0; rank < ranks_; ++rank) longer[rank] += beyond[rank] > 0;
  }
  for (size_t rank = 0; rank < ranks_; ++rank) {
    std::vector<double> own;
    for (const auto& one : steps_) own.push_back(one[rank].own());
    noise[rank] = noise_of_median(own);
    medians[rank] = median(std::move(own));
  }
  const auto beyond = beyond_like(medians);
  for (const auto& ranks : kinds_) {
    double most = 0, second = 0;  // noise of this kind: that of a rank's like is the most but its own
    for (const auto rank : ranks) {
      second = std::max(second, std::min(most, noise[rank]));
      most = std::max(most, noise[rank]);
    }
    for (const auto rank : ranks) {
      const double of_like = noise[rank] < most ? most : second;
      if (counts(beyond[rank], step, static_cast<int>(rank), SlowCause::compute) &&
          beyond[rank] > kTimesNoise * std::hypot(noise[rank], of_like) && longer[rank] + 1 >= steps_.size())
        found.push_back({static_cast<int>(rank), SlowCause::compute, 100 * beyond[rank] / step});
    }
  }
}

// By its mean: a loader that falls behind stops for many steps at once.
void SlowRanks::find_late_input(double step, std::vector<SlowRank>& found) const {
  std::vector<double> input(ranks_);
  for (const auto& one : steps_)
    for (size_t rank = 0; rank < ranks_; ++rank) input[rank] += one[rank].input / static_cast<double>(steps_.size());
  auto sorted = input;
  std::sort(sorted.begin(), sorted.end());
  const double usual = ranks_ > 1 ? sorted[(ranks_ - 1) / 2] : 0;  // of two ranks the less
  if (counts(usual, step, -1, SlowCause::input)) {
    found.push_back({-1, SlowCause::input, 100 * usual / step});
    return;
  }
  for (size_t rank = 0; rank < ranks_; ++rank)
    if (counts(input[rank] - usual, step, static_cast<int>(rank), SlowCause::input))
      found.push_back({static_cast<int>(rank), SlowCause::input, 100 * input[rank] / step});
}

void SlowRanks::find_stopped(std::vector<SlowRank>& found) const {
  for (size_t rank = 0; rank < ranks_; ++rank) {
    double stopped = 0, whole = 0;
    for (const auto& one : steps_) stopped += one[rank].stopped, whole += one[rank].step;
    if (whole > 0 && 100 * stopped >= kStoppedPercent * whole)
      found.push_back({static_cast<int>(rank), SlowCause::stopped, 100 * stopped / whole});
  }
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
  const bool longer = ranks_ > 1 && more >= kLeastSeconds && lost_to_links_ >= kLeastPercent &&
                      more > kTimesNoise * noise_of_median(least);
  suspicious_ = longer ? suspicious_ + 1 : 0;
  const bool sure = ranks_ > 2 || (suspicious_ >= kSureOfTwo && lost_to_links_ >= kMuch);
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
  if (const double usual = usual_step(steps_); usual > 0) {
    find_longer(usual, found);
    find_late_input(usual, found);
    find_stopped(found);
    weigh_links(usual);
  }
  std::map<std::pair<int, SlowCause>, int> counted;
  now_.clear();
  for (const auto& slow : found) {
    const auto key = std::pair(slow.rank, slow.cause);
    const int count = counted[key] = std::min(found_[key] + 1, kConfirmed + 1);
    if (count >= kConfirmed) now_.push_back(slow);
    if (count == kConfirmed) fresh.push_back(slow);
  }
  found_ = std::move(counted);
  return fresh;
}

}  // namespace hyperion::doctor
