// Thousands of broken files: the reader refuses each with a CorruptError, or reads it whole, within the memory of the
// file itself.
#include <gtest/gtest.h>
#include <malloc.h>

#include "hyperion/base/error.h"
#include "hyperion/checkpoint/safetensors_header.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

std::string valid_file(const base::Path& path) {
  const Snapshot snapshot = make_snapshot(5);
  write_safetensors(base::real_files(), path, snapshot.tensors, {{"format", "pt"}, {"note", "fuzz"}});
  return base::real_files().read(path);
}

size_t header_end(const std::string& file) {
  return 8 + static_cast<unsigned char>(file[0]) + 256 * static_cast<unsigned char>(file[1]);
}

// One to three breaks, most of them in the header, where there is something to misread.
std::string mutate(const std::string& original, std::mt19937& random) {
  static const std::string tokens = "{}[]\",:0129-e.\\u\xff\x00 ";
  std::string file = original;
  for (int left = 1 + random() % 3; left > 0 && !file.empty(); --left) {
    const size_t reach = random() % 4 == 0 ? file.size() : std::min(file.size(), header_end(original));
    const size_t at = random() % reach, other = random() % file.size(), length = random() % 40;
    switch (random() % 7) {
      case 0:
        file[at] ^= static_cast<char>(1 << random() % 8);
        break;
      case 1:
        file[at] = tokens[random() % tokens.size()];
        break;
      case 2:
        file.resize(random() % (file.size() + 1));
        break;
      case 3:
        file.erase(at, length);
        break;
      case 4:
        file.insert(at, file.substr(other, length));
        break;
      case 5:
        file.replace(at, std::min(length, file.size() - at), file.substr(other, length));
        break;
      default:
        file[random() % std::min<size_t>(8, file.size())] = static_cast<char>(random());
        break;
    }
  }
  return file;
}

// Whether the file was read; a CorruptError means it was not, anything else fails the test.
bool reads(const base::Path& path) {
  try {
    const SafetensorsFile file(path);
    for (const std::string& name : file.names()) {
      const at::Tensor tensor = file.tensor(name);
      volatile unsigned char sum = 0;
      const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
      for (size_t i = 0; i < tensor.nbytes(); ++i) sum = sum + bytes[i];
    }
    return true;
  } catch (const base::CorruptError&) {
    return false;
  }
}

TEST(SafetensorsFuzz, broken_files_are_refused_or_read_but_never_crash) {
  const ScratchFolder folder;
  const base::Path path = folder.path() / "x.safetensors";
  const std::string original = valid_file(path);
  std::mt19937 random(20260);
  int read = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    write_bytes(path, mutate(original, random));
    (reads(path) ? read : refused) += 1;
  }
  EXPECT_GT(refused, 3000);
  EXPECT_GT(read, 50) << "mutations that leave the file valid show that the test does not merely break everything";
}

TEST(SafetensorsFuzz, every_truncation_is_refused) {
  const ScratchFolder folder;
  const base::Path path = folder.path() / "x.safetensors";
  const std::string original = valid_file(path);
  for (size_t size = 0; size < original.size(); ++size) {
    write_bytes(path, original.substr(0, size));
    EXPECT_FALSE(reads(path)) << size;
  }
}

TEST(SafetensorsFuzz, headers_that_promise_much_and_nest_deep_cost_nothing) {
  const auto with_length = [](const std::string& json) {
    std::string file(8, '\0');
    for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(json.size() >> (8 * i));
    return file + json;
  };
  const size_t before = mallinfo2().uordblks;
  const std::vector<std::string> headers = {
      "{\"x\":" + std::string(1 << 20, '['), "{\"x\":" + std::string(1 << 20, '{'),
      "{\"x\":{\"shape\":[" + std::string(1 << 20, '1') + "]}}",
      "{\"x\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}"};
  for (const std::string& header : headers)
    EXPECT_THROW(parse_header(with_length(header), "x"), base::CorruptError) << header.substr(0, 60);
  size_t held = 0;
  for (const std::string& header : headers) held += header.capacity();
  EXPECT_LT(mallinfo2().uordblks, before + held + (4 << 20));
}

}  // namespace
}  // namespace hyperion::checkpoint::test
