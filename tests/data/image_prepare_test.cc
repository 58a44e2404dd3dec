#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/data/image_items.h"
#include "hyperion/data/image_set.h"
#include "hyperion/data/open_data.h"
#include "hyperion/data/prepare.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/images/resample.h"
#include "tests/base/support_child.h"
#include "tests/records/support_packed.h"
#include "tests/support/image_files.h"
#include "tests/support/seed.h"

namespace hyperion::data {
namespace {

using base::test::TestFolder;
using records::test::tar_of;
using testing::jpeg_file;
using testing::picture;

void write_image_file(const base::Path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string set_content(const base::Path& path) { return base::real_files().read(path); }

class PrepareImages : public ::testing::Test {
 protected:
  PrepareImages() : random_(testing::seed()) {
    for (int i = 0; i < 30; ++i)
      write_image_file(
          folder_ / ("in/" + std::string(i % 3 == 0 ? "cat" : "dog") + "/" + std::to_string(100 + i) + ".jpg"),
          jpeg_file(picture({40 + i, 60}, random_)));
  }
  PrepareConfig config(const std::string& output, const std::string& input = "in") {
    PrepareConfig config;
    config.format = SetFormat::images;
    config.files = {(folder_ / input).string()};
    config.output = (folder_ / output).string();
    config.validation = 0.2;
    config.threads = 3;
    return config;
  }
  template <class Work>
  std::string refusal(Work work) {
    try {
      work();
    } catch (const base::Error& error) {
      return error.what();
    }
    return "accepted";
  }
  TestFolder folder_;
  std::mt19937 random_;
};

TEST_F(PrepareImages, a_folder_becomes_a_set_that_training_reads) {
  const auto summary = prepare(base::real_files(), config("set"), {});
  EXPECT_EQ(summary.records, 24);
  EXPECT_EQ(summary.validation_records, 6);
  const ImageSet set(folder_ / "set/train.set");
  set.verify();
  EXPECT_EQ(set.classes(), (std::vector<std::string>{"cat", "dog"}));
  const ImageSplit lists = list_images(folder_ / "in", 0.2);
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(set.label(i), lists.train.files[i].label);
    EXPECT_EQ(set.bytes(i), set_content(lists.train.files[i].path));
  }
  EXPECT_TRUE(prepare(base::real_files(), config("set"), {}).was_there);

  DataConfig data;
  data.source = SourceKind::prepared, data.path = {(folder_ / "set").string()};
  data.augment.crop = images::Crop::resized;
  const auto split = open_data(data, {0, 16}, 1);
  std::vector<float> pixels(3 * 16 * 16);
  EXPECT_EQ(split.train_images->read(3, 0, pixels), set.label(3));
  EXPECT_EQ(split.validation_images->samples(), 6);
}

TEST_F(PrepareImages, raw_images_have_their_shorter_side_made_small) {
  auto raw = config("set");
  raw.store = ImageStore::raw, raw.side = 50;
  prepare(base::real_files(), raw, {});
  const ImageSet set(folder_ / "set/train.set");
  set.verify();
  const ImageSplit lists = list_images(folder_ / "in", 0.2);
  int smaller = 0;
  for (int64_t i = 0; i < set.images(); ++i) {
    const images::Pixels whole = images::decode_image(set_content(lists.train.files[i].path), "x"),
                         kept = set.pixels(i);
    if (whole.size.height <= 50) {
      EXPECT_EQ(kept.rgb, whole.rgb);
      continue;
    }
    ++smaller;
    const bool high = whole.size.height > 60;
    const images::ImageSize want =
        high ? images::ImageSize{whole.size.height * 50 / 60, 50} : images::ImageSize{50, 60 * 50 / whole.size.height};
    EXPECT_EQ(kept.size, want);
    EXPECT_EQ(kept.rgb, resize(whole, {whole.whole(), want}).rgb);
  }
  EXPECT_GT(smaller, 8);
}

TEST_F(PrepareImages, a_failure_at_any_operation_goes_on_to_the_same_bytes) {
  for (const char* name : {"few/cat/1.jpg", "few/cat/2.jpg", "few/cat/3.jpg", "few/dog/4.jpg", "few/dog/5.jpg"})
    write_image_file(folder_ / name, jpeg_file(picture({9, 9}, random_)));
  auto often = config("whole", "few");
  often.validation = 0.4;
  often.safe_seconds = 0;
  prepare(base::real_files(), often, {});
  int failures = 0;
  for (int64_t n = 1;; n += 1 + static_cast<int64_t>(random_() % 12)) {
    auto again = often;
    again.output = (folder_ / "set").string();
    base::FaultyFileSystem files;
    files.fail_operation(n);
    bool failed = false;
    try {
      prepare(files, again, {});
    } catch (const base::FileError&) {
      failed = true;
    }
    if (failed) ++failures, prepare(base::real_files(), again, {});
    for (const char* name : {"train.set", "validation.set"})
      ASSERT_EQ(set_content(folder_ / "set" / name), set_content(folder_ / "whole" / name)) << n;
    std::filesystem::remove_all(folder_ / "set");
    if (!failed) break;
  }
  EXPECT_GT(failures, 3);
}

TEST_F(PrepareImages, a_bad_image_stops_it_by_name_or_is_left_out_and_listed) {
  const base::Path bad = folder_ / "in/dog/101.jpg";
  std::filesystem::resize_file(bad, std::filesystem::file_size(bad) - 20);
  write_image_file(folder_ / "in/cat/100.jpg", "");
  const std::string refused = refusal([&] { prepare(base::real_files(), config("set"), {}); });
  EXPECT_NE(refused.find("in/cat/100.jpg: empty"), std::string::npos) << refused;
  auto skipping = config("other");
  skipping.on_bad = records::OnBad::skip;
  const auto summary = prepare(base::real_files(), skipping, {});
  EXPECT_EQ(summary.records + summary.validation_records, 28);
  ASSERT_EQ(summary.bad.size(), 2u);
  EXPECT_EQ(summary.bad[1], bad.string() + ": a JPEG file that is cut off");
  skipping.output += "-2", skipping.bad_limit = 1;
  EXPECT_THROW(prepare(base::real_files(), skipping, {}), base::CorruptError);
}

TEST_F(PrepareImages, shards_of_webdataset_become_a_set_too) {
  std::vector<std::pair<std::string, std::string>> one, two;
  std::vector<std::string> images;
  for (int i = 0; i < 20; ++i) {
    images.push_back(jpeg_file(picture({30, 30 + i}, random_)));
    auto& shard = i < 12 ? one : two;
    const std::string key = "train/" + std::to_string(1000 + i);
    shard.emplace_back(key + ".cls", std::to_string(i % 4) + "\n");
    shard.emplace_back(key + ".json", "{}");
    shard.emplace_back(key + (i % 2 == 0 ? ".jpg" : ".JPEG"), images.back());
  }
  write_image_file(folder_ / "shards/0.tar", tar_of(one)), write_image_file(folder_ / "shards/1.tar", tar_of(two));
  const auto summary = prepare(base::real_files(), config("set", "shards/*.tar"), {});
  EXPECT_EQ(summary.records + summary.validation_records, 20);
  const ImageSet train(folder_ / "set/train.set"), validation(folder_ / "set/validation.set");
  EXPECT_EQ(train.classes().size(), 4u);
  std::multiset<std::string> seen;
  for (const ImageSet* set : {&train, &validation})
    for (int64_t i = 0; i < set->images(); ++i) seen.emplace(set->bytes(i));
  EXPECT_EQ(seen, std::multiset<std::string>(images.begin(), images.end()));
}

std::string told(const std::vector<std::string>& shards, TestFolder& folder) {
  std::vector<base::Path> paths;
  for (size_t i = 0; i < shards.size(); ++i) {
    paths.push_back(folder / (std::to_string(i) + ".tar"));
    write_image_file(paths.back(), shards[i]);
  }
  std::string text;
  const auto items = items_of_shards(paths, {});
  for (ImageItem item; items->next(item);)
    text += item.bad ? "bad(" + item.bad->reason + ") " : item.bytes + "=" + std::to_string(item.label) + " ";
  return text;
}

TEST(ImageItems, what_a_sample_of_a_shard_lacks_is_told_and_the_others_go_on) {
  TestFolder folder;
  const std::string first = tar_of({{"a.jpg", "A"},
                                    {"a.cls", "3"},
                                    {"b.cls", "1"},
                                    {"c.png", "C"},
                                    {"d.cls", "x"},
                                    {"d.jpg", "D"},
                                    {"e.jpg", "E"},
                                    {"e.png", "E"},
                                    {"e.cls", "0"},
                                    {"f.jpg", "F"},
                                    {"f.cls", "1000000"},
                                    {"g.jpg", "G"},
                                    {"g.cls", "-1"},
                                    {"h.jpg", "H"},
                                    {"h.cls", std::string(65, '1')},
                                    {"i.x.jpg", "I"},
                                    {"i.cls", "5"}});
  const std::string text = told({first, tar_of({{"a.jpg", "again"}, {"a.cls", "7"}})}, folder);
  EXPECT_EQ(text,
            "A=3 bad(b has no image (.jpg, .jpeg or .png)) bad(c has no label (.cls)) "
            "bad(d has the label \"x\", which is no number in 0 .. 999999) bad(e has more than one image) "
            "bad(f has the label \"1000000\", which is no number in 0 .. 999999) "
            "bad(g has the label \"-1\", which is no number in 0 .. 999999) bad(h has 65 B of cls) "
            "bad(i has no image (.jpg, .jpeg or .png)) again=7 ");
}

TEST(ImageItems, a_name_twice_in_a_row_is_told_as_such) {
  TestFolder folder;
  const std::string shard =
      tar_of({{"a.jpg", "A"}, {"a.cls", "0"}, {"a.jpg", "second"}, {"a.cls", "1"}, {"b.cls", "1"}, {"b.png", "B"}});
  EXPECT_EQ(told({shard}, folder),
            "bad(a has .jpg twice: the name of a sample must not come again right after it) B=1 ");
}

TEST(ImageItems, what_is_not_utf_8_in_a_shard_is_told_in_utf_8) {
  TestFolder folder;
  const std::string shard =
      tar_of({{"caf\xe9.jpg", "A"}, {"caf\xe9.cls", "3"}, {"\xff.jpg", "B"}, {"c.jpg", "C"}, {"c.cls", "\xfe"}});
  EXPECT_EQ(told({shard}, folder),
            "A=3 bad(\\xff has no label (.cls)) bad(c has the label \"\\xfe\", which is no number in 0 .. 999999) ");
}

TEST(ImageItems, a_shard_that_was_cut_gives_what_came_before_and_is_told_once) {
  TestFolder folder;
  const std::string whole = tar_of({{"a.jpg", "A"}, {"a.cls", "3"}, {"b.jpg", std::string(2000, 'B')}, {"b.cls", "1"}});
  const std::string after = tar_of({{"z.jpg", "Z"}, {"z.cls", "9"}});
  for (const size_t length : {size_t{0}, size_t{100}, size_t{1500}, size_t{2048}, size_t{3000}, whole.size() - 1024}) {
    const std::string text = told({whole.substr(0, length), after}, folder);
    EXPECT_EQ(text.find("A=3 ") == 0, length >= 2048) << length << " " << text;
    EXPECT_NE(text.find("bad("), std::string::npos) << length;
    EXPECT_EQ(text.find("bad("), text.rfind("bad(")) << length << " " << text;
    EXPECT_TRUE(text.ends_with("Z=9 ")) << length << " " << text;
  }
}

TEST(ImageItems, skipping_ends_where_reading_would) {
  TestFolder folder;
  write_image_file(folder / "0.tar",
                   tar_of({{"a.jpg", "A"}, {"a.cls", "3"}, {"b.cls", "1"}, {"c.jpg", "C"}, {"c.cls", "2"}}));
  const auto items = items_of_shards({folder / "0.tar"}, {});
  items->skip(2);
  ImageItem item;
  ASSERT_TRUE(items->next(item));
  EXPECT_EQ(item.bytes, "C");
  EXPECT_FALSE(items->next(item));
}

}  // namespace
}  // namespace hyperion::data
