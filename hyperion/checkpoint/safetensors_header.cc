#include "hyperion/checkpoint/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"

namespace hyperion::checkpoint {
namespace {

using base::format;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;     // the format's own limit
constexpr size_t kMaxDims = 64;                       // more than any tensor of ours can have
constexpr uint64_t kSpareBytes = uint64_t{48} << 20;  // what a header may take in memory beyond the file's size
// An upper bound on what one tensor, dim or metadata pair takes, its place in growing tables included.
constexpr uint64_t kEntryBytes = 560, kDimBytes = 48, kPairBytes = 160;
constexpr size_t kMaxDepth = 127;  // of objects and arrays, as in the format's own reader
constexpr std::string_view kMetadataKey = "__metadata__";
constexpr size_t kNoType = SIZE_MAX;

size_t type_named(std::string_view name) {
  const auto& types = tensor_types();
  const auto found =
      std::find_if(types.begin(), types.end(), [&](const TensorType& type) { return type.name == name; });
  return found == types.end() ? kNoType : static_cast<size_t>(found - types.begin());
}

// A name out of a broken file may be long or hold anything; messages show a readable start of it.
std::string shown(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 80)) text += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  return name.size() > 80 ? text + "..." : text;
}

// Takes only what the format allows, as the text is read: anything else stops the parser there, before it is stored.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  // `budget`: bytes that may be kept of what is read.
  HeaderReader(const std::string& place, uint64_t budget) : place_(place), budget_(budget) {}
  Header take() { return std::move(header_); }

  bool key(string_t& name) override {
    if (ignored_depth_ > 0) return true;
    if (level_ == Level::top) return open_entry(name);
    if (level_ == Level::metadata) {
      if (header_.metadata.count(name) != 0) fail(format("metadata key \"{}\" occurs twice", shown(name)));
      metadata_key_ = name;
      return true;
    }
    return open_field(name);
  }

  bool start_object(std::size_t) override {
    if (ignoring()) return ignore_deeper();
    if (level_ == Level::file) {
      level_ = Level::top;
    } else if (level_ == Level::top) {
      level_ = in_metadata_ ? Level::metadata : Level::entry;
    } else {
      fail("an object where none may be");
    }
    return true;
  }

  bool end_object() override {
    if (ignored_depth_ > 0) return --ignored_depth_, true;
    if (level_ == Level::entry && (!has_dtype_ || !has_shape_ || !has_offsets_))
      fail("dtype, shape or data_offsets is missing");
    if (level_ != Level::top) place_in_file_.clear();
    level_ = level_ == Level::top ? Level::file : Level::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (ignoring()) return ignore_deeper();
    if (level_ != Level::entry || field_ == Field::dtype) fail("an array where none may be");
    level_ = Level::numbers;
    return true;
  }

  bool end_array() override {
    if (ignored_depth_ > 0) return --ignored_depth_, true;
    if (field_ == Field::offsets && offsets_read_ != 2) fail("data_offsets is not a pair");
    level_ = Level::entry;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (ignoring()) return true;
    if (level_ != Level::numbers) fail("a number where none may be");
    HeaderEntry& entry = header_.entries.back();
    if (field_ == Field::shape) {
      if (number > INT64_MAX) fail("a dim is too large");
      if (entry.shape.size() == kMaxDims) fail(format("more than {} dims", kMaxDims));
      spend(kDimBytes);
      entry.shape.push_back(static_cast<int64_t>(number));
    } else {
      if (offsets_read_ == 2) fail("data_offsets is not a pair");
      (offsets_read_++ == 0 ? entry.begin : entry.end) = number;
    }
    return true;
  }

  bool string(string_t& text) override {
    if (ignoring()) return true;
    if (level_ == Level::metadata) {
      spend(kPairBytes + metadata_key_.size() + text.size());
      header_.metadata[metadata_key_] = text;
      return true;
    }
    if (level_ != Level::entry || field_ != Field::dtype) fail("a string where none may be");
    const size_t type = type_named(text);
    if (type == kNoType) fail(format("dtype \"{}\" is not known", shown(text)));
    header_.entries.back().type = type;
    return true;
  }

  bool null() override {
    const bool no_metadata = level_ == Level::top && in_metadata_;
    return ignoring() || no_metadata || fail("null where none may be");
  }
  bool boolean(bool) override { return ignoring() || fail("true or false where none may be"); }
  bool number_integer(number_integer_t) override { return ignoring() || fail("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return ignoring() || fail("a number that is not a whole one");
  }
  bool binary(binary_t&) override { return fail("binary where none may be"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    place_in_file_.clear();
    return fail(format("the header is not valid JSON in UTF-8 (byte {} of it)", position));
  }

 private:
  enum class Level { file, top, metadata, entry, numbers };
  enum class Field { dtype, shape, offsets, unknown };

  [[noreturn]] bool fail(const std::string& reason) const {
    throw base::CorruptError(format("{}{}: {}", place_, place_in_file_, reason));
  }

  void spend(uint64_t bytes) {
    if (bytes > budget_) fail("the header would take more memory than its file warrants");
    budget_ -= bytes;
  }

  // Inside the value of a field that the format does not know.
  bool ignoring() const { return ignored_depth_ > 0 || (level_ == Level::entry && field_ == Field::unknown); }

  bool ignore_deeper() {
    if (++ignored_depth_ + 2 > kMaxDepth) fail(format("nested more than {} deep", kMaxDepth));
    return true;
  }

  bool open_entry(const std::string& name) {
    place_in_file_ = format(", tensor \"{}\"", shown(name));
    in_metadata_ = name == kMetadataKey;
    spend(kEntryBytes + 4 * name.size());
    if (!names_.insert(name).second) fail("the name occurs twice in the header");
    has_dtype_ = has_shape_ = has_offsets_ = false;
    if (in_metadata_)
      place_in_file_ = ", __metadata__";
    else
      header_.entries.emplace_back().name = name;
    return true;
  }

  bool open_field(const std::string& name) {
    bool* seen = name == "dtype"          ? &has_dtype_
                 : name == "shape"        ? &has_shape_
                 : name == "data_offsets" ? &has_offsets_
                                          : nullptr;
    field_ = Field::unknown;
    if (seen == nullptr) return true;
    if (*seen) fail(format("{} occurs twice", name));
    *seen = true;
    field_ = seen == &has_dtype_ ? Field::dtype : seen == &has_shape_ ? Field::shape : Field::offsets;
    offsets_read_ = 0;
    return true;
  }

  const std::string& place_;
  uint64_t budget_;
  std::string place_in_file_, metadata_key_;
  Header header_;
  std::unordered_set<std::string> names_;
  Level level_ = Level::file;
  Field field_ = Field::dtype;
  bool in_metadata_ = false, has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_read_ = 0;
  size_t ignored_depth_ = 0;
};

std::string_view header_json(std::string_view file, const std::string& place) {
  if (file.size() < kLengthBytes)
    throw base::CorruptError(format("{}: {} bytes are too few for a safetensors file", place, file.size()));
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxHeaderBytes)
    throw base::CorruptError(format("{}: a header of {} bytes is over the format's limit", place, length));
  if (length > file.size() - kLengthBytes)
    throw base::CorruptError(
        format("{}: the header ({} bytes) reaches beyond the file ({})", place, length, file.size()));
  const std::string_view json = file.substr(kLengthBytes, length);
  const size_t begin = json.find_first_not_of(" \t\r\n");
  if (begin == json.npos || json[begin] != '{')
    throw base::CorruptError(format("{}: the header does not start with an object", place));
  if (const size_t zero = json.find('\0'); zero != json.npos)  // to the parser the end of the text
    throw base::CorruptError(format("{}: the header is not valid JSON in UTF-8 (byte {} of it)", place, zero + 1));
  return json;
}

