// A prepared set that rots on the disk is not trained on: what is read is held against its hash.
#include "tests/end_to_end/support_prepare.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Prepare;
using testing::read_file;
using testing::Words;
using testing::write_file;
using testing::operator+;

class DamagedSet : public Prepare {
 protected:
  // The file stays a set: its footer and sizes are as they were, and so are the token's bounds.
  void flip(const std::string& file, size_t at) {
    std::string bytes = read_file(in(file));
    ASSERT_LT(at, bytes.size());
    bytes[at] ^= 1;
    write_file(in(file), bytes);
  }

  void expect_refused(const Finished& done, const std::string& file) {
    EXPECT_EQ(done.code, 1) << done.out << done.err;
    EXPECT_NE(done.err.find(in(file) + " is damaged: block 0 ("), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("hyperion data verify " + in("set")), std::string::npos) << done.err;
  }

  // CIFAR-10's folder: a label and 32 x 32 pixels in three planes for each image.
  void write_cifar() {
    std::filesystem::create_directories(in("cifar"));
    for (const char* name :
         {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
      std::string images;
      for (int i = 0; i < 8; ++i) {
        images += static_cast<char>(i % 10);
        for (int byte = 0; byte < 3072; ++byte) images += static_cast<char>(random_());
      }
      write_file(in("cifar/") + name + ".bin", images);
    }
    std::string names;
    for (int i = 0; i < 10; ++i) names += "class " + std::to_string(i) + "\n";
    write_file(in("cifar/batches.meta.txt"), names);
    write_file(in("cifar.toml"), "[prepare]\nfiles = \"" + in("cifar") + "\"\nformat = \"cifar\"\noutput = \"" +
                                     in("set") + "\"\n" + testing::image_training("resnet18-cifar", 0));
  }
};

TEST_F(DamagedSet, of_tokens_stops_training_and_names_the_block) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "sound")));
  flip("set/train.set", 5000);
  expect_refused(hyperion(train("wiki.toml", "damaged")), "set/train.set");
  expect_refused(hyperion({"resume", "sound", "--steps", "8"}), "set/train.set");
  expect_refused(hyperion({"data", "inspect", in("set")}), "set/train.set");
}

TEST_F(DamagedSet, of_validation_stops_eval) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "sound")));
  flip("set/validation.set", 500);
  expect_refused(hyperion({"eval", "sound"}), "set/validation.set");
}

TEST_F(DamagedSet, of_images_stops_training_and_names_the_block) {
  write_cifar();
  expect_fine(hyperion({"data", "prepare", in("cifar.toml")}));
  flip("set/train.set", 5000);
  expect_refused(hyperion(train("cifar.toml", "damaged")), "set/train.set");
}

}  // namespace
}  // namespace hyperion
