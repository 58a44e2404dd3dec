// `hyperion eval MODEL... --set SET`: any model on any prepared set, side by side.
#include "tests/end_to_end/support_prepare.h"
#include "tests/support/image_files.h"

namespace hyperion {
namespace {

using nlohmann::json;
using testing::Finished;
using testing::Prepare;
using testing::read_file;
using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

class Measure : public Prepare {
 protected:
  // A run on bytes, and its folder.
  void write_base() {
    write_wikitext(30);
    expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
    expect_fine(hyperion(train("wiki.toml", "base") + Words{"--data.packing=whole", "--data.reset=true"}));
    expect_fine(hyperion({"export", "base", "--to", in("folder")}));
  }
  void train_adapter(const std::string& name, const Words& flags) {
    write_file(in("lora.toml"), "[train]\nsteps = 6\nbatch = 4\nlength = 24\n[model]\nfrom = \"" + in("folder") +
                                    "\"\n[lora]\nrank = 4\n[data]\nsource = \"prepared\"\npath = \"" + in("set") +
                                    "\"\n[optim]\nlr = 1e-2\nwarmup = 0\n");
    expect_fine(hyperion(train("lora.toml", name) + flags));
  }
  Words device() const {
    const auto flags = testing::device_flags();
    return {flags.begin(), flags.begin() + 2};
  }
  Finished eval(const Words& words) { return hyperion(Words{"eval"} + words + device()); }
  json found(const Words& words) {
    const auto done = eval(words + Words{"--json"});
    EXPECT_EQ(done.code, 0) << done.err;
    return done.code == 0 ? json::parse(done.out) : json();
  }
  void expect_refused(const Words& words, const std::string& why) {
    const auto done = eval(words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_TRUE(says(done.err, why)) << done.err;
    EXPECT_TRUE(says(done.err, "hint: ")) << done.err;
  }
};

TEST_F(Measure, a_folder_and_the_run_it_came_of_have_the_same_loss_in_one_table) {
  write_base();
  const json all = found({in("folder"), "base", "--set", in("set")});
  ASSERT_EQ(all["rows"].size(), 2u);
  EXPECT_EQ(all["part"], "validation");
  EXPECT_EQ(all["length"], 32) << "what the run was trained on";
  EXPECT_NEAR(all["rows"][0]["loss"].get<double>(), all["rows"][1]["loss"].get<double>(), 1e-6);
  EXPECT_NEAR(all["rows"][1]["difference"].get<double>(), 0, 1e-6);
  EXPECT_EQ(all["rows"][0]["tokens"], figures("set")["validation.set"]["tokens"].get<int64_t>() - 8)
      << "all tokens of 8 documents but the first of each";
  const auto table = eval({in("folder"), "base", "--set", in("set")});
  for (const char* part : {"its validation part", "of 8 documents", "perplexity", "to the first", "fp32"})
    EXPECT_TRUE(says(table.out, part)) << part << "\n" << table.out;
  // The run's own validation, of documents by themselves as well.
  const auto own = eval({"base", "--batches", "1000", "--json"});
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_NEAR(json::parse(own.out)["loss"].get<double>(), all["rows"][1]["loss"].get<double>(), 1e-6);
  EXPECT_LT(found({"base", "--set", in("set"), "--batches", "1"})["rows"][0]["tokens"], all["rows"][0]["tokens"]);
}

TEST_F(Measure, a_run_with_an_adapter_is_measured_as_base_adapter_and_merged) {
  write_base();
  train_adapter("lora", {});
  const json rows = found({in("folder"), "lora", "--set", in("set")})["rows"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["form"], nullptr);
  for (const auto& [row, form] : {std::pair(1, "base"), {2, "adapter"}, {3, "merged"}})
    EXPECT_EQ(rows[row]["form"], form);
  EXPECT_NEAR(rows[1]["loss"].get<double>(), rows[0]["loss"].get<double>(), 1e-6);
  EXPECT_NEAR(rows[3]["loss"].get<double>(), rows[2]["loss"].get<double>(), 1e-5);
  EXPECT_LT(rows[2]["difference"].get<double>(), 0) << "trained for a while it is better than the base";
  expect_fine(hyperion({"export", "lora", "--as-adapter", "--to", in("peft")}));
  const Words twice = {"--adapter", in("peft"), "--adapter", "other=" + in("peft")};
  const json by_hand = found(Words{in("folder"), "--set", in("set"), "--length", "24"} + twice)["rows"];
  ASSERT_EQ(by_hand.size(), 5u);
  EXPECT_EQ(by_hand[2]["adapter"], "other");
  for (const int row : {1, 2, 3, 4})
    EXPECT_NEAR(by_hand[row]["loss"].get<double>(), rows[2]["loss"].get<double>(), 1e-5) << row;
}

TEST_F(Measure, merged_is_what_an_export_holds_in_whatever_type_it_is_measured) {
  write_base();
  write_file(in("full.toml"), "[train]\nsteps = 1\nbatch = 4\nlength = 24\nprecision = \"bf16\"\n[model]\nfrom = \"" +
                                  in("folder") + "\"\n[data]\nsource = \"prepared\"\npath = \"" + in("set") +
                                  "\"\n[optim]\nwarmup = 0\n");
  expect_fine(hyperion(train("full.toml", "full")));
  std::filesystem::remove_all(in("folder"));
  expect_fine(hyperion({"export", "full", "--to", in("folder")}));
  train_adapter("wide", {});
  const Finished said = hyperion({"export", "wide", "--to", in("bf16")});
  EXPECT_TRUE(says(said.err, "rounded to bf16")) << said.err;
  for (const Words& type : {Words{}, Words{"--precision", "fp32"}}) {
    const json rows = found(Words{"wide", in("bf16"), "--set", in("set"), "--length", "24"} + type)["rows"];
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[2]["form"], "merged");
    EXPECT_EQ(rows[2]["precision"], rows[3]["precision"]);
    EXPECT_EQ(rows[2]["loss"], rows[3]["loss"]);
    EXPECT_NE(rows[2]["loss"], rows[1]["loss"]) << "it was rounded";
  }
}

TEST_F(Measure, a_run_beside_4_bits_is_measured_in_them_and_merged_whole) {
  write_base();
  train_adapter("qlora", {"--model.quantize=nf4"});
  const json rows = found({"qlora", "--set", in("set")})["rows"];
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& [row, form] : {std::pair(0, "nf4"), {1, "nf4"}, {2, "none"}}) EXPECT_EQ(rows[row]["quantize"], form);
  const json whole = found({"qlora", "--set", in("set"), "--quantize", "none"})["rows"];
  EXPECT_NE(whole[1]["loss"], rows[1]["loss"]);
  EXPECT_NEAR(whole[1]["loss"].get<double>(), rows[2]["loss"].get<double>(), 1e-5) << "merged is whole already";
  const json narrow = found({"qlora", "--set", in("set"), "--precision", "bf16", "--quantize", "none"})["rows"];
  EXPECT_EQ(narrow[0]["precision"], "bf16");
  EXPECT_NEAR(narrow[1]["loss"].get<double>(), whole[1]["loss"].get<double>(), 0.05);
}

TEST_F(Measure, a_set_of_which_nothing_was_held_out_is_measured_whole) {
  write_base();
  write_file(in("few.txt"), "one line\nand another one\n");
  write_file(in("few.toml"), "[prepare]\nfiles = [\"" + in("few.txt") + "\"]\nformat = \"lines\"\noutput = \"" +
                                 in("few") + "\"\nvalidation = 0.0001\n");
  expect_fine(hyperion({"data", "prepare", in("few.toml")}));
  const json all = found({"base", "--set", in("few")});
  EXPECT_EQ(all["part"], "all");
  EXPECT_EQ(all["documents"], 2);
  EXPECT_TRUE(says(eval({"base", "--set", in("few")}).out, "all of it (nothing was held out)"));
}

TEST_F(Measure, a_set_that_is_not_the_models_is_refused) {
  write_base();
  write_chat_tokenizer();
  expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--output", in("words"),
                        "--prepare.tokenizer=" + in("chat/tokenizer.json")}));
  expect_refused({"base", "--set", in("words")}, "knows 256 token ids, and");
  expect_fine(hyperion(train("wiki.toml", "worded") + Words{"--data.path=" + in("words"), "--model.vocabulary=400"}));
  expect_refused({"worded", "--set", in("set")}, "was prepared as bytes, which is not the tokenizer of worded");
  std::filesystem::create_directories(in("small"));
  expect_fine(hyperion(
      {"data", "train-tokenizer", in("corpus.txt"), "--vocab-size", "350", "--to", in("small/tokenizer.json")}));
  expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--output", in("less"),
                        "--prepare.tokenizer=" + in("small/tokenizer.json")}));
  expect_refused({"worded", "--set", in("less")}, "with another tokenizer, which is not the tokenizer of worded");
  expect_refused({"base", "--set", in("set"), "--length", "33"}, "--length 33 is longer than the 32 tokens");
  expect_refused({"base", "--set", in("nowhere")}, "does not exist");
}

