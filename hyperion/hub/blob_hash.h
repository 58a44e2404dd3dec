// The hash that a file of the hub is known by: SHA-256 of what is kept as LFS, else SHA-1 as git names a blob.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hyperion::hub {

// Whether it is a hash of one of the two kinds, told apart by their lengths, 64 and 40.
bool is_blob_hash(std::string_view text);

class BlobHash {
 public:
  // For a file of `size` bytes whose hash should be `expected`.
  BlobHash(std::string_view expected, uint64_t size);
  ~BlobHash();
  void update(std::string_view bytes);
  std::string hex();  // ends it

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hyperion::hub
