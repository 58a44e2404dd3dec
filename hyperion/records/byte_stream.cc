#include "hyperion/records/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::records {
namespace {

constexpr size_t kBuffer = 1 << 17, kMostPeek = 4096;

}  // namespace

BufferedBytes::BufferedBytes(std::unique_ptr<ByteStream> stream)
    : stream_(std::move(stream)), buffer_(std::make_unique<char[]>(kBuffer)) {}

void BufferedBytes::stop() {
  begin_ = end_;
  stream_.reset();
  failed_ = true;
}

void BufferedBytes::refill() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (!stream_) return;
  size_t got = 0;
  try {
    got = stream_->read({buffer_.get() + end_, kBuffer - end_});
  } catch (...) {
    stop();
    throw;
  }
  end_ += got;
  read_ += got;
  if (got == 0) stream_.reset();
}

std::string_view BufferedBytes::peek(size_t bytes) {
  HYPERION_CHECK(bytes <= kMostPeek, "a peek is small");
  if (end_ - begin_ < bytes && kBuffer - begin_ < bytes) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  while (end_ - begin_ < bytes && stream_) refill();
  return {buffer_.get() + begin_, end_ - begin_};
}

}  // namespace hyperion::records