void check_size(const HeaderEntry& entry, const std::string& place) {
  const auto fail = [&](const std::string& reason) {
    throw base::CorruptError(format("{}, tensor \"{}\": {}", place, shown(entry.name), reason));
  };
  // A dim of 0 makes the tensor empty, but the others must still be such that strides can be computed.
  uint64_t elements = 1, bits = tensor_types()[entry.type].bits;
  bool empty = false;
  for (const int64_t dim : entry.shape) {
    empty = empty || dim == 0;
    if (dim != 0 && (__builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements) || elements > INT64_MAX))
      fail("the shape has too many elements");
  }
  if (__builtin_mul_overflow(elements, bits, &bits)) fail("the shape has too many bytes");
  if (empty) bits = 0;
  if (bits % 8 != 0) fail("the last element does not end with a byte");
  const uint64_t bytes = bits / 8;
  if (entry.begin > entry.end) fail(format("data_offsets [{}, {}] run backwards", entry.begin, entry.end));
  if (entry.end - entry.begin != bytes)
    fail(format("data_offsets hold {} bytes, shape and dtype need {}", entry.end - entry.begin, bytes));
}

void check_layout(const std::vector<HeaderEntry>& entries, uint64_t data_bytes, const std::string& place) {
  uint64_t reached = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != reached)
      throw base::CorruptError(format("{}, tensor \"{}\": data begins at byte {}, {} is expected ({})", place,
                                      shown(entry.name), entry.begin, reached,
                                      entry.begin < reached ? "an overlap" : "a hole"));
    reached = entry.end;
  }
  if (reached != data_bytes)
    throw base::CorruptError(format("{}: the tensors hold {} bytes, the file {}", place, reached, data_bytes));
}

