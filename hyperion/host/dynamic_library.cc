#include "hyperion/host/dynamic_library.h"

#include <dlfcn.h>

#include "hyperion/base/format.h"

namespace hyperion::host {

DynamicLibrary::DynamicLibrary(const char* name, bool secluded)
    : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL | (secluded ? RTLD_DEEPBIND : 0))) {
  if (loaded()) return;
  const char* words = ::dlerror();
  const std::string said = words == nullptr ? "" : words;
  const bool missing = said.find("No such file") != std::string::npos && said.starts_with(name);
  reason_ = missing || said.empty() ? base::format("{} not found", name) : said;
}

void* DynamicLibrary::address(const char* symbol) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

}  // namespace hyperion::host
