#include "hyperion/tokenizers/traced_text.h"

#include <gtest/gtest.h>

#include "hyperion/tokenizers/normal_forms.h"

namespace hyperion::tokenizers {
namespace {

TEST(TracedText, KnowsWhereKeptPutAndCutBytesCameFrom) {
  const TracedText whole("..abcdef", 10, true);
  Rewrite first(whole);
  first.keep(2, 5);        // abc, from 12
  first.put("XYZ", 5, 7);  // for de
  first.keep(7, 8);        // f
  const auto once = first.finish();
  ASSERT_EQ(once.text(), "abcXYZf");
  EXPECT_EQ(once.origin(0, 3), (text::ByteRange{12, 15}));
  EXPECT_EQ(once.origin(4, 5), (text::ByteRange{15, 17}));
  EXPECT_EQ(once.origin(2, 7), (text::ByteRange{14, 18}));

  const auto part = once.part(2, 5);
  EXPECT_EQ(part.text(), "cXY");
  EXPECT_EQ(part.origin(0, 1), (text::ByteRange{14, 15}));

  Rewrite again(once);
  again.put("!", 0, 4);
  again.keep(6, 7);
  const auto twice = again.finish();
  ASSERT_EQ(twice.text(), "!f");
  EXPECT_EQ(twice.origin(0, 1), (text::ByteRange{12, 17}));
  EXPECT_EQ(twice.origin(1, 2), (text::ByteRange{17, 18}));
}

TEST(TracedText, ThatLostItsStartIsStillInPlace) {
  const TracedText whole("  ab", 0, true);
  Rewrite rewrite(whole);
  rewrite.keep(2, 3);
  rewrite.keep(3, 4);
  rewrite.put("!", 3, 4);
  const auto out = rewrite.finish();
  EXPECT_EQ(out.origin(0, 1), (text::ByteRange{2, 3}));
  EXPECT_EQ(out.origin(2, 3), (text::ByteRange{3, 4}));
}

TEST(TracedText, ComposedAndDecomposedCharactersComeFromAllTheirParts) {
  const auto composed = normalized(TracedText("ae\xCC\x81z", 0, true), NormalForm::kNfc);
  ASSERT_EQ(composed.text(), "a\xC3\xA9z");
  EXPECT_EQ(composed.origin(1, 3), (text::ByteRange{1, 4}));
  EXPECT_EQ(composed.origin(3, 4), (text::ByteRange{4, 5}));

  const auto apart = normalized(TracedText("\xC3\xA9z", 0, true), NormalForm::kNfd);
  ASSERT_EQ(apart.text(), "e\xCC\x81z");
  EXPECT_EQ(apart.origin(0, 1), (text::ByteRange{0, 2}));
  EXPECT_EQ(apart.origin(1, 4), (text::ByteRange{0, 3}));

  // Two marks that change places.
  const auto sorted = normalized(TracedText("a\xCC\x81\xCC\xA3z", 0, true), NormalForm::kNfd);
  ASSERT_EQ(sorted.text(), "a\xCC\xA3\xCC\x81z");
  EXPECT_EQ(sorted.origin(1, 3), (text::ByteRange{1, 5}));
  EXPECT_EQ(sorted.origin(3, 6), (text::ByteRange{1, 6}));
}

}  // namespace
}  // namespace hyperion::tokenizers
