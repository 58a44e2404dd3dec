// The numbers that stand in the places of a form (packed_fields.h), as our own trace file has them: a column each.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace hyperion::trace {

enum class Piece : uint8_t {
  integer,
  fraction,  // of a decimal: how many digits follow the point
  digits,    // of a decimal
  quoted,    // the number of a text between quotes
  bare,      // the number of a text that is a value of JSON
};
constexpr bool is_text(Piece piece) { return piece == Piece::quoted || piece == Piece::bare; }

// In their order. False where the form is not JSON with values in its places, or is not UTF-8.
bool read_pieces(std::string_view form, std::vector<Piece>& pieces);

}  // namespace hyperion::trace
