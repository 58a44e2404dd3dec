// The ways to cut the documents of a set into samples.
#pragma once
#include <memory>
#include <string>

#include "hyperion/data/source.h"
#include "hyperion/data/token_set.h"

namespace hyperion::data {

// Rows in which nothing would be learned are no samples.
std::unique_ptr<Source> make_token_source(std::shared_ptr<const TokenSet> set, Packing packing, int64_t length,
                                          TooLong too_long = TooLong::split);

}  // namespace hyperion::data
