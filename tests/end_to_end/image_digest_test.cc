// A run on a folder of images whose files are changed under their names.
#include "hyperion/data/image_digest.h"
#include "tests/end_to_end/support_manifest.h"
#include "tests/end_to_end/support_pictures.h"

namespace hyperion {
namespace {

using testing::Words;
using testing::write_file;

class ImageFolderOfRun : public testing::Pictures {
 protected:
  // All of one size, whatever they show.
  void write_padded(const std::string& name) {
    auto bytes = testing::jpeg_file(testing::picture({30, 40}, random_));
    bytes.resize(8192);
    write_file(name, bytes);
  }
  std::filesystem::path step(int64_t number) const {
    return scratch_.runs() / "mine" / "checkpoints" / ("step-" + std::to_string(number));
  }
};

TEST_F(ImageFolderOfRun, goes_on_with_the_same_images_alone_and_after_an_older_version_by_their_names_and_sizes) {
  for (const std::string name : {"ant", "bee"}) {
    std::filesystem::create_directories(in("insects/" + name));
    for (int i = 0; i < 6; ++i) write_padded(in("insects/" + name + "/" + std::to_string(i) + ".jpg"));
  }
  expect_fine(train_on("insects", "mine",
                       {"--model.preset=vit-tiny", "--model.layers=1", "--model.width=32", "--model.heads=2",
                        "--model.inner=32", "--model.image=16", "--model.patch=8"}));
  expect_fine(hyperion({"resume", "mine", "--steps", "3"}));
  write_padded(in("insects/ant/3.jpg"));
  const auto refused = hyperion({"resume", "mine", "--steps", "4"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("is not what this run was trained on until step 3"), std::string::npos) << refused.err;
  const std::string listing = data::image_listing_digest(data::list_images(in("insects"), 0.3));
  testing::edit_state(step(3), [&](nlohmann::json& state) { state["data_digest"] = listing; });
  expect_fine(hyperion({"resume", "mine", "--steps", "4"}));
  EXPECT_NE(testing::manifest_state(step(4))["data_digest"], listing);
}

}  // namespace
}  // namespace hyperion
