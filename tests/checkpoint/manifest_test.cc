#include "hyperion/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/hash.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

Manifest example() {
  return {
      120,
      "2026-11-15T01:40:00Z",
      "0.1.0",
      {{"shard-0.safetensors", 9223372036854775807u, std::string(32, 'a')}, {"notes.json", 0, std::string(32, '0')}},
      R"({"cursor":{"epoch":1,"offset":9007199254740993},"lr":0.0003,"text":"é"})"};
}

std::string with_checksum(std::string body) {
  return body + ",\n  \"checksum\": \"" + base::hash_hex(body) + "\"\n}\n";
}

TEST(Manifest, reads_back_what_was_written) {
  const Manifest written = example(), read = parse_manifest(manifest_text(written), "m");
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.created, written.created);
  EXPECT_EQ(read.version, written.version);
  EXPECT_EQ(read.state, written.state);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].name, written.files[0].name);
  EXPECT_EQ(read.files[0].bytes, written.files[0].bytes);
  EXPECT_EQ(read.files[0].xxh3_128, written.files[0].xxh3_128);
}

TEST(Manifest, every_flipped_bit_and_every_cut_is_found) {
  const std::string text = manifest_text(example());
  for (size_t byte = 0; byte < text.size(); ++byte)
    for (int bit = 0; bit < 8; ++bit) {
      std::string broken = text;
      broken[byte] ^= static_cast<char>(1 << bit);
      EXPECT_THROW(parse_manifest(broken, "m"), base::CorruptError) << byte << " " << bit;
    }
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_THROW(parse_manifest(text.substr(0, size), "m"), base::CorruptError) << size;
}

TEST(Manifest, a_sound_checksum_does_not_excuse_wrong_content) {
  const auto refusal = [](const std::string& body) {
    return error_of([&] { parse_manifest(with_checksum(body), "m"); });
  };
  const std::string head = R"({"format":1,"step":1,"created":"","version":"","state":{},"files":)";
  const std::string hash(32, 'a');
  EXPECT_EQ(refusal(head + "[]"), "");
  EXPECT_NE(refusal(R"({"format":2)").find("format 2"), std::string::npos);
  EXPECT_NE(refusal(R"({"format":1)").find("lacks a member"), std::string::npos);
  EXPECT_NE(refusal(head + R"([{"name":"../x","bytes":1,"xxh3_128":")" + hash + "\"}]").find("not in its folder"),
            std::string::npos);
  EXPECT_NE(refusal(head + R"([{"name":"x","bytes":1,"xxh3_128":"zz"}])").find("no hash for x"), std::string::npos);
  EXPECT_NE(refusal(head + R"([{"name":"x","bytes":-1,"xxh3_128":")" + hash + "\"}]").find("not a count"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"format":1,"step":1.5)").find("a step that is not a count"), std::string::npos);
  const std::string x = R"({"name":"x","bytes":1,"xxh3_128":")" + hash + "\"}";
  EXPECT_NE(refusal(head + "[" + x + "," + x + "]").find("lists x twice"), std::string::npos);
  EXPECT_NE(refusal("nonsense").find("not JSON"), std::string::npos);
}

TEST(Manifest, says_whether_size_or_hash_differs) {
  const std::string content = "some content";
  const ManifestFile right{"f", content.size(), base::hash_hex(content)};
  EXPECT_EQ(error_of([&] { verify_content(right, content, "f"); }), "");
  EXPECT_NE(error_of([&] { verify_content(right, "some", "f"); }).find("f has 4 bytes, its manifest says 12"),
            std::string::npos);
  EXPECT_NE(error_of([&] { verify_content(right, "some kontent", "f"); }).find("f has the hash"), std::string::npos);
}

TEST(Manifest, the_state_must_be_an_object) {
  Manifest manifest = example();
  manifest.state = "[1]";
  EXPECT_THROW(manifest_text(manifest), base::Error);
  manifest.state = "{";
  EXPECT_THROW(manifest_text(manifest), base::Error);
}

}  // namespace
}  // namespace hyperion::checkpoint::test
