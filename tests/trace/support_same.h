// Whether two traces say the same, whatever numbers their texts have, for tests.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "hyperion/trace/trace.h"

namespace hyperion::trace::test {

inline void expect_same_event(const Trace& a, size_t i, const Trace& b, size_t j) {
  ASSERT_EQ(a.name[i] == kNoString, b.name[j] == kNoString) << i;
  ASSERT_EQ(a.name_text(i), b.name_text(j)) << i;
  const auto &type = a.types[a.type[i]], &other_type = b.types[b.type[j]];
  ASSERT_EQ(type.phase, other_type.phase) << i;
  ASSERT_EQ(type.category, other_type.category) << i;
  ASSERT_EQ(type.category_name == kNoString, other_type.category_name == kNoString) << i;
  ASSERT_EQ(a.names[type.category_name], b.names[other_type.category_name]) << i;
  const auto &track = a.tracks[a.track[i]], &other_track = b.tracks[b.track[j]];
  ASSERT_EQ(track.pid, other_track.pid) << i;
  ASSERT_EQ(track.tid, other_track.tid) << i;
  ASSERT_EQ(track.device, other_track.device) << i;
  ASSERT_EQ(track.stream, other_track.stream) << i;
  ASSERT_EQ(a.begin[i], b.begin[j]) << i;
  ASSERT_EQ(a.duration[i], b.duration[j]) << i;
  ASSERT_EQ(a.correlation(i), b.correlation(j)) << i;
  ASSERT_EQ(a.external(i), b.external(j)) << i;
  ASSERT_EQ(a.fields.text(i), b.fields.text(j)) << i;
}

inline void expect_same_trace(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    expect_same_event(a, i, b, i);
    if (::testing::Test::HasFatalFailure()) return;
  }
  ASSERT_EQ(a.facts.bare, b.facts.bare);
  ASSERT_EQ(a.facts.members.size(), b.facts.members.size());
  for (size_t i = 0; i < a.facts.members.size(); ++i) {
    ASSERT_EQ(a.facts.members[i].key, b.facts.members[i].key);
    ASSERT_EQ(a.facts.members[i].value, b.facts.members[i].value);
  }
}

}  // namespace hyperion::trace::test
