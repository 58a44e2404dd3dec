// The mean and deviation that pixels are normalised by, and how recipes write them.
#pragma once
#include <array>
#include <optional>
#include <string>

namespace hyperion::images {

// Of values in 0 .. 1.
struct Normalisation {
  std::array<float, 3> mean, deviation;
  bool operator==(const Normalisation&) const = default;
};
inline constexpr Normalisation kImagenet = {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
inline constexpr Normalisation kCifar = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
inline constexpr Normalisation kHalf = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
inline constexpr Normalisation kUnchanged = {{0, 0, 0}, {1, 1, 1}};
inline constexpr float kMostShift = 1e6f;

// "imagenet", "cifar", "half" or "none", else the numbers of red, green and blue: "0.48,0.46,0.41/0.27,0.26,0.28".
std::string normalisation_text(const Normalisation& normalisation);
// Of such a text; nothing where it is none, or where a deviation is not above 0.
std::optional<Normalisation> parse_normalisation(const std::string& text);

}  // namespace hyperion::images
