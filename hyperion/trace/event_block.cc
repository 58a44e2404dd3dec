#include "hyperion/trace/event_block.h"

#include <algorithm>
#include <map>
#include <span>

namespace hyperion::trace {
namespace {

using Guesses = std::span<const Guess>;

// What is worth trying. A reader takes any guess for any column.
Guesses guesses_of(EventColumn column) {
  using G = Guess;
  static constexpr G kTrack[] = {G::nothing, G::last, G::event_before, G::after_last, G::after_event_before};
  static constexpr G kName[] = {G::nothing, G::last, G::event_before, G::after_last, G::after_event_before,
                                G::by_track};
  static constexpr G kCorrelation[] = {G::nothing, G::last, G::event_before, G::same_track};
  static constexpr G kExternal[] = {G::nothing, G::last, G::event_before, G::same_track, G::same_correlation};
  static constexpr G kForm[] = {G::nothing, G::last, G::same_name, G::after_last};
  static constexpr G kBegin[] = {G::nothing,   G::last,     G::event_before,    G::same_track,
                                 G::track_end, G::by_track, G::same_correlation};
  static constexpr G kDuration[] = {G::nothing, G::last, G::same_name, G::same_shape};
  switch (column) {
    case EventColumn::track:
      return kTrack;
    case EventColumn::name:
      return kName;
    case EventColumn::correlation:
      return kCorrelation;
    case EventColumn::external:
      return kExternal;
    case EventColumn::form:
      return kForm;
    case EventColumn::begin:
      return kBegin;
    default:
      return kDuration;
  }
}

Guesses guesses_of(Piece piece) {
  using G = Guess;
  static constexpr G kText[] = {G::nothing,   G::last, G::after_last, G::same_name, G::same_name_and_before,
                                G::same_shape};
  static constexpr G kFraction[] = {G::nothing, G::last};
  static constexpr G kNumber[] = {G::nothing,    G::last,        G::same_name, G::same_name_and_before,
                                  G::same_shape, G::correlation, G::external,  G::moved_as_external};
  return is_text(piece) ? Guesses(kText) : piece == Piece::fraction ? Guesses(kFraction) : Guesses(kNumber);
}

// Writes the numbers as differences from the guess that costs least.
void write_column(std::span<const uint64_t> numbers, std::span<const Known> known, bool entries, Guesses guesses,
                  PayloadWriter& out) {
  std::vector<uint64_t> codes(numbers.size()), best;
  auto best_guess = Guess::nothing;
  size_t least = SIZE_MAX;
  for (const Guess guess : guesses) {
    Expected expected(guess, numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const uint64_t next = expected.next(known[i]);
      codes[i] = entries ? entry_code(numbers[i], next, guess) : difference(numbers[i], next);
      expected.learn(numbers[i], known[i]);
    }
    const size_t bytes = estimated_bytes(codes);
    if (bytes >= least) continue;
    least = bytes;
    best_guess = guess;
    best = codes;
    if (bytes == 0) break;
  }
  out.column(best_guess, best);
}

using TypeEvents = std::map<uint64_t, std::vector<uint32_t>>;

void write_event_column(const EventBlock& block, const TypeEvents& events, EventColumn column,
                        std::span<const uint64_t> shapes, PayloadWriter& out) {
  std::vector<Known> known;
  known.reserve(block.rows.size());
  EventsBefore before(block.rows.size());
  for (size_t i = 0; i < block.rows.size(); ++i) {
    known.push_back(before.known(block.rows[i], column, shapes[i]));
    before.learn(block.rows[i]);
  }
  std::vector<uint64_t> numbers;
  std::vector<Known> known_here;
  for (const auto& [type, rows] : events) {
    numbers.clear();
    known_here.clear();
    for (const uint32_t row : rows) {
      numbers.push_back(at(block.rows[row], column));
      known_here.push_back(known[row]);
    }
    write_column(numbers, known_here, is_entry(column), guesses_of(column), out);
  }
}

// Adds the texts of the events' fields to their shapes.
void write_form(const EventBlock& block, const FormRows& form, std::vector<uint64_t>& shapes, PayloadWriter& out) {
  std::vector<Known> known(form.events.size());
  for (size_t i = 0; i < known.size(); ++i) {
    const auto& row = block.rows[form.events[i]];
    known[i].track = at(row, EventColumn::track);
    known[i].name = known[i].shape = at(row, EventColumn::name);
    known[i].correlation = at(row, EventColumn::correlation);
    known[i].external = at(row, EventColumn::external);
  }
  for (size_t piece = 0; piece < form.pieces.size(); ++piece) {
    const auto& column = form.columns[piece];
    const Piece kind = form.pieces[piece];
    write_column(column, known, is_text(kind), guesses_of(kind), out);
    for (size_t i = 0; i < known.size(); ++i) {
      if (kind != Piece::fraction) known[i].before = column[i];
      if (is_text(kind)) known[i].shape = shape_with(known[i].shape, column[i]);
    }
  }
  for (size_t i = 0; i < known.size(); ++i) shapes[form.events[i]] = known[i].shape;
}

}  // namespace

void write_events(const EventBlock& block, PayloadWriter& out) {
  TypeEvents events;
  for (size_t i = 0; i < block.types.size(); ++i) events[block.types[i]].push_back(static_cast<uint32_t>(i));
  out.number(events.size());
  for (const auto& [type, rows] : events) {
    out.number(type);
    out.number(rows.size());
  }
  out.number(block.forms.size());
  for (const auto& form : block.forms) {
    out.number(form.form);
    out.number(form.events.size());
  }

  std::vector<Known> known(block.types.size());
  for (size_t i = 1; i < known.size(); ++i) known[i].event_before = block.types[i - 1];
  static constexpr Guess kTypes[] = {Guess::nothing, Guess::after_event_before};
  write_column(block.types, known, /*entries=*/true, kTypes, out);

  std::vector<uint64_t> shapes(block.rows.size());
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = at(block.rows[i], EventColumn::name);
  using C = EventColumn;
  for (const C column : {C::track, C::name, C::correlation, C::external, C::form})
    write_event_column(block, events, column, shapes, out);
  for (const auto& form : block.forms) write_form(block, form, shapes, out);
  for (const C column : {C::begin, C::duration}) write_event_column(block, events, column, shapes, out);
}

}  // namespace hyperion::trace
