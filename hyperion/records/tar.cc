#include "hyperion/records/tar.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "hyperion/base/format.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/input_files.h"

namespace hyperion::records {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMostExtension = 1 << 20;  // of a long name or a pax header
constexpr uint64_t kMostSize = uint64_t{1} << 60;

std::string text_field(std::string_view field) { return std::string(field.substr(0, field.find('\0'))); }

// Octal digits among spaces and zeros, or GNU's form for large numbers: 0x80 and the number, highest byte first.
std::optional<uint64_t> number_field(std::string_view field) {
  uint64_t value = 0;
  if (field[0] == '\x80') {
    for (const char c : field.substr(1)) {
      if (value >= kMostSize >> 8) return {};
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  const size_t first = std::min(field.find_first_not_of(' '), field.size());
  field = field.substr(first, field.find_first_of(std::string_view(" \0", 2), first) - first);
  for (const char c : field) {
    if (c < '0' || c > '7') return {};
    value = value << 3 | static_cast<uint64_t>(c - '0');
  }
  return value;  // at most 12 digits: 36 bits
}

// Old tars summed signed bytes.
bool checksum_holds(std::string_view block) {
  const auto told = number_field(block.substr(148, 8));
  int64_t plain = 0, with_signs = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    plain += static_cast<unsigned char>(c);
    with_signs += static_cast<signed char>(c);
  }
  return told && (static_cast<int64_t>(*told) == plain || static_cast<int64_t>(*told) == with_signs);
}

// The records of a pax header are "<length> <key>=<value>\n", where the length counts all of the record.
template <class Take>
bool each_pax_record(std::string_view text, Take take) {
  while (!text.empty() && text[0] != '\0') {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length > text.size() || length < digits + 3 || text[digits] != ' ' ||
        text[length - 1] != '\n')
      return false;
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    take(record.substr(0, equals), record.substr(equals + 1));
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

struct TarReader::Header {
  std::string name;
  uint64_t size = 0;
  char type = 0;
};

bool TarReader::read_header(Header& header) {
  const std::string_view block = bytes_.peek(kBlock).substr(0, kBlock);
  if (block.empty()) fail("ends without tar's end mark: it was cut, or it is no tar");
  if (block.size() < kBlock) fail("ends in the middle of a tar header");
  if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
    expect_zeros_to_the_end();
    return false;
  }
  if (!checksum_holds(block)) fail("has a damaged tar header, or is no tar");
  const auto size = number_field(block.substr(124, 12));
  if (!size) fail("has a tar header with a size that is no number");
  header.name = text_field(block.substr(0, 100));
  if (block.substr(257, 6) == std::string_view("ustar\0", 6) && block[345] != '\0')
    header.name = text_field(block.substr(345, 155)) + "/" + header.name;
  header.size = *size;
  header.type = block[156] == '\0' || block[156] == '7' ? '0' : block[156];
  bytes_.skip(kBlock);
  return true;
}

// A long name or a pax header, which come before the header they belong to.
std::string TarReader::extension(const Header& header) {
  if (header.size > kMostExtension)
    fail(base::format("has a tar header of {}, and the most is {}", base::bytes_text(header.size),
                      base::bytes_text(kMostExtension)));
  std::string text;
  read_exactly(text, header.size);
  skip((kBlock - header.size % kBlock) % kBlock);
  return text;
}

bool TarReader::next(TarMember& member) {
  leave_member();
  std::string long_name;
  std::optional<uint64_t> pax_size;
  const auto take_pax = [&](std::string_view key, std::string_view value) {
    if (key.starts_with("GNU.sparse.")) fail("holds a sparse file, which cannot be read here");
    if (key == "path") long_name = value;
    if (key != "size") return;
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size > kMostSize)
      fail("has a pax header with a size that is no number");
    pax_size = size;
  };
  Header header;
  while (!ended_ && !bytes_.failed()) {
    if (!read_header(header)) return false;
    if (header.type == 'L') {
      long_name = text_field(extension(header));
    } else if (header.type == 'x') {
      if (!each_pax_record(extension(header), take_pax)) fail("has a damaged pax header");
    } else if (header.type == 'g' || header.type == 'K') {
      extension(header);
    } else if (header.type == 'S') {
      fail("holds a sparse file, which cannot be read here");
    } else {
      if (!long_name.empty()) header.name = std::move(long_name);
      long_name.clear();
      // Links, devices and folders have no content, whatever their size says.
      const bool has_content = header.type < '1' || header.type > '6';
      size_ = left_ = has_content ? pax_size.value_or(header.size) : 0;
      pax_size.reset();
      padding_ = (kBlock - size_ % kBlock) % kBlock;
      if (header.type == '0' && !header.name.empty() && header.name.back() != '/') {
        name_ = header.name;
        member = {std::move(header.name), size_, bytes_.position()};
        return true;
      }
      leave_member();
    }
  }
  return false;
}

void TarReader::read(std::string& out, uint64_t most) {
  out.clear();
  if (size_ > most)
    throw BadRecord(file_, 0,
                    base::format("{} has {}, and the most is {}", shown_in_utf8(name_), base::bytes_text(size_),
                                 base::bytes_text(most)));
  read_exactly(out, std::exchange(left_, 0));
}

// Memory grows with what is there, not with what a header promises.
void TarReader::read_exactly(std::string& out, uint64_t size) {
  while (size > 0) {
    const std::string_view piece = bytes_.peek().substr(0, size);
    if (piece.empty()) fail("ends in the middle of a file of the tar");
    out += piece;
    bytes_.skip(piece.size());
    size -= piece.size();
  }
}

void TarReader::skip(uint64_t size) {
  while (size > 0) {
    const size_t piece = bytes_.peek().substr(0, size).size();
    if (piece == 0) fail("ends in the middle of a file of the tar");
    bytes_.skip(piece);
    size -= piece;
  }
}

void TarReader::leave_member() {
  skip(std::exchange(left_, 0));
  skip(std::exchange(padding_, 0));
}

// What followed the end mark would be lost, as when tars were put together with cat.
void TarReader::expect_zeros_to_the_end() {
  ended_ = true;
  for (std::string_view piece = bytes_.peek(); !piece.empty(); piece = bytes_.peek()) {
    const size_t zeros = std::min(piece.find_first_not_of('\0'), piece.size());
    bytes_.skip(zeros);
    if (zeros < piece.size()) fail("has something after tar's end mark");
  }
}

void TarReader::fail(const std::string& what) {
  const uint64_t at = bytes_.position();
  bytes_.stop();
  throw BadRecord(file_, 0, base::format("{} (byte {} of the tar)", what, at),
                  "test it with tar -t; fetch or pack it again");
}

}  // namespace hyperion::records
