// Packed files made by hand, so that the tests need no library of the readers under test; and a stream of odd pieces.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/records/byte_stream.h"

namespace hyperion::records::test {

// Gives 1 to `most` bytes at a time.
class PiecewiseBytes final : public records::ByteStream {
 public:
  PiecewiseBytes(std::string bytes, size_t most, unsigned seed)
      : bytes_(std::move(bytes)), most_(most), random_(seed) {}
  size_t read(std::span<char> out) override {
    const size_t size = std::min({out.size(), bytes_.size() - at_, 1 + random_() % most_});
    std::copy_n(bytes_.data() + at_, size, out.data());
    at_ += size;
    return size;
  }

 private:
  std::string bytes_;
  size_t at_ = 0, most_;
  std::mt19937 random_;
};

inline std::unique_ptr<records::ByteStream> bytes_of(std::string bytes) {
  return std::make_unique<PiecewiseBytes>(std::move(bytes), size_t{1} << 30, 0);
}

// All that the stream gives, asked for 1 to `most` bytes at a time.
inline std::string read_all(records::ByteStream& stream, size_t most = 5000, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::string all, piece(most, '\0');
  while (const size_t got = stream.read({piece.data(), 1 + random() % most})) all.append(piece, 0, got);
  return all;
}

inline std::string little_endian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline uint32_t crc32_of(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

// One gzip member of stored blocks.
inline std::string gzip_of(std::string_view text) {
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  for (size_t at = 0; at == 0 || at < text.size(); at += 60000) {
    const std::string_view block = text.substr(at, 60000);
    out += at + 60000 >= text.size() ? '\1' : '\0';
    out += little_endian(block.size(), 2) + little_endian(~block.size(), 2);
    out += block;
  }
  return out + little_endian(crc32_of(text), 4) + little_endian(text.size(), 4);
}

// One zstd frame of raw blocks, without a checksum, with a window of 128 KiB.
inline std::string zstd_of(std::string_view text) {
  std::string out = "\x28\xb5\x2f\xfd" + std::string("\0\x38", 2);
  for (size_t at = 0; at == 0 || at < text.size(); at += 100000) {
    const std::string_view block = text.substr(at, 100000);
    out += little_endian(block.size() << 3 | (at + 100000 >= text.size() ? 1 : 0), 3);
    out += block;
  }
  return out;
}

// One zstd frame of 128 KiB of a character, `times` times: four bytes for each.
inline std::string zstd_of_one_character(char c, size_t times) {
  std::string out = "\x28\xb5\x2f\xfd" + std::string("\0\x38", 2);
  for (size_t i = 0; i < times; ++i) out += little_endian(131072 << 3 | 2 | (i + 1 == times ? 1 : 0), 3) + c;
  return out;
}

inline std::string zstd_to_be_skipped(std::string_view what) {
  return "\x53\x2a\x4d\x18" + little_endian(what.size(), 4) + std::string(what);
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// A text, and what `gzip -9` and `zstd -19 --check` make of it.
inline std::string packed_well() {
  std::string text;
  for (int i = 0; i < 40; ++i) text += base::format("line {} of a text that packs well\n", i);
  return text;
}
inline std::string packed_well_gzip() {
  return from_hex(
      "1f8b080000000000020385d3c10942411443d1bd55bc124ca25f2d679011e50f2a38a0e58b0d78f7777548c6edde6b5b8f4bb59a"
      "fd336b5edbac673bafaf7af73136e317880253100a7614ec295828385070a4e084504c8996424ca1a69053e82904158a0a4985a6"
      "4653f33ed1d4686a34359a1a4d8da64653a369d034681a3e3d9a064d83a641d3a069d034ff4cbfa910fe5646050000");
}
inline std::string packed_well_zstd() {
  return from_hex(
      "28b52ffd046845030082440e13a01d0ec0f06cd2471b5505b3db480a857e4f8dffffffbf6ddbb6ddb66ddb1e46410cc25da0694c"
      "62c42005f14a39de64c762f230a0394b1328a811f0ebff1b80334a0f113404ff3f43f0f90127617fa595ab4ce529a51c25949f74"
      "729152f5324280a806339b51c1");
}

inline std::string padded_to_a_block(std::string bytes) {
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

inline std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  header.replace(148, 8, base::format("{:06o}", sum) + std::string("\0 ", 2));
  return header;
}

// A header of POSIX's ustar; names up to 100 bytes.
inline std::string tar_header(const std::string& name, uint64_t size, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(100, 8, std::string("0000644\0", 8));
  header.replace(124, 12, base::format("{:011o}", size) + std::string(1, '\0'));
  header[156] = type;
  header.replace(257, 8,
                 std::string("ustar\0"
                             "00",
                             8));
  return with_checksum(std::move(header));
}

inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  return tar_header(name, content.size(), type) + padded_to_a_block(content);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string tar_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string tar;
  for (const auto& [name, content] : members) tar += tar_member(name, content);
  return tar + tar_end();
}

// "<length> <key>=<value>\n", where the length counts itself.
inline std::string pax_record(const std::string& key, const std::string& value) {
  size_t length = key.size() + value.size() + 3, whole = 0;
  while (whole != length + std::to_string(whole).size()) whole = length + std::to_string(whole).size();
  return std::to_string(whole) + " " + key + "=" + value + "\n";
}

}  // namespace hyperion::records::test
