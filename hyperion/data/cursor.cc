#include "hyperion/data/cursor.h"

#include "hyperion/base/hash.h"

namespace hyperion::data {

uint64_t sample_hash(int64_t position, std::string_view bytes) {
  return base::hash_64(bytes, static_cast<uint64_t>(position));
}

}  // namespace hyperion::data
