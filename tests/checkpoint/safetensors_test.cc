#include "hyperion/checkpoint/safetensors.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/checkpoint/safetensors_header.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

using base::format;
using base::real_files;

class Safetensors : public testing::Test {
 protected:
  // A file of this header text and data, and what the reader says to it.
  std::string refusal(const std::string& json, const std::string& data = "") {
    std::string file(8, '\0');
    for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(json.size() >> (8 * i));
    write_bytes(path_, file + json + data);
    return error_of([&] { read_all(); });
  }
  std::string refusal_of_bytes(const std::string& file) {
    write_bytes(path_, file);
    return error_of([&] { read_all(); });
  }
  void read_all() {
    const SafetensorsFile file(path_);
    for (const std::string& name : file.names()) file.tensor(name);
  }

  ScratchFolder folder_;
  base::Path path_ = folder_.path() / "x.safetensors";
};

TEST_F(Safetensors, round_trips_every_type_and_odd_shapes_to_the_bit) {
  std::mt19937 random(1);
  const std::vector<std::vector<int64_t>> shapes = {{}, {0}, {1}, {7}, {3, 0, 5}, {1, 1, 1}, {5, 3}, {2, 3, 5, 7}};
  std::vector<NamedTensor> tensors;
  for (const TensorType& type : tensor_types())
    for (const auto& shape : type.dtype == at::ScalarType::Undefined ? decltype(shapes){} : shapes)
      tensors.push_back({format("t{}", tensors.size()), random_tensor(random, shape, type.dtype)});
  std::shuffle(tensors.begin(), tensors.end(), random);
  write_safetensors(real_files(), path_, tensors);
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.names().size(), tensors.size());
  for (const NamedTensor& named : tensors) {
    EXPECT_TRUE(same_bits(file.tensor(named.name), named.tensor)) << named.name;
    EXPECT_EQ(file.shape(named.name), named.tensor.sizes().vec());
    EXPECT_EQ(file.dtype(named.name), named.tensor.scalar_type());
  }
}

TEST_F(Safetensors, writes_the_values_of_strided_tensors) {
  std::mt19937 random(2);
  const at::Tensor base = random_tensor(random, {6, 8}, at::kFloat);
  const std::vector<NamedTensor> tensors = {{"transposed", base.t()},
                                            {"stepped", base.slice(1, 1, 8, 3)},
                                            {"column", base.select(1, 4)},
                                            {"expanded", base.select(0, 2).unsqueeze(0).expand({5, 8})}};
  write_safetensors(real_files(), path_, tensors);
  const SafetensorsFile file(path_);
  for (const NamedTensor& named : tensors) EXPECT_TRUE(same_bits(file.tensor(named.name), named.tensor)) << named.name;
}

TEST_F(Safetensors, writes_tensors_that_lie_on_a_gpu) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no GPU, or a build without CUDA";
  std::mt19937 random(6);
  const at::Tensor host = random_tensor(random, {300, 70}, at::kBFloat16), device = host.to(at::kCUDA);
  write_safetensors(real_files(), path_, {{"whole", device}, {"transposed", device.t()}});
  const SafetensorsFile file(path_);
  EXPECT_TRUE(same_bits(file.tensor("whole"), host));
  EXPECT_TRUE(same_bits(file.tensor("transposed"), host.t()));
}

TEST_F(Safetensors, names_and_metadata_may_hold_any_text) {
  const std::vector<NamedTensor> tensors = {
      {"", at::empty({0})}, {"a\"b\\\n\x01", at::empty({0})}, {"\xc3\xa9", at::empty({0})}};
  const Metadata metadata = {{"format", "pt"}, {"quote \"", "\n"}};
  write_safetensors(real_files(), path_, tensors, metadata);
  const SafetensorsFile file(path_);
  for (const NamedTensor& named : tensors) EXPECT_TRUE(file.has(named.name));
  EXPECT_EQ(file.metadata(), metadata);
}

TEST_F(Safetensors, an_empty_list_makes_a_file_that_reads_back) {
  write_safetensors(real_files(), path_, {});
  EXPECT_TRUE(SafetensorsFile(path_).names().empty());
}

