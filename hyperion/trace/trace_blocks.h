// How our own trace file is cut into blocks, each with a checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hyperion::trace {

constexpr std::string_view kTraceMagic{"hyperion trace\n\0", 16};
constexpr uint32_t kTraceVersion = 1;
constexpr size_t kFileHeaderBytes = 32, kBlockHeaderBytes = 32;
constexpr uint64_t kMostPayload = uint64_t{1} << 30;

enum class BlockKind : uint32_t { facts = 1, events = 2, end = 3 };

// Limits of one block of events.
constexpr uint32_t kMostBlockEvents = 65536;
constexpr uint64_t kMostBlockStreams = uint64_t{1} << 20;  // columns of forms
constexpr uint64_t kMostBlockNumbers = uint64_t{1} << 28;  // in these

struct BlockHeader {
  BlockKind kind = BlockKind::end;
  uint32_t events = 0;         // of this block; of the last one 0
  uint64_t events_before = 0;  // of all blocks before it
  uint64_t payload = 0;        // bytes that follow
};

std::string file_header();
std::string block_header(const BlockHeader& header, std::string_view payload);

enum class HeaderVerdict { good, no_trace, damaged, later_version };
HeaderVerdict read_file_header(std::string_view bytes);  // of kFileHeaderBytes
// Of kBlockHeaderBytes; false where it cannot be one. Whether it is the one that was written checksum_fits() tells,
// once the payload is there.
bool read_block_header(std::string_view bytes, BlockHeader& header);
bool checksum_fits(std::string_view header, std::string_view payload);

}  // namespace hyperion::trace
