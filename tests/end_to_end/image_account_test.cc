// What is told of a run on images of few classes.
#include "tests/end_to_end/support_prepare.h"
#include "tests/support/image_files.h"

namespace hyperion {
namespace {

using testing::Words;
using testing::write_file;
using testing::operator+;

class ImageAccount : public testing::Prepare {};

TEST_F(ImageAccount, has_no_top_5_of_three_classes_and_an_image_in_good_english) {
  for (const std::string name : {"circle", "cross", "square"}) {
    std::filesystem::create_directories(in("set/" + name));
    for (int i = 0; i < 8; ++i)
      write_file(in("set/" + name + "/" + std::to_string(i) + ".png"),
                 testing::png_file(testing::picture({32, 32}, random_)));
  }
  write_file(
      in("few.toml"),
      "[data]\nsource = \"images\"\nvalidation = 0.25\npath = \"" + in("set") +
          "\"\n[train]\nsteps = 2\nbatch = 4\n[model]\npreset = \"vit-tiny\"\nlayers = 1\nwidth = 32\ninner = 64\n"
          "heads = 2\nclasses = 3\n[eval]\nbatches = 1\n");
  const auto done = hyperion(train("few.toml", "few"));
  expect_fine(done);
  EXPECT_NE(done.err.find("top 1 "), std::string::npos) << done.err;
  const auto judged = hyperion({"eval", "few", "--device", "cpu"});
  const std::string page = testing::read_file(scratch_.runs() / "few/report.html");
  for (const std::string& text : {done.err, judged.out, page}) {
    EXPECT_EQ(text.find("top 5"), std::string::npos) << text.substr(0, 2000);
    EXPECT_EQ(text.find("Top 5"), std::string::npos);
  }
  EXPECT_NE(page.find("nats an image"), std::string::npos);
  EXPECT_EQ(page.find("nats a image"), std::string::npos);
}

}  // namespace
}  // namespace hyperion
