// XXH3-128, the checksum of every file we write.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace hyperion::base {

std::string hash_hex(std::string_view bytes);  // 32 hexadecimal digits
uint64_t hash_64(std::string_view bytes, uint64_t seed = 0);

// The same hash over pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::string_view bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hyperion::base
