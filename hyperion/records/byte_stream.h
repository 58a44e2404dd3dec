// The bytes of a file from its beginning to its end, unpacked on the way where it is compressed. A stream is read in
// pieces: however large the file, and however much larger what it unpacks to, memory stays that of a few buffers.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hyperion/base/files.h"

namespace hyperion::records {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills a part of `out`, which is not empty, with at least one byte; 0 only at the end.
  virtual size_t read(std::span<char> out) = 0;
};

// The bytes of a stream through a buffer, to be looked at before they are taken.
class BufferedBytes {
 public:
  explicit BufferedBytes(std::unique_ptr<ByteStream> stream);

  // What lies in the buffer; reads on only where that is empty, so it is empty only at the end.
  std::string_view peek() {
    if (begin_ == end_) refill();
    return {buffer_.get() + begin_, end_ - begin_};
  }
  void skip(size_t bytes) { begin_ += bytes; }  // of what peek showed

  // Makes peek show at least this many bytes (at most 4096), fewer only at the end.
  std::string_view peek(size_t bytes);

  uint64_t position() const { return read_ - (end_ - begin_); }  // bytes taken so far
  void stop();                                                   // gives up: from now on it is at its end
  bool failed() const { return failed_; }                        // the stream threw, or was given up

 private:
  void refill();

  std::unique_ptr<ByteStream> stream_;  // none once it ended or failed
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0, end_ = 0;
  uint64_t read_ = 0;
  bool failed_ = false;
};

}  // namespace hyperion::records
