// AMD's words for what Kineto has others for: categories of rocprofv3 and rocprof-sys, and names of copies.
#pragma once
#include <string>
#include <string_view>

namespace hyperion::trace {

// Kineto's category for one of AMD's; empty where it is none of them. `of_sdk`: the event was written through
// Perfetto's own library, as AMD's tools do; only then words such as "host" are theirs. On a track of a stream kernels
// and copies share a category, and the event's name decides.
std::string_view kineto_category(std::string_view category, std::string_view name, bool of_sdk);

// Of copies and fills: "Memcpy HtoD (MEMORY_COPY_HOST_TO_DEVICE)", as the analyses know them; others as they are.
std::string kineto_name(std::string_view category, std::string_view name);

}  // namespace hyperion::trace
