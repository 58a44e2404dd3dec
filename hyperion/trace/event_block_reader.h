// The events of our own trace file, block after block, into a trace.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/trace/block_payload.h"
#include "hyperion/trace/event_columns.h"
#include "hyperion/trace/form_pieces.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

bool is_utf8(std::string_view text);
bool is_json_value(std::string_view text);

// Texts and numbers that stand one after the other. PayloadFault where they end too early or late.
class TextReader {
 public:
  explicit TextReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  std::string_view take();
  uint64_t number();
  char byte();
  void finish() const;

 private:
  const char* at_;
  const char* end_;
};

// Nothing of what it reads is taken on trust: a trace that it filled is one that JSON could have said.
class EventBlockReader {
 public:
  explicit EventBlockReader(Trace& trace) : trace_(&trace) {}
  // Throws PayloadFault, and then the trace is of no use.
  void read(std::string_view payload, uint32_t events);

 private:
  struct FormTable {
    uint32_t number = 0;  // in the trace
    std::vector<Piece> pieces;
  };
  struct KnownText {
    uint32_t number = 0;
    uint8_t quoted = 0, bare = 0;  // whether it may stand so: 0 not yet known, 1 yes, 2 no
  };
  struct Column {
    ColumnReader codes;
    Expected expected;
    bool entries = false;
    uint64_t next(const Known& known);
  };
  struct TypeColumns {
    size_t events = 0;
    std::array<Column, kEventColumns> columns;
  };
  struct FormColumns {
    const FormTable* form = nullptr;
    size_t events = 0;
    std::vector<Column> columns;
  };

  void read_tables(PayloadReader& in);
  void read_types(PayloadReader& in);
  void read_tracks(PayloadReader& in);
  void open_columns(PayloadReader& in, uint32_t events);
  void read_event(uint64_t type, EventsBefore& before, Trace::Event& event);
  uint64_t read_fields(uint64_t form, const EventRow& row);
  uint32_t checked_text(uint64_t text, Piece piece);
  void finish_columns() const;
  static Column open(PayloadReader& in, size_t count, bool entries);

  Trace* trace_;
  // The file's tables: what their entries are in the trace.
  std::vector<uint32_t> names_, tracks_;
  std::vector<uint16_t> types_;
  std::vector<KnownText> texts_;
  std::vector<FormTable> forms_;
  // Of the block that is being read.
  Column type_column_;
  std::vector<TypeColumns> type_columns_;
  std::vector<FormColumns> form_columns_;
  std::vector<uint32_t> type_place_, form_place_;  // of a type, a form: in the two above; kNoPlace
  std::string packed_;
};

}  // namespace hyperion::trace
