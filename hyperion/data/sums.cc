#include "hyperion/data/sums.h"

#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/random.h"

namespace hyperion::data {
namespace {

constexpr int64_t kQuestions = 500;

int64_t power_of_ten(int64_t digits) {
  int64_t value = 1;
  while (digits-- > 0) value *= 10;
  return value;
}

bool belongs_to_held_out(const Sum& sum) {
  // Unordered, so that b+a is never a training line when a+b is a question.
  const auto [low, high] = std::minmax(sum.a, sum.b);
  return base::hash_64(base::format("{}+{}", low, high)) % 10 == 0;
}

class SumsSource final : public Source {
 public:
  SumsSource(uint64_t seed, int64_t digits, int64_t samples, bool held_out)
      : seed_(seed), digits_(digits), samples_(samples), held_out_(held_out) {}

  int64_t samples() const override { return samples_; }

  // A sample starts with a line and is filled with further ones; the last is cut.
  void read(int64_t index, const TokenRow& row) const override {
    const auto out = row.tokens;
    size_t filled = 0;
    for (int64_t line = 0; filled < out.size(); ++line) {
      const Question question = worked(draw_sum(seed_, index * kLinesApart + line, digits_, held_out_));
      for (const char c : question.prompt + question.answer) {
        if (filled == out.size()) return;
        out[filled++] = static_cast<unsigned char>(c);
      }
    }
  }

 private:
  static constexpr int64_t kLinesApart = 1 << 20;  // lines of one sample never reach the next sample's
  uint64_t seed_;
  int64_t digits_, samples_;
  bool held_out_;
};

}  // namespace

Question worked(const Sum& sum) {
  std::string working;
  int64_t a = sum.a, b = sum.b, carry = 0;
  bool first = true;
  while (first || a > 0 || b > 0) {
    const int64_t digit_sum = a % 10 + b % 10 + carry;
    working += base::format(" {}+{}+{}={:02}", a % 10, b % 10, carry, digit_sum);
    a /= 10, b /= 10, carry = digit_sum / 10, first = false;
  }
  return {base::format("{}+{}:", sum.a, sum.b), base::format("{} ={}\n", working, sum.a + sum.b)};
}

Sum draw_sum(uint64_t seed, int64_t index, int64_t digits, bool held_out) {
  const auto key = base::stream_key(seed, held_out ? "data.sums.held_out" : "data.sums.train");
  for (uint32_t attempt = 0;; ++attempt) {
    // Lengths first, so that short numbers are not rare.
    const auto draw = [&](uint64_t place, uint64_t bound) {
      return static_cast<int64_t>(base::random_below(key, static_cast<uint64_t>(index) * 4 + place, bound, attempt));
    };
    const Sum sum{draw(0, power_of_ten(draw(2, digits) + 1)), draw(1, power_of_ten(draw(3, digits) + 1))};
    if (belongs_to_held_out(sum) == held_out) return sum;
  }
}

Split open_sums(const DataConfig& config, int64_t, uint64_t seed) {
  Split split;
  const auto held_out =
      std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(config.sums) * config.validation));
  split.train = std::make_unique<SumsSource>(seed, config.digits, config.sums, false);
  split.validation = std::make_unique<SumsSource>(seed, config.digits, held_out, true);
  for (int64_t i = 0; i < kQuestions; ++i)
    split.questions.push_back(worked(draw_sum(seed, -1 - i, config.digits, true)));
  split.digest = base::hash_hex(
      base::format("sums seed={} digits={} sums={} held_out={}", seed, config.digits, config.sums, held_out));
  return split;
}

}  // namespace hyperion::data
