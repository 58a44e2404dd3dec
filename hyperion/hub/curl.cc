#include "hyperion/hub/curl.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/host/dynamic_library.h"

namespace hyperion::hub {
namespace {

constexpr const char* kCurlLibrary = "libcurl.so.4";
constexpr long kAllParts = 3;

Curl load_curl() {
  const host::DynamicLibrary library(kCurlLibrary, /*secluded=*/true);  // Arrow's libraries export an OpenSSL
  if (!library.loaded())
    throw base::PreflightError(base::format("nothing can be fetched: {}", library.reason()),
                               "install libcurl: apt install libcurl4");
  Curl found;
  int (*global_init)(long) = nullptr;
  const bool whole =
      library.find("curl_global_init", global_init) && library.find("curl_easy_init", found.easy_init) &&
      library.find("curl_easy_setopt", found.easy_setopt) && library.find("curl_easy_perform", found.easy_perform) &&
      library.find("curl_easy_getinfo", found.easy_getinfo) && library.find("curl_easy_cleanup", found.easy_cleanup) &&
      library.find("curl_easy_strerror", found.easy_strerror) &&
      library.find("curl_slist_append", found.slist_append) &&
      library.find("curl_slist_free_all", found.slist_free_all) && library.find("curl_url", found.url) &&
      library.find("curl_url_set", found.url_set) && library.find("curl_url_get", found.url_get) &&
      library.find("curl_url_cleanup", found.url_cleanup) && library.find("curl_free", found.free);
  if (!whole)
    throw base::PreflightError(base::format("nothing can be fetched: {} is too old", kCurlLibrary),
                               "install libcurl 7.62 or later");
  if (global_init(kAllParts) != Curl::kOk)
    throw base::PreflightError(base::format("nothing can be fetched: {} does not start", kCurlLibrary));
  return found;
}

}  // namespace

const Curl& curl() {
  static const Curl loaded = load_curl();
  return loaded;
}

}  // namespace hyperion::hub
