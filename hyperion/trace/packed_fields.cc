#include "hyperion/trace/packed_fields.h"

#include <algorithm>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::trace {

void Scratch::grow(size_t more) {
  const size_t room = std::max<size_t>({256, room_ * 2, size_ + more});
  auto larger = std::make_unique_for_overwrite<char[]>(room);
  if (size_ > 0) std::memcpy(larger.get(), data_.get(), size_);
  data_ = std::move(larger);
  room_ = room;
}

uint64_t take_varint(const char*& at, const char* end) {
  uint64_t value = 0;
  for (int shift = 0; at < end && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

void PackedFields::append(std::string_view packed) {
  if (offsets_.size() % kGroup == 0) bases_.push_back(bytes_.size());
  const uint64_t offset = bytes_.size() - bases_.back();
  if (offset > UINT32_MAX) throw base::Error("events of a trace hold more than 4 GiB of arguments in a row");
  offsets_.push_back(static_cast<uint32_t>(offset));
  bytes_.append({packed.data(), packed.size()});
}

std::string_view PackedFields::packed(size_t event) const {
  const auto start = [&](size_t i) { return i < offsets_.size() ? bases_[i / kGroup] + offsets_[i] : bytes_.size(); };
  const uint64_t begin = start(event);
  return {bytes_.data() + begin, start(event + 1) - begin};
}

namespace {

void append_decimal(std::string& out, int64_t digits, size_t fraction) {
  std::string text = base::format("{}", digits < 0 ? -digits : digits);
  if (text.size() <= fraction) text.insert(0, fraction + 1 - text.size(), '0');
  text.insert(text.size() - fraction, ".");
  out += digits < 0 ? "-" + text : text;
}

}  // namespace

std::string PackedFields::text(size_t event) const {
  const auto bytes = packed(event);
  std::string out;
  if (bytes.empty()) return out;
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  for (const char c : forms[static_cast<uint32_t>(take_varint(at, end))]) {
    if (c == kIntegerPlace) {
      out += base::format("{}", unzigzag(take_varint(at, end)));
    } else if (c == kDecimalPlace) {
      const auto fraction = at < end ? static_cast<size_t>(*at++) : 0;
      append_decimal(out, unzigzag(take_varint(at, end)), fraction);
    } else if (c == kTextPlace) {
      out += texts[static_cast<uint32_t>(take_varint(at, end))];
    } else {
      out.push_back(c);
    }
  }
  return out;
}

size_t PackedFields::bytes() const {
  return forms.bytes() + texts.bytes() + bases_.bytes() + offsets_.bytes() + bytes_.bytes();
}

}  // namespace hyperion::trace
