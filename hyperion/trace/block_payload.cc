#include "hyperion/trace/block_payload.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "hyperion/trace/pack_zstd.h"

namespace hyperion::trace {
namespace {

constexpr size_t kFewNumbers = 64;  // below it, packing tells nothing

std::string as_varints(std::span<const uint64_t> codes) {
  std::string out;
  out.reserve(codes.size() * 2);
  for (const uint64_t code : codes) append_varint(out, code);
  return out;
}

std::string as_planes(std::span<const uint64_t> codes, size_t width) {
  std::string out(codes.size() * width, '\0');
  for (size_t plane = 0; plane < width; ++plane)
    for (size_t i = 0; i < codes.size(); ++i)
      out[plane * codes.size() + i] = static_cast<char>(codes[i] >> (8 * plane));
  return out;
}

std::string packed_if_long(std::string_view plain) {
  return plain.size() < kPackedApart ? std::string() : pack_zstd(plain);
}

size_t size_of(const std::string& plain, const std::string& packed) {
  return packed.empty() ? plain.size() : packed.size();
}

bool take_number(std::string_view bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (int shift = 0; at < bytes.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return shift < 63 || byte < 2;
  }
  return false;
}

}  // namespace

size_t estimated_bytes(std::span<const uint64_t> codes) {
  if (std::all_of(codes.begin(), codes.end(), [](uint64_t code) { return code == 0; })) return 0;
  const auto plain = as_varints(codes);
  return codes.size() < kFewNumbers ? plain.size() : pack_zstd(plain, kEstimateLevel).size();
}

void PayloadWriter::number(uint64_t value) { append_varint(main_, value); }

void PayloadWriter::text(std::string_view text) {
  number(text.size());
  main_ += text;
}

void PayloadWriter::bytes(std::string_view plain, const std::string& packed) {
  if (packed.empty()) {
    main_ += plain;
  } else {
    number(packed.size());
    apart_ += packed;
  }
}

void PayloadWriter::stretch(std::string_view plain) {
  number(plain.size());
  bytes(plain, packed_if_long(plain));
}

void PayloadWriter::column(Guess guess, std::span<const uint64_t> codes) {
  uint64_t all = 0;
  for (const uint64_t code : codes) all |= code;
  const auto head = [&](Layout layout) {
    main_.push_back(static_cast<char>(static_cast<int>(guess) | static_cast<int>(layout) << 4));
  };
  if (all == 0) return head(Layout::zeros);
  const auto width = static_cast<size_t>(71 - std::countl_zero(all)) / 8;
  const auto varints = as_varints(codes), planes = as_planes(codes, width);
  const auto packed_varints = packed_if_long(varints), packed_planes = packed_if_long(planes);
  if (size_of(planes, packed_planes) < size_of(varints, packed_varints)) {
    head(Layout::planes);
    main_.push_back(static_cast<char>(width));
    bytes(planes, packed_planes);
  } else {
    head(Layout::varints);
    number(varints.size());
    bytes(varints, packed_varints);
  }
}

std::string PayloadWriter::finish() && {
  const auto packed = pack_zstd(main_);
  std::string out;
  append_varint(out, main_.size());
  append_varint(out, packed.size());
  return out + packed + apart_;
}

PayloadReader::PayloadReader(std::string_view payload) {
  size_t at = 0;
  uint64_t size = 0, packed = 0;
  if (!take_number(payload, at, size) || !take_number(payload, at, packed) || packed > payload.size() - at)
    throw PayloadFault{"its first lengths are wrong"};
  if (size > kMostMain) throw PayloadFault{"its main part is longer than 256 MiB"};
  apart_ = payload.substr(at);
  main_ = [&] {
    std::string plain;
    if (!unpack_zstd(apart_.substr(0, packed), size, plain)) throw PayloadFault{"its main part does not unpack"};
    return plain;
  }();
  apart_.remove_prefix(packed);
}

uint64_t PayloadReader::number() {
  uint64_t value = 0;
  if (!take_number(main_, at_, value)) throw PayloadFault{"a number does not end"};
  return value;
}

uint64_t PayloadReader::number(uint64_t most, const char* what) {
  const uint64_t value = number();
  if (value > most) throw PayloadFault{what};
  return value;
}

std::string_view PayloadReader::take(size_t size) {
  if (size > main_.size() - at_) throw PayloadFault{"its main part ends too early"};
  at_ += size;
  return std::string_view(main_).substr(at_ - size, size);
}

std::string PayloadReader::unpack_next(size_t size) {
  const uint64_t packed = number(apart_.size(), "a stretch ends behind the block");
  std::string plain;
  if (!unpack_zstd(apart_.substr(0, packed), size, plain)) throw PayloadFault{"a stretch does not unpack"};
  apart_.remove_prefix(packed);
  return plain;
}

std::string_view PayloadReader::text() { return take(number()); }

std::string PayloadReader::stretch() {
  const uint64_t size = number(kMostStretch, "a stretch is longer than 256 MiB");
  return size < kPackedApart ? std::string(take(size)) : unpack_next(size);
}

ColumnReader PayloadReader::column(size_t count) {
  const auto head = static_cast<unsigned char>(take(1)[0]);
  ColumnReader column;
  column.count_ = count;
  if ((head & 15) >= static_cast<int>(Guess::count_of_guesses) || head >> 4 > static_cast<int>(Layout::planes))
    throw PayloadFault{"a column's first byte is none that there is"};
  column.guess = static_cast<Guess>(head & 15);
  column.layout_ = static_cast<Layout>(head >> 4);
  if (column.layout_ == Layout::zeros) return column;
  uint64_t size = 0;
  if (column.layout_ == Layout::planes) {
    column.width_ = static_cast<unsigned char>(take(1)[0]);
    if (column.width_ < 1 || column.width_ > 8) throw PayloadFault{"a number has 1 to 8 bytes"};
    size = column.width_ * count;
  } else {
    size = number();
    if (size < count || size > 10 * count) throw PayloadFault{"a column's length does not fit its numbers"};
  }
  column.size_ = size;
  if (size < kPackedApart)
    column.bytes_ = take(size).data();
  else
    column.own_ = unpack_next(size);
  return column;
}

void PayloadReader::finish() const {
  if (at_ != main_.size() || !apart_.empty()) throw PayloadFault{"something is left at its end"};
}

uint64_t ColumnReader::next() {
  if (count_ == 0) throw PayloadFault{"a column ends too early"};
  --count_;
  if (layout_ == Layout::zeros) return 0;
  const char* bytes = bytes_ != nullptr ? bytes_ : own_.data();
  uint64_t value = 0;
  if (layout_ == Layout::varints) {
    if (!take_number({bytes, size_}, at_, value)) throw PayloadFault{"a number does not end"};
    return value;
  }
  const size_t numbers = size_ / width_;
  for (size_t plane = 0; plane < width_; ++plane)
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[plane * numbers + at_])) << (8 * plane);
  ++at_;
  return value;
}

void ColumnReader::finish() const {
  if (count_ != 0 || (layout_ == Layout::varints && at_ != size_)) throw PayloadFault{"a column has too many numbers"};
}

}  // namespace hyperion::trace
