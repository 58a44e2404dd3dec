// Thousands of broken files: the reader refuses each with a CorruptError, or reads it whole, within the memory of the
// file itself.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "hyperion/base/error.h"
#include "hyperion/checkpoint/safetensors_header.h"
#include "tests/checkpoint/support_tensors.h"

namespace hyperion::checkpoint::test {
namespace {

std::string valid_file(const base::Path& path) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : make_snapshot(5).tensors) tensors.push_back({item.name, item.tensor});
  write_safetensors(base::real_files(), path, tensors, {{"format", "pt"}, {"note", "fuzz"}});
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

std::string with_length(const std::string& json) {
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(json.size() >> (8 * i));
  return file + json;
}

int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Each would cost gigabytes if it were built up before it is refused.
TEST(SafetensorsFuzz, headers_that_promise_much_or_nest_deep_cost_little) {
  constexpr int64_t kLong = 32 << 20;
  std::string ones(kLong, '1');
  for (int64_t i = 1; i < kLong; i += 2) ones[i] = ',';
  const int64_t before = peak_memory();
  for (const std::string& header :
       {"{\"x\":" + std::string(kLong, '['), "{\"x\":" + std::string(kLong, '{'),
        "{\"x\":{\"dtype\":\"U8\",\"shape\":[" + ones + "1],\"data_offsets\":[0,1]}}",
        std::string("{\"x\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}")})
    EXPECT_THROW(parse_header(with_length(header), "x"), base::CorruptError) << header.substr(0, 60);
#ifdef __SANITIZE_THREAD__
  constexpr int64_t kShadow = 5;  // the sanitizer's own memory beside each byte of ours
#else
  constexpr int64_t kShadow = 1;
#endif
  EXPECT_LT(peak_memory() - before, 12 * kLong * kShadow);
}

}  // namespace
}  // namespace hyperion::checkpoint::test
