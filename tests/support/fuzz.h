// Broken input by the thousand, and the memory that reading it took.
#pragma once
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace hyperion::testing {

// What a reader may take besides the size of its file.
constexpr size_t kMostReaderBytes = size_t{64} << 20;

// One to three breaks, three in four of them before `reach`, where there is something to misread. `words`: what may be
// put in whole.
std::string mutated(const std::string& original, size_t reach, const std::vector<std::string>& words,
                    std::mt19937& random);

// The most bytes of operator new that were held at once during the work, beyond those held before it.
size_t peak_allocated(const std::function<void()>& work);

}  // namespace hyperion::testing
