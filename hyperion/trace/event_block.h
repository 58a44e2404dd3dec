// Events on their way into a block of our own trace file, all numbers of tables being the file's.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/trace/block_payload.h"
#include "hyperion/trace/event_columns.h"
#include "hyperion/trace/form_pieces.h"

namespace hyperion::trace {

// What the events of one form have in its places.
struct FormRows {
  uint64_t form = 0;  // its number in the file
  std::vector<Piece> pieces;
  std::vector<uint32_t> events;                // which they are
  std::vector<std::vector<uint64_t>> columns;  // by piece, a number an event
};

struct EventBlock {
  std::vector<uint64_t> types;
  std::vector<EventRow> rows;
  std::vector<FormRows> forms;  // in the order of their numbers once write_events() is called
  size_t numbers = 0;           // in all columns of all forms
};

// Counts, then columns.
void write_events(const EventBlock& block, PayloadWriter& out);

}  // namespace hyperion::trace
