// The ways to cut the documents of a set into samples.
#pragma once
#include <memory>
#include <string>

#include "hyperion/data/source.h"
#include "hyperion/data/token_set.h"

namespace hyperion::data {

enum class Packing {
  stream,  // all documents as one row of tokens, cut every `length`
  whole,   // as many whole documents as fit
  single,  // one document a sample
};
Packing packing_of(const std::string& name);

// Of documents that have more tokens than a sample, where they are not a stream.
enum class TooLong {
  split,     // go on in samples of their own
  truncate,  // lose what is beyond
  drop,      // are left out
};
TooLong too_long_of(const std::string& name);

// Rows in which nothing would be learned are no samples.
std::unique_ptr<Source> make_token_source(std::shared_ptr<const TokenSet> set, Packing packing, int64_t length,
                                          TooLong too_long = TooLong::split);

}  // namespace hyperion::data
