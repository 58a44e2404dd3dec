// Prepared sets with footers that lie: whoever can write the file can also write its hashes.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/hash.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/token_samples.h"
#include "tests/base/support_child.h"
#include "tests/support/fuzz.h"
#include "tests/support/seed.h"

namespace hyperion::testing {
namespace {

// The file with another footer, its length and hash made to fit.
std::string with_footer(const std::string& file, const std::string& footer) {
  uint64_t size = 0;
  std::memcpy(&size, file.data() + file.size() - 32, 8);
  const uint64_t numbers[2] = {footer.size(), base::hash_64(footer)};
  return file.substr(0, file.size() - 32 - size) + footer + std::string(reinterpret_cast<const char*>(numbers), 16) +
         file.substr(file.size() - 16);
}

std::string footer_of(const std::string& file) {
  uint64_t size = 0;
  std::memcpy(&size, file.data() + file.size() - 32, 8);
  return file.substr(file.size() - 32 - size, size);
}

// Other records and sections under hashes that fit them. The file is smaller than a block: there is one hash.
std::string with_body(const std::string& file, std::string body) {
  auto footer = nlohmann::json::parse(footer_of(file));
  const auto hashes_at = footer.at("sections").at("hashes").at(0).get<size_t>();
  body.resize(hashes_at);
  const uint64_t hash = base::hash_64(body);
  const std::string hashes(reinterpret_cast<const char*>(&hash), 8);
  char content[17];
  std::snprintf(content, sizeof content, "%016llx", static_cast<unsigned long long>(base::hash_64(hashes)));
  footer["content"] = content;
  return with_footer(body + hashes + file.substr(hashes_at + 8), footer.dump());
}

template <class Read>
void hold(const std::string& good, Read read) {
  base::test::TestFolder folder;
  std::mt19937 random(seed());
  const std::vector<std::string> words = {"0",      "64",     "-1",     "1e300",   "18446744073709551615",
                                          "\"",     "[",      "}",      "null",    "payload",
                                          "index",  "hashes", "labels", "learned", "width",
                                          "classes"};
  int opened = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string footer = footer_of(good);
    const unsigned kind = random() % 4;
    std::string file = kind == 0   ? mutated(good, good.size(), words, random)
                       : kind == 1 ? with_body(good, mutated(good, good.size(), words, random))
                                   : with_footer(good, mutated(footer, footer.size(), words, random));
    base::real_files().create(folder / "set")->append(file);
    const size_t peak = peak_allocated([&] {
      try {
        read(folder / "set");
        ++opened;
      } catch (const base::CorruptError&) {
      }
    });
    ASSERT_LT(peak, file.size() + kMostReaderBytes);
  }
  EXPECT_GT(opened, 0);
}

TEST(Fuzz, token_sets_that_lie_are_refused_or_read_within_bounds) {
  base::test::TestFolder folder;
  data::TokenWriter writer(base::real_files(), folder / "good", 2, {});
  for (int i = 0; i < 20; ++i) writer.add(std::vector<int32_t>(i, i), std::vector<uint8_t>(i, i % 2));
  writer.finish(300, 0, nlohmann::json::object());
  hold(base::real_files().read(folder / "good"), [](const base::Path& path) {
    const auto set = std::make_shared<const data::TokenSet>(path);
    for (const auto packing : {data::Packing::stream, data::Packing::whole, data::Packing::single}) {
      const auto source = data::make_token_source(set, packing, 8);
      std::vector<int64_t> tokens(9), document(9);
      std::vector<uint8_t> learned(9);
      for (int64_t j = 0; j < std::min<int64_t>(source->samples(), 50); ++j)
        source->read(j, {tokens, learned, document});
    }
    set->verify();
  });
}

TEST(Fuzz, image_sets_that_lie_are_refused_or_read_within_bounds) {
  base::test::TestFolder folder;
  data::ImageSetWriter writer(base::real_files(), folder / "good");
  for (int i = 0; i < 10; ++i) {
    images::Pixels image({3 + i, 5});
    writer.add(data::raw_record(image), i % 3);
  }
  writer.finish("raw", "imagenet", {"a", "b", "c"});
  hold(base::real_files().read(folder / "good"), [](const base::Path& path) {
    const data::ImageSet set(path);
    for (int64_t j = 0; j < std::min<int64_t>(set.images(), 50); ++j) set.label(j), set.pixels(j);
    set.verify();
  });
}

}  // namespace
}  // namespace hyperion::testing
