// The stretches of our own trace file, packed with zstd. In a build without libzstd both throw ConfigError.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hyperion::trace {

constexpr int kPackLevel = 9;      // what files are written with
constexpr int kEstimateLevel = 1;  // quick, and good enough to compare two ways of writing the same numbers

// One frame of zstd.
std::string pack_zstd(std::string_view plain, int level = kPackLevel);

// What a frame holds. False where it is damaged or does not hold exactly `size` bytes. Memory grows with what comes out
// of it, not with what `size` claims.
bool unpack_zstd(std::string_view packed, size_t size, std::string& plain);

}  // namespace hyperion::trace
