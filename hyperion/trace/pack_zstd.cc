#include "hyperion/trace/pack_zstd.h"

#include <zstd.h>

#include <algorithm>
#include <memory>

#include "hyperion/base/error.h"

namespace hyperion::trace {
namespace {

constexpr size_t kMostAtOnce = size_t{1} << 20;

// One a thread: making them costs more than packing what is short.
ZSTD_CCtx* packer() {
  thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> made(ZSTD_createCCtx(), ZSTD_freeCCtx);
  HYPERION_CHECK(made != nullptr, "zstd starts");
  return made.get();
}

ZSTD_DCtx* unpacker() {
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> made(ZSTD_createDCtx(), ZSTD_freeDCtx);
  HYPERION_CHECK(made != nullptr, "zstd starts");
  return made.get();
}

}  // namespace

std::string pack_zstd(std::string_view plain, int level) {
  std::string packed(ZSTD_compressBound(plain.size()), '\0');
  const size_t size = ZSTD_compressCCtx(packer(), packed.data(), packed.size(), plain.data(), plain.size(), level);
  HYPERION_CHECK(!ZSTD_isError(size), "zstd packs what has room");
  packed.resize(size);
  return packed;
}

bool unpack_zstd(std::string_view packed, size_t size, std::string& plain) {
  ZSTD_DCtx* context = unpacker();
  ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
  plain.clear();
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  for (size_t left = 1; left != 0;) {
    const size_t before = plain.size(), in_before = in.pos;
    plain.resize(std::min(size + 1, before + std::min(kMostAtOnce, std::max<size_t>(before, 4096))));
    ZSTD_outBuffer out{plain.data(), plain.size(), before};
    left = ZSTD_decompressStream(context, &out, &in);
    plain.resize(out.pos);
    if (ZSTD_isError(left) || plain.size() > size) return false;
    if (left != 0 && out.pos == before && in.pos == in_before) return false;  // it is cut
  }
  return plain.size() == size && in.pos == in.size;
}

}  // namespace hyperion::trace
