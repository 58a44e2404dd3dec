// In a build without libzstd.
#include "hyperion/base/error.h"
#include "hyperion/trace/pack_zstd.h"

namespace hyperion::trace {
namespace {

[[noreturn]] void refuse() {
  throw base::ConfigError("a .htrace file is packed with zstd, and this build was made without libzstd",
                          "run script/setup and build again, or use traces in JSON");
}

}  // namespace

std::string pack_zstd(std::string_view, int) { refuse(); }
bool unpack_zstd(std::string_view, size_t, std::string&) { refuse(); }

}  // namespace hyperion::trace
