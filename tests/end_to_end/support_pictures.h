// Folders of small pictures, and image models trained on them.
#pragma once
#include "tests/end_to_end/support_prepare.h"
#include "tests/support/image_files.h"

namespace hyperion::testing {

class Pictures : public Prepare {
 protected:
  // Six of each class, in folders of their names.
  void write_pictures(const std::string& folder, const Words& classes) {
    for (const auto& name : classes) {
      std::filesystem::create_directories(in(folder + "/" + name));
      for (int i = 0; i < 6; ++i)
        write_file(in(folder + "/" + name + "/" + std::to_string(i) + ".jpg"),
                   jpeg_file(picture({30 + static_cast<int64_t>(random_() % 10), 40}, random_)));
    }
  }
  Finished train_on(const std::string& folder, const std::string& name, const Words& flags) {
    write_file(in("images.toml"),
               "[data]\nsource = \"images\"\nvalidation = 0.3\n[train]\nsteps = 2\nbatch = 4\n[optim]\nlr = 0.05\n"
               "warmup = 0\n[eval]\nbatches = 1\n");
    return hyperion(train("images.toml", name) + Words{"--data.path=" + in(folder)} + flags);
  }
  // The run "base" of a tiny ViT on three insects, and its folder "base-hf".
  void make_base() {
    write_pictures("insects", {"ant", "bee", "cow"});
    expect_fine(train_on("insects", "base",
                         {"--model.preset=vit-tiny", "--model.layers=1", "--model.width=32", "--model.heads=2",
                          "--model.inner=32", "--model.image=16", "--model.patch=8", "--augment.normalise=half"}));
    expect_fine(hyperion({"export", "base", "--to", in("base-hf")}));
  }
  nlohmann::json classes_of(const Words& words, const std::string& image) {
    const auto done = hyperion(Words{"classify"} + words + Words{in(image), "--json", "--device", "cpu"});
    EXPECT_EQ(done.code, 0) << done.err;
    return done.code == 0 ? nlohmann::json::parse(done.out)[0]["classes"] : nlohmann::json();
  }
};

}  // namespace hyperion::testing