TEST_F(Measure, without_a_set_a_folder_or_several_models_are_refused_with_the_flag) {
  write_base();
  expect_refused({in("folder")}, "--set FOLDER");
  expect_refused({"base", in("folder")}, "--set FOLDER");
  expect_refused({"base", "--length", "8"}, "--set");
}

class MeasureImages : public Measure {
 protected:
  void write_pictures(const std::string& folder, const Words& classes) {
    for (const std::string part : {"train", "val"})
      for (const auto& name : classes) {
        std::filesystem::create_directories(in(folder + "/" + part + "/" + name));
        for (int i = 0; i < 4; ++i)
          write_file(in(folder + "/" + part + "/" + name + "/" + std::to_string(i) + ".jpg"),
                     testing::jpeg_file(testing::picture({40 + static_cast<int64_t>(random_() % 20), 50}, random_)));
      }
    write_file(in(folder + ".toml"), "[prepare]\nfiles = \"" + in(folder) + "\"\nformat = \"images\"\noutput = \"" +
                                         in(folder + "-set") + "\"\n" + testing::image_training("vit-tiny", 32));
    expect_fine(hyperion({"data", "prepare", in(folder + ".toml")}));
  }
};

TEST_F(MeasureImages, a_run_has_on_its_own_set_the_loss_of_its_own_validation) {
  write_pictures("pets", {"cat", "dog", "owl"});
  expect_fine(hyperion(train("pets.toml", "pets")));
  const json rows = found({"pets", "--set", in("pets-set")})["rows"];
  const auto own = json::parse(eval({"pets", "--json", "--batches", "100"}).out);
  EXPECT_NEAR(rows[0]["loss"].get<double>(), own["loss"].get<double>(), 1e-6);
  EXPECT_EQ(rows[0]["top_1"], own["top_1"]);
  EXPECT_EQ(rows[0]["images"], 12);
  EXPECT_TRUE(says(eval({"pets", "--set", in("pets-set")}).out, "top 1"));
}

TEST_F(MeasureImages, other_classes_and_text_are_refused) {
  write_pictures("pets", {"cat", "dog", "owl"});
  expect_fine(hyperion(train("pets.toml", "pets")));
  write_pictures("more", {"ant", "cat", "dog", "owl"});
  expect_refused({"pets", "--set", in("more-set")}, "has 4 classes, and pets knows 3");
  write_pictures("birds", {"cat", "kite", "owl"});
  expect_refused({"pets", "--set", in("birds-set")}, "class 1 is \"kite\" in");
  write_wikitext(8);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_refused({"pets", "--set", in("set")}, "pets reads images, and");
}

}  // namespace
}  // namespace hyperion
