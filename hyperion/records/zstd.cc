#include <zstd.h>

#include <array>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/decompress.h"

namespace hyperion::records {
namespace {

class ZstdBytes final : public ByteStream {
 public:
  ZstdBytes(std::unique_ptr<ByteStream> packed, std::string file)
      : packed_(std::move(packed)), file_(std::move(file)), state_(ZSTD_createDStream(), ZSTD_freeDStream) {
    HYPERION_CHECK(state_ != nullptr, "zstd starts");
  }

  size_t read(std::span<char> out) override {
    ZSTD_outBuffer plain{out.data(), out.size(), 0};
    while (plain.pos == 0) {
      if (input_.pos == input_.size && !flushing_ && !refill()) {
        if (inside_) fail("ends in the middle of its zstd data");
        return 0;
      }
      const size_t left = ZSTD_decompressStream(state_.get(), &plain, &input_);
      if (ZSTD_isError(left)) fail(base::format("has damaged zstd data: {}", ZSTD_getErrorName(left)));
      inside_ = left != 0;                             // 0: a frame is over, and all of it given
      flushing_ = plain.pos == plain.size && inside_;  // there may be more without more input
    }
    return plain.pos;
  }

 private:
  bool refill() {
    const size_t got = packed_->read(buffer_);
    read_ += got;
    input_ = {buffer_.data(), got, 0};
    return got > 0;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw BadRecord(file_, 0, base::format("{} (byte {})", what, read_ - (input_.size - input_.pos)),
                    "test it with zstd -t; fetch or pack it again");
  }

  std::unique_ptr<ByteStream> packed_;
  std::string file_;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> state_;
  std::array<char, 1 << 16> buffer_;
  ZSTD_inBuffer input_{};
  uint64_t read_ = 0;  // of the packed bytes
  bool inside_ = false, flushing_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> unpack_zstd(std::unique_ptr<ByteStream> packed, std::string file) {
  return std::make_unique<ZstdBytes>(std::move(packed), std::move(file));
}

}  // namespace hyperion::records
