#include "hyperion/blocks/matrix_parts.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <array>

#include "tests/support/devices.h"

namespace hyperion::blocks {
namespace {

class MatrixParts : public testing::OnDevice {};

struct Place {
  int64_t row, column, rows, columns;
};
struct MatrixCase {
  int64_t rows, columns, beside;  // columns of the wider matrix behind it
  std::vector<Place> places;
};

// In pieces of 16 bytes and where these do not fit; with gaps, which become 0, and none; what lies beside stays.
TEST_P(MatrixParts, lie_in_their_places_with_zeros_between) {
  const std::array cases = {MatrixCase{64, 48, 16, {{0, 0, 40, 16}, {40, 16, 8, 16}, {48, 32, 16, 16}}},
                            MatrixCase{33, 24, 8, {{0, 0, 33, 24}}},
                            MatrixCase{7, 13, 3, {{1, 2, 3, 5}, {4, 7, 3, 6}}},
                            MatrixCase{5, 9, 0, {}},
                            MatrixCase{1, 1, 0, {{0, 0, 1, 1}}},
                            MatrixCase{0, 8, 8, {}},
                            MatrixCase{300, 2048, 8, {{0, 8, 300, 2040}}}};
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble})
    for (const bool turned : {false, true})
      for (const auto& c : cases) {
        SCOPED_TRACE(::testing::Message() << c10::toString(type) << " " << c.rows << " x " << c.columns);
        const auto wide = at::full({c.rows, c.columns + c.beside}, 7.0, at::TensorOptions(GetParam()).dtype(type));
        const auto expected = at::zeros({c.rows, c.columns}, wide.options());
        std::vector<MatrixPart> parts;
        for (const auto& [row, column, rows, columns] : c.places) {
          const auto from = at::randn({turned ? columns : rows, turned ? rows : columns}).to(wide.options());
          parts.push_back({turned ? from.t() : from, row, column});
          expected.narrow(0, row, rows).narrow(1, column, columns).copy_(parts.back().from);
        }
        put_together(wide.narrow(1, 0, c.columns), parts);
        EXPECT_TRUE(wide.narrow(1, 0, c.columns).equal(expected));
        EXPECT_TRUE(wide.narrow(1, c.columns, c.beside).eq(7).all().item<bool>());
      }
}

TEST_P(MatrixParts, have_to_lie_within_their_matrix) {
  const auto out = at::zeros({4, 8}, at::TensorOptions(GetParam())), part = at::zeros({2, 3}, out.options());
  EXPECT_ANY_THROW(put_together(out, {{part, 3, 0}}));
  EXPECT_ANY_THROW(put_together(out, {{part, 0, 6}}));
  EXPECT_ANY_THROW(put_together(out, {{part, -1, 0}}));
  EXPECT_ANY_THROW(put_together(out, {{part.to(at::kDouble), 0, 0}}));
}

INSTANTIATE_TEST_SUITE_P(Devices, MatrixParts, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::blocks
