// The columns that every event of a block of our own trace file has, and what is known of the events before one.
// Writer and reader ask the same questions in the same order. docs/format_trace.md has them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "hyperion/trace/expected_number.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

// In the order in which an event's are read; its fields are read behind `form`. Name and form: one more than their
// number, 0 for none.
enum class EventColumn : uint8_t { track, name, correlation, external, form, begin, duration };
constexpr size_t kEventColumns = 7;
using EventRow = std::array<uint64_t, kEventColumns>;
constexpr uint64_t& at(EventRow& row, EventColumn column) { return row[static_cast<size_t>(column)]; }
constexpr uint64_t at(const EventRow& row, EventColumn column) { return row[static_cast<size_t>(column)]; }
constexpr bool is_entry(EventColumn column) {
  return column == EventColumn::track || column == EventColumn::name || column == EventColumn::form;
}

class EventsBefore {
 public:
  explicit EventsBefore(size_t events)
      : track_correlation_(events, kTracks),
        track_external_(events, kTracks),
        track_begin_(events, kTracks),
        track_end_(events, kTracks),
        correlated_external_(events, kCorrelations),
        correlated_begin_(events, kCorrelations) {}

  // For this column of an event; of `row` the columns before it are there, and with begin and duration its `shape`.
  Known known(const EventRow& row, EventColumn column, uint64_t shape) {
    Known known;
    known.event_before = at(last_, column);
    const auto earlier = [&](EventColumn other) { return other < column ? at(row, other) : 0; };
    known.track = earlier(EventColumn::track);
    known.name = known.shape = earlier(EventColumn::name);
    known.correlation = earlier(EventColumn::correlation);
    known.external = earlier(EventColumn::external);
    switch (column) {
      case EventColumn::correlation:
        known.same_track = track_correlation_[known.track];
        break;
      case EventColumn::external:
        known.same_track = track_external_[known.track];
        known.same_correlation = correlated_external_[known.correlation];
        break;
      case EventColumn::begin:
        known.same_track = track_begin_[known.track];
        known.track_end = track_end_[known.track];
        known.same_correlation = correlated_begin_[known.correlation];
        known.shape = shape;
        break;
      case EventColumn::duration:
        known.shape = shape;
        break;
      default:
        break;
    }
    return known;
  }

  // The event as a whole, once it was read.
  void learn(const EventRow& row) {
    const uint64_t track = at(row, EventColumn::track), correlation = at(row, EventColumn::correlation);
    const uint64_t begin = at(row, EventColumn::begin), duration = at(row, EventColumn::duration);
    const bool lasts = static_cast<int64_t>(duration) > 0;
    track_correlation_[track] = correlation;
    track_external_[track] = at(row, EventColumn::external);
    track_begin_[track] = begin;
    track_end_[track] = lasts ? begin + duration : begin;
    correlated_external_[correlation] = at(row, EventColumn::external);
    correlated_begin_[correlation] = begin;
    last_ = row;
  }

 private:
  static constexpr size_t kTracks = 1024, kCorrelations = 65536;
  EventRow last_ = {};
  LastNumbers track_correlation_, track_external_, track_begin_, track_end_;
  LastNumbers correlated_external_, correlated_begin_;
};

}  // namespace hyperion::trace
