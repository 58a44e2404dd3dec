#include "hyperion/trace/trace_blocks.h"

#include <bit>
#include <cstring>

#include "hyperion/base/hash.h"

namespace hyperion::trace {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

template <class T>
void append_plain(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T plain_at(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Of the header as well: it is the seed of the payload's.
uint64_t checksum_of(std::string_view header, std::string_view payload) {
  return base::hash_64(payload, base::hash_64(header));
}

}  // namespace

std::string file_header() {
  std::string out(kTraceMagic);
  append_plain(out, kTraceVersion);
  append_plain(out, uint32_t{0});
  append_plain(out, base::hash_64(out));
  return out;
}

HeaderVerdict read_file_header(std::string_view bytes) {
  if (!bytes.starts_with(kTraceMagic)) return HeaderVerdict::no_trace;
  if (plain_at<uint64_t>(bytes, 24) != base::hash_64(bytes.substr(0, 24))) return HeaderVerdict::damaged;
  return plain_at<uint32_t>(bytes, 16) == kTraceVersion ? HeaderVerdict::good : HeaderVerdict::later_version;
}

std::string block_header(const BlockHeader& header, std::string_view payload) {
  std::string out;
  append_plain(out, static_cast<uint32_t>(header.kind));
  append_plain(out, header.events);
  append_plain(out, header.events_before);
  append_plain(out, header.payload);
  append_plain(out, checksum_of(out, payload));
  return out;
}

bool read_block_header(std::string_view bytes, BlockHeader& header) {
  const auto kind = plain_at<uint32_t>(bytes, 0);
  header.kind = static_cast<BlockKind>(kind);
  header.events = plain_at<uint32_t>(bytes, 4);
  header.events_before = plain_at<uint64_t>(bytes, 8);
  header.payload = plain_at<uint64_t>(bytes, 16);
  return kind >= 1 && kind <= 3 && header.events <= kMostBlockEvents && header.payload <= kMostPayload &&
         (header.kind == BlockKind::events) == (header.events > 0);
}

bool checksum_fits(std::string_view header, std::string_view payload) {
  return plain_at<uint64_t>(header, 24) == checksum_of(header.substr(0, 24), payload);
}

}  // namespace hyperion::trace