TEST_F(Safetensors, reports_the_size_and_hashes_of_what_lies_on_the_disk) {
  std::mt19937 random(3);
  const FileHashes written = write_safetensors(
      real_files(), path_,
      {{"large", random_tensor(random, {3 << 20}, at::kHalf)}, {"none", at::empty({0})}, {"small", at::zeros({3})}});
  const std::string bytes = real_files().read(path_);
  const SafetensorsFile file(path_);
  EXPECT_EQ(written.bytes, bytes.size());
  EXPECT_EQ(written.header_bytes, file.header_bytes());
  EXPECT_EQ(written.header, base::hash_hex(bytes.substr(0, written.header_bytes)));
  const std::string_view large = file.bytes("large");
  EXPECT_EQ(written.blocks,
            (std::vector<std::string>{base::hash_hex(file.bytes("small")), base::hash_hex(large.substr(0, kBlockBytes)),
                                      base::hash_hex(large.substr(kBlockBytes))}));
}

TEST_F(Safetensors, lays_out_the_widest_type_first_and_aligned) {
  write_safetensors(real_files(), path_,
                    {{"a", at::empty({3}, at::kByte)},
                     {"b", at::empty({3}, at::kHalf)},
                     {"z", at::empty({1}, at::kLong)},
                     {"y", at::empty({1}, at::kLong)}});
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"y", "z", "b", "a"}));
  const std::string bytes = real_files().read(path_);
  EXPECT_EQ((bytes.size() - (8 + 8 + 6 + 3)) % 8, 0u);
  for (const std::string& name : file.names())
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.tensor(name).const_data_ptr()) % file.tensor(name).element_size(), 0u);
}

TEST_F(Safetensors, tensors_outlive_the_reader_and_the_file) {
  std::mt19937 random(4);
  const at::Tensor written = random_tensor(random, {100}, at::kDouble);
  write_safetensors(real_files(), path_, {{"x", written}});
  const at::Tensor read = SafetensorsFile(path_).tensor("x");
  std::filesystem::remove(path_);
  EXPECT_TRUE(same_bits(read, written));
}

TEST_F(Safetensors, reads_data_that_another_writer_left_unaligned) {
  const std::string json = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} ";
  ASSERT_NE(json.size() % 4, 0u);
  ASSERT_EQ(refusal(json, std::string("\0\0\x80\x3f\0\0\0\x40", 8)), "");
  const at::Tensor x = SafetensorsFile(path_).tensor("x");
  EXPECT_EQ(x.const_data_ptr<float>()[0], 1.0f);
  EXPECT_EQ(x.const_data_ptr<float>()[1], 2.0f);
}

TEST_F(Safetensors, refuses_what_the_writer_cannot_hold) {
  EXPECT_THROW(write_safetensors(real_files(), path_, {{"c", at::empty({1}, at::kComplexDouble)}}), base::ConfigError);
  EXPECT_THROW(write_safetensors(real_files(), path_, {{"\xff", at::empty({1})}}), base::ConfigError);
  EXPECT_THROW(write_safetensors(real_files(), path_, {{"a", at::empty({1})}, {"a", at::empty({1})}}), base::Error);
  EXPECT_THROW(write_safetensors(real_files(), path_, {{"__metadata__", at::empty({1})}}), base::Error);
  EXPECT_FALSE(real_files().exists(path_)) << "nothing is begun before the names and types are known to be good";
}

TEST_F(Safetensors, a_missing_file_or_tensor_is_named) {
  EXPECT_THROW(SafetensorsFile{path_}, base::FileError);
  write_safetensors(real_files(), path_, {{"x", at::empty({1})}});
  const SafetensorsFile file(path_);
  EXPECT_FALSE(file.has("y"));
  EXPECT_NE(error_of([&] { file.tensor("y"); }).find("no tensor \"y\""), std::string::npos);
}

