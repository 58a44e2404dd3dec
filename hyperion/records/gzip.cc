#include <zlib.h>

#include <algorithm>
#include <array>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/decompress.h"

namespace hyperion::records {
namespace {

class GzipBytes final : public ByteStream {
 public:
  GzipBytes(std::unique_ptr<ByteStream> packed, std::string file) : packed_(std::move(packed)), file_(std::move(file)) {
    HYPERION_CHECK(inflateInit2(&state_, MAX_WBITS + 16) == Z_OK, "zlib starts");  // 16: gzip's header and checksum
  }
  ~GzipBytes() override { inflateEnd(&state_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  size_t read(std::span<char> out) override {
    for (;;) {
      if (state_.avail_in == 0 && !full_ && !refill()) {
        if (inside_) fail("ends in the middle of its gzip data");
        return 0;
      }
      if (!inside_ && !next_member()) continue;
      state_.next_out = reinterpret_cast<Bytef*>(out.data());
      state_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1 << 30));
      const uInt room = state_.avail_out;
      const int result = inflate(&state_, Z_NO_FLUSH);
      const uInt got = room - state_.avail_out;
      if (result == Z_STREAM_END) inside_ = false;
      full_ = inside_ && state_.avail_out == 0;  // there may be more without more input
      // What was unpacked before the damage is given first; the next call meets the damage again.
      if (got > 0) return got;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) fail("has damaged gzip data");
    }
  }

 private:
  // Members follow each other; zeros may fill up the end, as tapes leave them.
  bool next_member() {
    if (state_.total_in > 0) inflateReset(&state_);
    const bool first = members_++ == 0;
    if (!first && *state_.next_in == 0) padding_ = true;
    if (padding_) {
      if (std::any_of(state_.next_in, state_.next_in + state_.avail_in, [](Bytef byte) { return byte != 0; }))
        fail("has something else after its gzip data");
      state_.avail_in = 0;
      return false;
    }
    inside_ = true;
    return true;
  }

  bool refill() {
    const size_t got = packed_->read(buffer_);
    read_ += got;
    state_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    state_.avail_in = static_cast<uInt>(got);
    return got > 0;
  }

  [[noreturn]] void fail(const char* what) const {
    throw BadRecord(file_, 0, base::format("{} (byte {})", what, read_ - state_.avail_in),
                    "test it with gzip -t; fetch or pack it again");
  }

  std::unique_ptr<ByteStream> packed_;
  std::string file_;
  z_stream state_{};
  std::array<char, 1 << 16> buffer_;
  uint64_t read_ = 0;  // of the packed bytes
  int64_t members_ = 0;
  bool inside_ = false, full_ = false, padding_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_gzip(std::unique_ptr<ByteStream> packed, std::string file) {
  return std::make_unique<GzipBytes>(std::move(packed), std::move(file));
}

}  // namespace hyperion::records
