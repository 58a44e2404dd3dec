// What Perfetto's packets of one writer have said so far: packets to come refer to it by numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hyperion/trace/string_pool.h"

namespace hyperion::trace {

// Valid UTF-8: bytes that are none become U+FFFD.
std::string repaired_utf8(std::string_view text);

// Texts by their number. They live in a pool, which outlives them.
class PerfettoTexts {
 public:
  void add(uint64_t number, std::string_view text) { texts_[number] = text; }
  // One that nothing was said of is "?" and its number.
  std::string text(uint64_t number) const {
    const auto found = texts_.find(number);
    return found == texts_.end() ? "?" + std::to_string(number) : std::string(found->second);
  }
  void clear() { texts_.clear(); }

 private:
  std::unordered_map<uint64_t, std::string_view> texts_;
};

struct PerfettoSequence {
  bool known = false;   // its state was begun and no packet of it lost since
  bool of_sdk = false;  // it has defaults, as Perfetto's own library gives every sequence
  uint64_t clock = 0;   // of packets that do not say theirs; 0: the trace's
  uint64_t track = 0;   // of events that do not say theirs
  PerfettoTexts names, categories, keys, strings;

  void clear();
  void read_defaults(std::string_view message);                     // TracePacketDefaults
  void read_interned(std::string_view message, StringPool& texts);  // InternedData
};

}  // namespace hyperion::trace
