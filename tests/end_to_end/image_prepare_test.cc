// Food-101's folder to a trained model, by the commands of docs/data.md.
#include "tests/end_to_end/support_prepare.h"
#include "tests/support/image_files.h"

namespace hyperion {
namespace {

using testing::image_training;
using testing::Prepare;
using testing::read_file;
using testing::Words;
using testing::write_file;
using testing::operator+;

class Food : public Prepare {
 protected:
  // Food-101's folder: images/<class>/<id>.jpg and the lists in meta.
  void write_food(int each) {
    const Words classes = {"apple_pie", "beef_tartare", "ramen"};
    std::string names, train_list, test_list;
    for (const auto& name : classes) {
      std::filesystem::create_directories(in("food/images/" + name));
      names += name + "\n";
      for (int i = 0; i < each; ++i) {
        const std::string id = name + "/" + std::to_string(1000 + i);
        write_file(in("food/images/" + id + ".jpg"),
                   testing::jpeg_file(testing::picture({60 + static_cast<int64_t>(random_() % 40), 80}, random_)));
        (i < each - 2 ? train_list : test_list) += id + "\n";
      }
    }
    std::filesystem::create_directories(in("food/meta"));
    write_file(in("food/meta/classes.txt"), names);
    write_file(in("food/meta/labels.txt"), "Apple pie\nBeef tartare\nRamen\n");
    write_file(in("food/meta/train.txt"), train_list);
    write_file(in("food/meta/test.txt"), test_list);
    write_file(in("food.toml"), "[prepare]\nfiles = \"" + in("food") +
                                    "\"\nformat = \"images\"\nside = 48\nsafe_seconds = 0\noutput = \"" + in("set") +
                                    "\"\n[augment]\ncrop = \"resized\"\nflip = true\noperations = 2\n" +
                                    image_training("vit-tiny", 0));
  }
};

TEST_F(Food, images_are_prepared_inspected_verified_and_trained_on_in_both_forms) {
  write_food(12);
  for (const std::string store : {"raw", "jpeg"}) {
    const Words flags = {"--prepare.store=" + store, "--prepare.output=" + in("set-" + store)};
    expect_fine(hyperion(Words{"data", "prepare", in("food.toml")} + flags));
    EXPECT_EQ(figures("set-" + store)["train.set"]["images"], 30);
    EXPECT_EQ(figures("set-" + store)["validation.set"]["images"], 6);
    expect_fine(hyperion({"data", "verify", in("set-" + store)}));
    expect_fine(hyperion(train("food.toml", "food-" + store) + flags));
    EXPECT_EQ(testing::losses(scratch_.runs() / ("food-" + store)).size(), 4u);
  }
  // Straight from the files, with any number of threads: the same samples.
  for (const std::string threads : {"1", "3"})
    expect_fine(hyperion(train("food.toml", "files-" + threads) +
                         Words{"--data.source=images", "--data.path=" + in("food"), "--data.threads=" + threads}));
  EXPECT_EQ(testing::losses(scratch_.runs() / "files-1"), testing::losses(scratch_.runs() / "files-3"));
}

TEST_F(Food, killed_at_any_point_it_goes_on_and_gives_the_same_bytes) {
  write_food(30);
  expect_fine(hyperion({"data", "prepare", in("food.toml"), "--output", in("whole")}));
  for (int round = 0; round < 4; ++round)
    EXPECT_NE(hyperion({"data", "prepare", in("food.toml")},
                       {{"HYPERION_FAULTS", "prepare.batch=kill@" + std::to_string(1 + random_() % 15)}})
                  .code,
              0);
  expect_fine(hyperion({"data", "prepare", in("food.toml")}));
  for (const char* name : {"train.set", "validation.set"})
    EXPECT_TRUE(read_file(in("set/") + name) == read_file(in("whole/") + name)) << name;
}

TEST_F(Food, an_image_that_is_listed_and_missing_is_named_or_skipped) {
  write_food(8);
  std::filesystem::remove(in("food/images/ramen/1003.jpg"));
  const auto failed = hyperion({"data", "prepare", in("food.toml")});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("meta/train.txt:16: images/ramen/1003.jpg is not there"), std::string::npos) << failed.err;
  EXPECT_NE(failed.err.find("--on-bad=skip"), std::string::npos) << failed.err;
  const auto skipped = hyperion({"data", "prepare", in("food.toml"), "--on-bad", "skip"});
  expect_fine(skipped);
  EXPECT_NE(skipped.out.find("1 left out"), std::string::npos) << skipped.out;
}

TEST_F(Food, a_damaged_image_is_named_or_skipped) {
  write_food(8);
  const std::string victim = in("food/images/ramen/1003.jpg"), good = read_file(victim);
  // Cut in the middle; then a header that promises 60,000 by 60,000 pixels.
  std::string bomb = good;
  const size_t frame = bomb.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bomb[frame + 5] = bomb[frame + 7] = '\xea', bomb[frame + 6] = bomb[frame + 8] = '\x60';
  for (const std::string& bad : {good.substr(0, good.size() / 2), bomb, std::string("not an image"), std::string()}) {
    write_file(victim, bad);
    std::filesystem::remove_all(in("set")), std::filesystem::remove_all(in("set.partial"));
    const auto failed = hyperion({"data", "prepare", in("food.toml")});
    EXPECT_EQ(failed.code, 1);
    EXPECT_NE(failed.err.find("ramen/1003.jpg"), std::string::npos) << failed.err;
    EXPECT_NE(failed.err.find("--on-bad=skip"), std::string::npos) << failed.err;
    const auto skipped = hyperion({"data", "prepare", in("food.toml"), "--on-bad", "skip"});
    expect_fine(skipped);
    EXPECT_NE(skipped.out.find("1 left out"), std::string::npos) << skipped.out;
  }
}

}  // namespace
}  // namespace hyperion
