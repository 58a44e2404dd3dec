// What a number of our own trace file is expected to be, judged by those before it: the file holds how far it is from
// that, which is mostly nothing. docs/format_trace.md has the rules; they are the format, so none of them may change.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hyperion::trace {

enum class Guess : uint8_t {
  nothing,               // 0; of numbers of tables: none
  last,                  // the one before it in its column
  event_before,          // that of the event before it in the block, of whatever type
  same_track,            // that of the last event on its track
  track_end,             // of begins: when the last event on its track ended
  same_correlation,      // that of the last event of the same correlation
  after_last,            // the one that last came after the one before it in its column
  after_event_before,    // the one that was there when the event before it last had the same
  same_name,             // the last one of an event of its name
  same_name_and_before,  // the same, where what stands before it in the event's fields was the same too
  same_shape,            // the last one of an event of its name and the same texts in its fields
  by_track,              // the last one in its column of an event on its track
  correlation,           // the event's own
  external,              // the event's own
  moved_as_external,     // the one before it, and as much more as the external id is more than it was there
  count_of_guesses,
};

// What is known when an event's number is read. Signed numbers stand here as their 64 bits.
struct Known {
  uint64_t event_before = 0, same_track = 0, track_end = 0, same_correlation = 0;  // numbers, as Guess has them
  uint64_t correlation = 0, external = 0;
  uint64_t track = 0, name = 0, before = 0, shape = 0;  // what others are looked up by
};

// Texts of an event's fields, one after the other, beginning with its name.
inline uint64_t shape_with(uint64_t shape, uint64_t text) { return (shape ^ text) * 0x9E3779B97F4A7C15U + text; }

// Numbers by a key, in a table of fixed length: two keys may meet in one place, and then the later one has it.
class LastNumbers {
 public:
  LastNumbers() = default;
  // For about `count` keys, of at most `most` places.
  LastNumbers(size_t count, size_t most) {
    const size_t places = std::bit_ceil(std::clamp<size_t>(count, 2, most));
    shift_ = 64 - std::countr_zero(places);
    places_.assign(places, 0);
  }
  uint64_t& operator[](uint64_t key) { return places_[(key + 1) * 0x9E3779B97F4A7C15U >> shift_]; }

 private:
  int shift_ = 63;
  std::vector<uint64_t> places_;
};

// Of one column of a block.
class Expected {
 public:
  Expected() = default;
  // `count` numbers are in the column; memory is at most 16 bytes for each of them.
  Expected(Guess guess, size_t count) : guess_(guess) {
    if (looks_up()) numbers_ = LastNumbers(count, kMostPlaces);
  }

  uint64_t next(const Known& known) {
    switch (guess_) {
      case Guess::last:
        return last_;
      case Guess::event_before:
        return known.event_before;
      case Guess::same_track:
        return known.same_track;
      case Guess::track_end:
        return known.track_end;
      case Guess::same_correlation:
        return known.same_correlation;
      case Guess::after_last:
        return at(last_);
      case Guess::after_event_before:
        return at(known.event_before);
      case Guess::same_name:
        return at(known.name);
      case Guess::same_name_and_before:
        return at(shape_with(known.name, known.before));
      case Guess::same_shape:
        return at(known.shape);
      case Guess::by_track:
        return at(known.track);
      case Guess::correlation:
        return known.correlation;
      case Guess::external:
        return known.external;
      case Guess::moved_as_external:
        return last_ + (known.external - last_external_);
      default:
        return 0;
    }
  }
  // What it was, after next().
  void learn(uint64_t number, const Known& known) {
    last_ = number;
    last_external_ = known.external;
    if (looks_up()) *place_ = number;
  }

 private:
  static constexpr size_t kMostPlaces = 8192;
  bool looks_up() const { return guess_ >= Guess::after_last && guess_ <= Guess::by_track; }
  uint64_t at(uint64_t key) {
    place_ = &numbers_[key];
    return *place_;
  }

  Guess guess_ = Guess::nothing;
  uint64_t* place_ = nullptr;
  uint64_t last_ = 0, last_external_ = 0;
  LastNumbers numbers_;
};

// How far a number is from what was expected, and back. Numbers of tables (names, texts, ...) are either as expected
// (0) or stand as they are (one more).
inline uint64_t difference(uint64_t number, uint64_t expected) {
  const auto moved = static_cast<int64_t>(number - expected);
  return static_cast<uint64_t>(moved) << 1 ^ static_cast<uint64_t>(moved >> 63);
}
inline uint64_t from_difference(uint64_t difference, uint64_t expected) {
  return expected + (difference >> 1 ^ (~(difference & 1) + 1));
}
inline uint64_t entry_code(uint64_t entry, uint64_t expected, Guess guess) {
  return guess != Guess::nothing && entry == expected ? 0 : entry + 1;
}
inline uint64_t from_entry_code(uint64_t code, uint64_t expected) { return code == 0 ? expected : code - 1; }

}  // namespace hyperion::trace
