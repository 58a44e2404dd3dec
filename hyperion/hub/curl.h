// libcurl, found while running, as drivers' libraries are: a program without it starts, and only `fetch` asks for it.
// What is declared here belongs to the interface of libcurl.so.4, which has not changed since 2006.
#pragma once

namespace hyperion::hub {

struct Curl {
  void* (*easy_init)() = nullptr;
  int (*easy_setopt)(void*, int, ...) = nullptr;
  int (*easy_perform)(void*) = nullptr;
  int (*easy_getinfo)(void*, int, ...) = nullptr;
  void (*easy_cleanup)(void*) = nullptr;
  const char* (*easy_strerror)(int) = nullptr;
  void* (*slist_append)(void*, const char*) = nullptr;
  void (*slist_free_all)(void*) = nullptr;
  void* (*url)() = nullptr;
  int (*url_set)(void*, int, const char*, unsigned) = nullptr;
  int (*url_get)(void*, int, char**, unsigned) = nullptr;
  void (*url_cleanup)(void*) = nullptr;
  void (*free)(void*) = nullptr;

  enum Option {
    kWriteData = 10001,
    kUrl = 10002,
    kErrorBuffer = 10010,
    kWriteFunction = 20011,
    kUserAgent = 10018,
    kLowSpeedLimit = 19,
    kLowSpeedTime = 20,
    kHttpHeader = 10023,
    kHeaderData = 10029,
    kNoProgress = 43,
    kNoBody = 44,
    kFollowLocation = 52,
    kProgressData = 10057,
    kCaInfo = 10065,
    kConnectTimeout = 78,
    kHeaderFunction = 20079,
    kHttpGet = 80,
    kNoSignal = 99,
    kProtocols = 181,
    kProgressFunction = 20219,
  };
  enum Info { kResponseCode = 0x200002, kRedirectUrl = 0x10001f };
  enum Code { kOk = 0, kWriteError = 23, kAborted = 42, kTlsConnect = 35, kPeerNotVerified = 60, kBadCaFile = 77 };
  enum UrlPart { kWholeUrl = 0, kScheme = 1, kUser = 2, kPassword = 3, kHost = 5, kPort = 6 };
  static constexpr unsigned kDefaultPort = 1;  // of url_get
  static constexpr long kHttpAndHttps = 3;     // of kProtocols
};

// Throws PreflightError where there is no libcurl.so.4, or one older than 7.62.
const Curl& curl();

}  // namespace hyperion::hub
