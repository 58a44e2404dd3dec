#include "hyperion/images/normalisation.h"

#include <charconv>
#include <cmath>

#include "hyperion/base/format.h"

namespace hyperion::images {
namespace {

struct NamedNormalisation {
  const char* name;
  Normalisation value;
};
constexpr NamedNormalisation kNamedNormalisations[] = {
    {"imagenet", kImagenet}, {"cifar", kCifar}, {"half", kHalf}, {"none", kUnchanged}};

// Three numbers with commas between them, up to `end`, which is stepped over.
const char* take_three(const char* at, const char* stop, char end, std::array<float, 3>& values) {
  for (size_t i = 0; i < 3 && at != nullptr; ++i) {
    const auto [after, error] = std::from_chars(at, stop, values[i]);
    const char wanted = i < 2 ? ',' : end, found = after == stop ? '\0' : *after;
    if (error != std::errc{} || found != wanted || !(std::abs(values[i]) <= kMostShift)) return nullptr;
    at = after == stop ? after : after + 1;
  }
  return at;
}

}  // namespace

std::string normalisation_text(const Normalisation& normalisation) {
  for (const auto& [name, value] : kNamedNormalisations)
    if (value == normalisation) return name;
  const auto &m = normalisation.mean, &d = normalisation.deviation;
  return base::format("{},{},{}/{},{},{}", m[0], m[1], m[2], d[0], d[1], d[2]);
}

std::optional<Normalisation> parse_normalisation(const std::string& text) {
  for (const auto& [name, value] : kNamedNormalisations)
    if (text == name) return value;
  Normalisation read{};
  const char* const stop = text.data() + text.size();
  const char* at = take_three(text.data(), stop, '/', read.mean);
  if (at != nullptr) at = take_three(at, stop, '\0', read.deviation);
  if (at != stop) return {};
  for (const float deviation : read.deviation)
    if (!(deviation > 0)) return {};
  return read;
}

}  // namespace hyperion::images