TEST_F(Safetensors, refuses_a_broken_frame) {
  EXPECT_NE(refusal_of_bytes("").find("too few"), std::string::npos);
  EXPECT_NE(refusal_of_bytes("1234567").find("too few"), std::string::npos);
  EXPECT_NE(refusal_of_bytes(std::string(8, '\xff') + "{}").find("limit"), std::string::npos);
  EXPECT_NE(refusal_of_bytes(std::string("\x03\0\0\0\0\0\0\0{}", 10)).find("beyond the file"), std::string::npos);
  EXPECT_NE(refusal_of_bytes(std::string(8, '\0')).find("start with an object"), std::string::npos);
  EXPECT_NE(refusal("\xef\xbb\xbf{}").find("start with an object"), std::string::npos);
  EXPECT_NE(refusal(std::string("{}\0", 3)).find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("[]").find("start with an object"), std::string::npos);
  EXPECT_EQ(refusal("{}      "), "");
  EXPECT_EQ(refusal(" \n\t\r{}\n"), "");
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return format("{{\"x\":{{\"dtype\":{},\"shape\":{},\"data_offsets\":{}}}}}", dtype, shape, offsets);
}

TEST_F(Safetensors, every_refusal_names_the_file_the_tensor_and_the_reason) {
  const std::string f32 = "\"F32\"";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {one("\"F33\"", "[1]", "[0,4]"), "dtype \"F33\" is not known"},
      {one("4", "[1]", "[0,4]"), "a number where none may be"},
      {one("[]", "[1]", "[0,4]"), "an array where none may be"},
      {one(f32, "[-1]", "[0,4]"), "a negative number"},
      {one(f32, "[1.0]", "[0,4]"), "not a whole one"},
      {one(f32, "[1e0]", "[0,4]"), "not a whole one"},
      {one(f32, "[true]", "[0,4]"), "true or false"},
      {one(f32, "[null]", "[0,4]"), "null"},
      {one(f32, "[[1]]", "[0,4]"), "an array where none may be"},
      {one(f32, "1", "[0,4]"), "a number where none may be"},
      {one(f32, "[9223372036854775808]", "[0,4]"), "a dim is too large"},
      {one(f32, "[4294967296,4294967296]", "[0,4]"), "too many elements"},
      {one(f32, "[0,4294967296,4294967296]", "[0,0]"), "too many elements"},
      {one(f32, "[4611686018427387904]", "[0,4]"), "too many bytes"},
      {one(f32, "[1]", "[4,0]"), "run backwards"},
      {one(f32, "[1]", "[0]"), "not a pair"},
      {one(f32, "[1]", "[0,4,4]"), "not a pair"},
      {one(f32, "[1]", "[0,8]"), "hold 8 bytes, shape and dtype need 4"},
      {one(f32, "[1]", "{}"), "an object where none may be"},
      {one(f32, "[1]", "[4,8]"), "a hole"},
      {one(f32, "[1]", "[0,4],\"shape\":[1]"), "shape occurs twice"},
      {one(f32, "[1]", "[0,4],\"extra\":" + std::string(126, '[') + std::string(126, ']')), "nested more than 127"},
      {one("\"F4\"", "[3]", "[0,2]"), "does not end with a byte"},
      {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", "missing"},
      {"{\"x\":4}", "a number where none may be"},
      {"{\"x\":[]}", "an array where none may be"},
  };
  for (const auto& [json, reason] : cases) {
    const std::string text = refusal(json, "abcd");
    EXPECT_NE(text.find(reason), std::string::npos) << json << "\n" << text;
    EXPECT_NE(text.find(path_.string() + ", tensor \"x\""), std::string::npos) << text;
  }
}

TEST_F(Safetensors, refuses_duplicates_holes_overlaps_and_loose_ends) {
  const std::string x = "\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}";
  const auto y = [](int begin, int end) {
    return format("\"y\":{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", end - begin, begin, end);
  };
  EXPECT_EQ(refusal("{" + y(4, 6) + "," + x + "}", "abcdef"), "");
  EXPECT_NE(refusal("{" + x + "," + x + "}", "abcd").find("occurs twice"), std::string::npos);
  EXPECT_NE(refusal("{" + x + "," + y(2, 6) + "}", "abcdef").find("an overlap"), std::string::npos);
  EXPECT_NE(refusal("{" + x + "," + y(5, 6) + "}", "abcdef").find("a hole"), std::string::npos);
  EXPECT_NE(refusal("{" + x + "}", "abcdef").find("hold 4 bytes, the file 6"), std::string::npos);
  EXPECT_NE(refusal("{" + x + "}", "abc").find("hold 4 bytes, the file 3"), std::string::npos);
  EXPECT_NE(refusal("{" + x + "} {}", "abcd").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{" + x + ",}", "abcd").find("not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("{\"\xff\":{}}").find("not valid JSON"), std::string::npos);
}