std::string quoted(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw base::ConfigError(format("\"{}\" is not UTF-8, as a safetensors header must be", shown(text)));
  }
}

std::string entry_text(const HeaderEntry& entry) {
  std::string dims;
  for (const int64_t dim : entry.shape) dims += format("{}{}", dims.empty() ? "" : ",", dim);
  return format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", quoted(entry.name),
                tensor_types()[entry.type].name, dims, entry.begin, entry.end);
}

}  // namespace

const std::vector<TensorType>& tensor_types() {
  using at::ScalarType;
  static const std::vector<TensorType> types = {{"BOOL", ScalarType::Bool, 8},
                                                {"F4", ScalarType::Undefined, 4},
                                                {"F6_E2M3", ScalarType::Undefined, 6},
                                                {"F6_E3M2", ScalarType::Undefined, 6},
                                                {"U8", ScalarType::Byte, 8},
                                                {"I8", ScalarType::Char, 8},
                                                {"F8_E5M2", ScalarType::Float8_e5m2, 8},
                                                {"F8_E4M3", ScalarType::Float8_e4m3fn, 8},
                                                {"F8_E8M0", ScalarType::Float8_e8m0fnu, 8},
                                                {"F8_E4M3FNUZ", ScalarType::Float8_e4m3fnuz, 8},
                                                {"F8_E5M2FNUZ", ScalarType::Float8_e5m2fnuz, 8},
                                                {"I16", ScalarType::Short, 16},
                                                {"U16", ScalarType::UInt16, 16},
                                                {"F16", ScalarType::Half, 16},
                                                {"BF16", ScalarType::BFloat16, 16},
                                                {"I32", ScalarType::Int, 32},
                                                {"U32", ScalarType::UInt32, 32},
                                                {"F32", ScalarType::Float, 32},
                                                {"C64", ScalarType::ComplexFloat, 64},
                                                {"F64", ScalarType::Double, 64},
                                                {"I64", ScalarType::Long, 64},
                                                {"U64", ScalarType::UInt64, 64}};
  return types;
}

std::string header_text(const Header& header) {
  std::string json = "{";
  if (!header.metadata.empty()) {
    std::string pairs;
    for (const auto& [key, value] : header.metadata)
      pairs += (pairs.empty() ? "" : ",") + quoted(key) + ":" + quoted(value);
    json += format("\"{}\":{{{}}}", kMetadataKey, pairs);
  }
  for (const HeaderEntry& entry : header.entries) json += (json.size() == 1 ? "" : ",") + entry_text(entry);
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string text(kLengthBytes, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + json;
}

Header parse_header(std::string_view file, const std::string& place) {
  const std::string_view json = header_json(file, place);
  HeaderReader reader(place, file.size() + kSpareBytes);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  Header header = reader.take();
  header.data_start = kLengthBytes + json.size();
  for (const HeaderEntry& entry : header.entries) check_size(entry, place);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(header.entries, file.size() - header.data_start, place);
  return header;
}

}  // namespace hyperion::checkpoint
