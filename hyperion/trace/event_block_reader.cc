#include "hyperion/trace/event_block_reader.h"

#include <algorithm>
#include <utility>

#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace/trace_blocks.h"

namespace hyperion::trace {
namespace {

constexpr uint32_t kNoPlace = UINT32_MAX;
constexpr int64_t kLatestTime = int64_t{1} << 61;           // as in JSON
constexpr int64_t kMostDigits = 1'000'000'000'000'000'000;  // a place of a form has at most 18

void check(bool good, const char* what) {
  if (!good) throw PayloadFault{what};
}

bool may_stand(std::string_view text, std::string_view open, std::string_view close) {
  std::string alone(open);
  alone += text;
  alone += close;
  if (text::valid_prefix(alone) != alone.size()) return false;
  try {
    return text::json_elements(alone).size() == 1;
  } catch (const text::JsonError&) {
    return false;
  }
}

}  // namespace

bool is_utf8(std::string_view text) { return text::valid_prefix(text) == text.size(); }
bool is_json_value(std::string_view text) { return may_stand(text, "[", "]"); }

uint64_t TextReader::number() {
  check(at_ < end_, "a table ends too early");
  return take_varint(at_, end_);
}

char TextReader::byte() {
  check(at_ < end_, "a table ends too early");
  return *at_++;
}

std::string_view TextReader::take() {
  const uint64_t size = number();
  check(size <= static_cast<uint64_t>(end_ - at_), "a text ends behind its table");
  at_ += size;
  return {at_ - size, size};
}

void TextReader::finish() const { check(at_ == end_, "a table has more than its entries"); }

uint64_t EventBlockReader::Column::next(const Known& known) {
  const uint64_t guess = expected.next(known);
  const uint64_t code = codes.next();
  const uint64_t number = entries ? from_entry_code(code, guess) : from_difference(code, guess);
  expected.learn(number, known);
  return number;
}

EventBlockReader::Column EventBlockReader::open(PayloadReader& in, size_t count, bool entries) {
  Column column;
  column.codes = in.column(count);
  column.expected = Expected(column.codes.guess, count);
  column.entries = entries;
  return column;
}

void EventBlockReader::read(std::string_view payload, uint32_t events) {
  PayloadReader in(payload);
  read_tables(in);
  open_columns(in, events);
  in.finish();
  EventsBefore before(events);
  Known known;
  Trace::Event event;
  for (uint32_t i = 0; i < events; ++i) {
    const uint64_t type = type_column_.next(known);
    known.event_before = type;
    read_event(type, before, event);
    trace_->append(event, packed_);
  }
  finish_columns();
}

void EventBlockReader::read_tables(PayloadReader& in) {
  const auto each = [&](auto use) {
    const uint64_t count = in.number();
    const auto bytes = in.stretch();
    TextReader texts(bytes);
    for (uint64_t i = 0; i < count; ++i) use(texts.take());
    texts.finish();
  };
  each([&](std::string_view name) {
    check(is_utf8(name), "a name is not UTF-8");
    names_.push_back(trace_->names.add(name));
  });
  each([&](std::string_view text) { texts_.push_back({trace_->fields.texts.add(text)}); });
  each([&](std::string_view form) {
    FormTable table;
    check(!form.empty() && read_pieces(form, table.pieces), "a form is not JSON");
    table.number = trace_->fields.forms.add(form);
    forms_.push_back(std::move(table));
  });
  read_types(in);
  read_tracks(in);
  check(std::max({names_.size(), texts_.size(), forms_.size(), tracks_.size()}) < kNoString,
        "a table has more than 4,294,967,294 entries");
}

void EventBlockReader::read_types(PayloadReader& in) {
  const uint64_t count = in.number();
  const auto bytes = in.stretch();
  TextReader rows(bytes);
  for (uint64_t i = 0; i < count; ++i) {
    const char phase = rows.byte();
    const uint64_t name = rows.number();
    check(phase == 0 || (phase > 0x20 && phase < 0x7f), "a phase is no letter");
    check(name <= names_.size(), "a category is not there");
    check(types_.size() <= UINT16_MAX, "it has more than 65536 kinds of events");
    types_.push_back(trace_->add_type(phase, name == 0 ? std::string_view() : trace_->names[names_[name - 1]]));
  }
  rows.finish();
}

void EventBlockReader::read_tracks(PayloadReader& in) {
  const uint64_t count = in.number();
  const auto bytes = in.stretch();
  TextReader rows(bytes);
  for (uint64_t i = 0; i < count; ++i) {
    Track track;
    track.pid = rows.take();
    track.tid = rows.take();
    track.device = unzigzag(rows.number());
    track.stream = unzigzag(rows.number());
    for (const auto& part : {track.pid, track.tid}) check(part.empty() || is_json_value(part), "a track is not JSON");
    tracks_.push_back(trace_->add_track(track));
  }
  rows.finish();
}

void EventBlockReader::open_columns(PayloadReader& in, uint32_t events) {
  for (auto* places : {&type_place_, &form_place_}) std::fill(places->begin(), places->end(), kNoPlace);
  type_place_.resize(types_.size(), kNoPlace);
  form_place_.resize(forms_.size(), kNoPlace);
  type_columns_.clear();
  form_columns_.clear();
  const auto counted = [&](std::vector<uint32_t>& places, auto& columns, const char* what) {
    uint64_t left = events;
    for (uint64_t count = in.number(places.size(), what); count > 0; --count) {
      const uint64_t entry = in.number();
      check(entry < places.size() && places[entry] == kNoPlace, what);
      places[entry] = static_cast<uint32_t>(columns.size());
      auto& added = columns.emplace_back();
      added.events = in.number(left, what);
      check(added.events > 0, what);
      left -= added.events;
    }
    return left;
  };
  check(counted(type_place_, type_columns_, "its types are counted wrongly") == 0, "its types are counted wrongly");
  counted(form_place_, form_columns_, "its forms are counted wrongly");
  uint64_t streams = 0, numbers = 0;
  for (size_t form = 0; form < form_place_.size(); ++form) {
    if (form_place_[form] == kNoPlace) continue;
    auto& columns = form_columns_[form_place_[form]];
    columns.form = &forms_[form];
    streams += columns.form->pieces.size();
    numbers += columns.form->pieces.size() * columns.events;
  }
  check(streams <= kMostBlockStreams && numbers <= kMostBlockNumbers, "it has more columns than a block may have");

  using C = EventColumn;
  const auto open_each = [&](C column) {
    for (auto& of : type_columns_) of.columns[static_cast<size_t>(column)] = open(in, of.events, is_entry(column));
  };
  type_column_ = open(in, events, /*entries=*/true);
  for (const C column : {C::track, C::name, C::correlation, C::external, C::form}) open_each(column);
  for (auto& of : form_columns_)
    for (const Piece piece : of.form->pieces) of.columns.push_back(open(in, of.events, is_text(piece)));
  for (const C column : {C::begin, C::duration}) open_each(column);
}

void EventBlockReader::read_event(uint64_t type, EventsBefore& before, Trace::Event& event) {
  check(type < type_place_.size() && type_place_[type] != kNoPlace, "an event's type is not there");
  auto& columns = type_columns_[type_place_[type]].columns;
  EventRow row = {};
  uint64_t shape = 0;
  const auto next = [&](EventColumn column) {
    at(row, column) = columns[static_cast<size_t>(column)].next(before.known(row, column, shape));
    return at(row, column);
  };
  using C = EventColumn;
  const uint64_t track = next(C::track), name = next(C::name);
  check(track < tracks_.size() && name <= names_.size(), "an event's name or track is not there");
  event.type = types_[type];
  event.track = tracks_[track];
  event.name = name == 0 ? kNoString : names_[name - 1];
  event.correlation = static_cast<int64_t>(next(C::correlation));
  event.external = static_cast<int64_t>(next(C::external));
  const uint64_t form = next(C::form);
  packed_.clear();
  shape = form == 0 ? name : read_fields(form - 1, row);
  event.begin = static_cast<int64_t>(next(C::begin));
  event.duration = static_cast<int64_t>(next(C::duration));
  check((event.begin > -kLatestTime && event.begin < kLatestTime) || event.begin == kNoTime,
        "a time is beyond any clock");
  check(event.duration >= kNone && event.duration < kLatestTime, "a duration is beyond any clock");
  before.learn(row);
}

// Returns the shape of the event.
uint64_t EventBlockReader::read_fields(uint64_t form, const EventRow& row) {
  check(form < form_place_.size() && form_place_[form] != kNoPlace, "an event's form is not there");
  auto& columns = form_columns_[form_place_[form]];
  const auto& pieces = columns.form->pieces;
  Known known;
  known.track = at(row, EventColumn::track);
  known.name = known.shape = at(row, EventColumn::name);
  known.correlation = at(row, EventColumn::correlation);
  known.external = at(row, EventColumn::external);
  append_varint(packed_, columns.form->number);
  int64_t fraction = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t number = columns.columns[i].next(known);
    const auto signed_number = static_cast<int64_t>(number);
    if (pieces[i] == Piece::fraction) {
      check(number >= 1 && number <= 18, "a number has 1 to 18 digits behind its point");
      fraction = signed_number;
      packed_.push_back(static_cast<char>(fraction));
      continue;
    }
    if (is_text(pieces[i])) {
      append_varint(packed_, checked_text(number, pieces[i]));
      known.shape = shape_with(known.shape, number);
    } else {
      check(signed_number > -kMostDigits && signed_number < kMostDigits, "a number has more than 18 digits");
      append_varint(packed_, zigzag(signed_number));
    }
    known.before = number;
  }
  return known.shape;
}

uint32_t EventBlockReader::checked_text(uint64_t text, Piece piece) {
  check(text < texts_.size(), "an event's text is not there");
  auto& known = texts_[text];
  uint8_t& may = piece == Piece::quoted ? known.quoted : known.bare;
  if (may == 0) {
    const auto said = trace_->fields.texts[known.number];
    may = (piece == Piece::quoted ? may_stand(said, "[\"", "\"]") : is_json_value(said)) ? 1 : 2;
  }
  check(may == 1, "an event's text is not JSON");
  return known.number;
}

void EventBlockReader::finish_columns() const {
  type_column_.codes.finish();
  for (const auto& of : type_columns_)
    for (const auto& column : of.columns) column.codes.finish();
  for (const auto& of : form_columns_)
    for (const auto& column : of.columns) column.codes.finish();
}

}  // namespace hyperion::trace
