#include "hyperion/tokenizers/unknown_component.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::tokenizers {

void unknown_component(const std::string& place, const std::string& what) {
  throw base::CorruptError(base::format("{}: {} is not known here", place, what),
                           "the tokenizer would give other ids without it, so it is not opened");
}

}  // namespace hyperion::tokenizers
