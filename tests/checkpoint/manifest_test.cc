#include "hyperion/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/base/hash.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

Manifest example() {
  return {120,
          "2026-11-15T01:40:00Z",
          "0.1.0",
          {{"shard-0.safetensors",
            {9223372036854775807u, 4096, std::string(32, 'a'), 16, {std::string(32, 'b'), std::string(32, 'c')}}},
           {"shard-1.safetensors", {0, 0, std::string(32, '0'), kBlockBytes, {}}}},
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
  EXPECT_EQ(read.format, 2u);
  const FileHashes &before = written.files[0].hashes, &after = read.files[0].hashes;
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.header_bytes, before.header_bytes);
  EXPECT_EQ(after.header, before.header);
  EXPECT_EQ(after.block_bytes, before.block_bytes);
  EXPECT_EQ(after.blocks, before.blocks);
}

TEST(Manifest, of_the_first_format_is_read_and_written_back_as_it_was) {
  Manifest old = example();
  old.format = 1;
  const Manifest read = parse_manifest(manifest_text(old), "m");
  EXPECT_EQ(read.format, 1u);
  EXPECT_EQ(read.files[0].hashes.header_bytes, read.files[0].hashes.bytes) << "one hash over all of it";
  EXPECT_TRUE(read.files[0].hashes.blocks.empty());
  EXPECT_EQ(manifest_text(read), manifest_text(old));
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
  EXPECT_NE(refusal(R"({"format":3)").find("format 3"), std::string::npos);
  EXPECT_NE(refusal(R"({"format":0)").find("format 0"), std::string::npos);
  const auto of_blocks = [&](const std::string& members) {
    const std::string file = R"({"name":"x","bytes":9,"xxh3_128":")" + hash + "\"," + members + "}";
    return refusal(R"({"format":2,"step":1,"created":"","version":"","state":{},"files":[)" + file + "]");
  };
  EXPECT_EQ(of_blocks(R"("header_bytes":8,"block_bytes":16,"blocks":[")" + hash + "\"]"), "");
  EXPECT_NE(of_blocks(R"("header_bytes":10,"block_bytes":16,"blocks":[])").find("longer than"), std::string::npos);
  EXPECT_NE(of_blocks(R"("header_bytes":8,"block_bytes":24,"blocks":[])").find("cut elements"), std::string::npos);
  EXPECT_NE(of_blocks(R"("header_bytes":8,"block_bytes":0,"blocks":[])").find("cut elements"), std::string::npos);
  EXPECT_NE(of_blocks(R"("header_bytes":8,"block_bytes":16,"blocks":["zz"])").find("no hash"), std::string::npos);
  EXPECT_NE(of_blocks(R"("header_bytes":8,"block_bytes":16)").find("lacks a member"), std::string::npos);
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

TEST(Manifest, the_state_must_be_an_object) {
  Manifest manifest = example();
  manifest.state = "[1]";
  EXPECT_THROW(manifest_text(manifest), base::Error);
  manifest.state = "{";
  EXPECT_THROW(manifest_text(manifest), base::Error);
}

}  // namespace
}  // namespace hyperion::checkpoint::test
