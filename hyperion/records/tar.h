// The files inside a tar, one after the other, from a stream: nothing is unpacked to the disk and nothing is skipped
// silently but what is no file (folders, links, devices). POSIX ustar, GNU long names, and pax paths and sizes are
// read; sparse files are refused.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "hyperion/records/byte_stream.h"

namespace hyperion::records {

// Of a sample with two members of one name: which of them is meant, nothing says.
inline constexpr const char* kThereTwice = "twice: the name of a sample must not come again right after it";

struct TarMember {
  std::string name;  // with its folders, as the tar has it: never a path to open
  uint64_t size = 0;
  uint64_t offset = 0;  // of its content in the unpacked tar
};

class TarReader {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  // `file` is for the messages only.
  TarReader(std::unique_ptr<ByteStream> stream, std::string file)
      : TarReader(BufferedBytes(std::move(stream)), std::move(file)) {}
  TarReader(BufferedBytes bytes, std::string file) : bytes_(std::move(bytes)), file_(std::move(file)) {}

  // Goes to the next file, past whatever was not read of the one before; false at the end. Throws BadRecord for a
  // header that is damaged (checksums are verified) or a tar that was cut; after that there is no next one.
  bool next(TarMember& member);

  // The content of the member that next gave, once. Throws BadRecord where it is larger than `most`, before memory is
  // taken for it; then next still goes on.
  void read(std::string& out, uint64_t most = kMostBytes);

  uint64_t position() const { return bytes_.position(); }

 private:
  struct Header;
  bool read_header(Header& header);
  void read_exactly(std::string& out, uint64_t size);
  void skip(uint64_t size);
  void leave_member();
  void expect_zeros_to_the_end();
  std::string extension(const Header& header);
  [[noreturn]] void fail(const std::string& what);

  BufferedBytes bytes_;
  std::string file_, name_;
  uint64_t left_ = 0, padding_ = 0, size_ = 0;  // of the member: its bytes not read yet, and what fills its last block
  bool ended_ = false;
};

}  // namespace hyperion::records