TEST_F(Safetensors, metadata_holds_only_strings_once_each) {
  EXPECT_EQ(refusal("{\"__metadata__\":{\"a\":\"1\"}}"), "");
  EXPECT_NE(refusal("{\"__metadata__\":{\"a\":1}}").find("__metadata__"), std::string::npos);
  EXPECT_NE(refusal("{\"__metadata__\":{\"a\":{}}}").find("__metadata__"), std::string::npos);
  EXPECT_NE(refusal("{\"__metadata__\":\"a\"}").find("__metadata__"), std::string::npos);
  EXPECT_NE(refusal("{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}").find("occurs twice"), std::string::npos);
  EXPECT_NE(refusal("{\"__metadata__\":{},\"__metadata__\":{}}").find("occurs twice"), std::string::npos);
}

TEST_F(Safetensors, refuses_a_bool_that_is_neither_true_nor_false) {
  const std::string json = one("\"BOOL\"", "[2]", "[0,2]");
  EXPECT_EQ(refusal(json, std::string("\0\1", 2)), "");
  EXPECT_NE(refusal(json, "\1\2").find("neither 0 nor 1"), std::string::npos);
}

TEST_F(Safetensors, passes_over_fields_it_does_not_know) {
  for (const std::string& value :
       {std::string("1"), std::string("-2.5e3"), std::string("null"), std::string("[{\"shape\":[1]},true,\"x\"]"),
        std::string("{\"dtype\":{\"dtype\":[]}}"), std::string(125, '[') + std::string(125, ']')})
    EXPECT_EQ(refusal(one("\"U8\"", "[1]", "[0,1],\"extra\":" + value), "a"), "") << value;
  EXPECT_EQ(refusal("{\"__metadata__\":null}"), "");
}

TEST_F(Safetensors, opens_a_file_with_types_no_tensor_here_can_have_and_refuses_those_tensors) {
  EXPECT_NE(refusal(one("\"F4\"", "[4]", "[0,2]"), "ab").find("no tensor here can have"), std::string::npos);
  EXPECT_NE(refusal(one("\"F6_E2M3\"", "[4]", "[0,3]"), "abc").find("no tensor here can have"), std::string::npos);
  EXPECT_EQ(SafetensorsFile(path_).dtype("x"), at::ScalarType::Undefined);
  EXPECT_EQ(refusal(one("\"C64\"", "[1]", "[0,8]"), "abcdefgh"), "");
}

// The list of docs/format_checkpoint.md: the format's own reader takes each of these.
TEST_F(Safetensors, refuses_on_purpose_what_the_formats_own_reader_takes) {
  const std::string entry = "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  std::string pairs, ones;
  for (int i = 0; i < 1'000'000; ++i) pairs += format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  for (int i = 0; i < 65; ++i) ones += i == 0 ? "1" : ",1";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"x\":" + entry + ",\"x\":" + entry + "}", "occurs twice"},
      {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", "occurs twice"},
      {"{\"x\":[\"U8\",[0],[0,0]]}", "an array where none may be"},
      {one("{\"U8\":null}", "[0]", "[0,0]"), "an object where none may be"},
      {one("\"U8\"", "[" + ones + "]", "[0,1]"), "more than 64 dims"},
      {one("\"U8\"", "[0,9223372036854775808]", "[0,0]"), "a dim is too large"},
      {one("\"U8\"", "[0,4294967296,4294967296]", "[0,0]"), "too many elements"},
      {one("\"F64\"", "[0,4611686018427387904]", "[0,0]"), "too many bytes"},
      {"{\"__metadata__\":{" + pairs + "}}", "more memory than its file warrants"}};
  for (const auto& [json, reason] : cases)
    EXPECT_NE(refusal(json, json.find("[0,1]") == json.npos ? "" : "a").find(reason), std::string::npos)
        << json.substr(0, 100);
}

}  // namespace
}  // namespace hyperion::checkpoint::test
