// Shell lines in a manifest for Kubernetes.
#pragma once
#include <string>

namespace hyperion::resilience {

// A text as one of a container's `args`: in YAML's double quotes, where no character ends a line or means anything, and
// with every $(NAME) and $$, for which Kubernetes would put something else, written so that it arrives as it is.
// Throws ConfigError where it is not UTF-8: YAML holds nothing else.
std::string container_argument(const std::string& text);

}  // namespace hyperion::resilience
