// Files among a folder's images that are none: told before anything is trained, left out of a set where that is asked.
#include <sys/stat.h>

#include "tests/end_to_end/support_prepare.h"
#include "tests/end_to_end/support_tree.h"
#include "tests/support/image_files.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

class BrokenImages : public testing::Prepare {
 protected:
  void SetUp() override {
    for (const std::string name : {"ant", "bee"}) {
      std::filesystem::create_directories(in("images/" + name));
      for (int i = 0; i < 6; ++i) write_file(in("images/" + name + "/" + std::to_string(i) + ".jpg"), picture());
    }
    write_file(in("images.toml"),
               "[data]\nsource = \"images\"\nvalidation = 0.3\n[train]\nsteps = 3\nbatch = 4\n[model]\npreset = "
               "\"vit-tiny\"\nlayers = 1\nwidth = 32\nheads = 2\ninner = 32\nimage = 16\npatch = 8\n[optim]\n"
               "warmup = 0\n[eval]\nbatches = 1\n");
    write_file(in("set.toml"), "[prepare]\nfiles = \"" + in("images") +
                                   "\"\nformat = \"images\"\nvalidation = 0.3\noutput = \"" + in("set") + "\"\n");
  }
  std::string picture() { return testing::jpeg_file(testing::picture({30, 40}, random_)); }
  Finished train_on_images() { return hyperion(train("images.toml", "mine") + Words{"--data.path=" + in("images")}); }
};

TEST_F(BrokenImages, are_counted_before_the_first_step_and_the_first_is_named) {
  write_file(in("images/bee/broken.jpg"), "hi\n");
  const Finished one = train_on_images();
  EXPECT_EQ(one.code, 1);
  EXPECT_TRUE(says(one.err, "bee/broken.jpg: neither a JPEG nor a PNG file")) << one.err;
  EXPECT_TRUE(says(one.err, "hint: remove it, or make a set without: hyperion data prepare")) << one.err;
  write_file(in("images/ant/empty.png"), "");
  std::filesystem::create_symlink(in("nowhere"), in("images/bee/link.jpg"));
  const Finished three = train_on_images();
  EXPECT_TRUE(says(three.err, "3 files are no images that can be read; the first is")) << three.err;
  EXPECT_FALSE(says(three.err, "step 1")) << three.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "mine"));
  for (const char* name : {"bee/broken.jpg", "ant/empty.png", "bee/link.jpg"})
    std::filesystem::remove(in("images/") + name);
  expect_fine(train_on_images());
}

TEST_F(BrokenImages, that_only_decoding_tells_are_named_with_what_to_do) {
  for (int i = 0; i < 6; ++i) write_file(in("images/bee/" + std::to_string(i) + ".jpg"), picture().substr(0, 300));
  const Finished cut = train_on_images();
  EXPECT_EQ(cut.code, 1);
  EXPECT_TRUE(says(cut.err, "images/bee/")) << cut.err;
  EXPECT_TRUE(says(cut.err, "hint: mend or remove it and start a new run")) << cut.err;
}

TEST_F(BrokenImages, that_are_no_files_are_left_out_of_a_set_or_named) {
  const std::string looping = in("images/bee/loop.jpg"), nowhere = in("images/ant/nowhere.jpg");
  const std::string device = in("images/ant/device.jpg"), pipe = in("images/bee/pipe.png");
  const std::pair<std::string, std::string> kinds[] = {{nowhere, "a link that leads nowhere"},
                                                       {looping, "cannot be read: Too many levels"},
                                                       {device, "not a regular file"},
                                                       {pipe, "not a regular file"}};
  const auto make = [&](const std::string& path) {
    if (path == pipe)
      EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    else
      std::filesystem::create_symlink(path == nowhere   ? in("nothing")
                                      : path == looping ? looping
                                                        : std::string("/dev/zero"),
                                      path);
  };
  for (const auto& [path, why] : kinds) {
    make(path);
    const Finished stopped = hyperion({"data", "prepare", in("set.toml")});
    EXPECT_EQ(stopped.code, 1) << path;
    EXPECT_TRUE(says(stopped.err, path + ": " + why)) << stopped.err;
    EXPECT_TRUE(says(stopped.err, "hint: mend or remove it, or pass --on-bad=skip")) << stopped.err;
    std::filesystem::remove(path);
  }
  for (const auto& [path, why] : kinds) make(path);
  write_file(in("images/ant/empty.jpg"), "");
  const Finished skipped = hyperion({"data", "prepare", in("set.toml"), "--on-bad", "skip"});
  expect_fine(skipped);
  EXPECT_TRUE(says(skipped.out, "5 left out")) << skipped.out;
  EXPECT_EQ(figures("set")["train.set"]["images"].get<int>() + figures("set")["validation.set"]["images"].get<int>(),
            12);
}

}  // namespace
}  // namespace hyperion
