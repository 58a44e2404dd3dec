// Files and names that somebody else made, removed or damaged: told by name, before anything comes of them.
#include <cstring>

#include "tests/end_to_end/support_prepare.h"
#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::error_line;
using testing::Finished;
using testing::hint_line;
using testing::Prepare;
using testing::read_file;
using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

// Every weight of the file, of two bytes or of four, becomes one that is no number, or 0.
void fill_with_nan(const std::string& path) {
  std::string bytes = read_file(path);
  uint64_t header = 0;
  ASSERT_GT(bytes.size(), sizeof header);
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t at = sizeof header + header; at + 4 <= bytes.size(); at += 4)
    bytes.replace(at, 4, std::string("\x00\x00\xc0\x7f", 4));
  write_file(path, bytes);
}

class HostileFiles : public Prepare {
 protected:
  // A run whose validation loss only falls, so that its last checkpoint, of step 12, is its best.
  void make_falling(const std::string& name) {
    write_file(in("text"), std::string(5000, 'a'));
    write_file(in("falling.toml"), testing::kTextRecipe);
    expect_fine(hyperion(train("falling.toml", name) + Words{"--data.path=" + in("text"), "--checkpoint.keep=3"}));
    ASSERT_EQ(json::parse(read_file(scratch_.runs() / name / "run.json"))["best_step"], 12);
  }
  void write_measured() {
    write_wikitext(30);
    expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
    expect_fine(hyperion(train("wiki.toml", "base")));
    expect_fine(hyperion({"export", "base", "--to", in("folder")}));
  }
  Words on_device() const {
    const auto flags = testing::device_flags();
    return {flags.begin(), flags.begin() + 2};
  }
  void expect_not_finite(const Words& words, const std::string& which) {
    const Finished done = hyperion(Words{"eval"} + words + Words{"--set", in("set")} + on_device());
    EXPECT_EQ(done.code, 1) << done.out << done.err;
    EXPECT_TRUE(says(error_line(done), "the weights of " + which)) << done.err;
    EXPECT_TRUE(says(error_line(done), "are not finite")) << done.err;
    EXPECT_NE(hint_line(done), "") << done.err;
    EXPECT_FALSE(says(done.out, "nan")) << done.out;
  }
  // `data prepare` refuses the name, and leaves nothing.
  void expect_name_refused(const std::string& recipe, const std::string& shown) {
    const Finished done = hyperion({"data", "prepare", in(recipe)});
    EXPECT_EQ(done.code, 2) << done.out << done.err;
    EXPECT_TRUE(says(error_line(done), shown + " is not UTF-8")) << done.err;
    EXPECT_TRUE(says(hint_line(done), "rename")) << done.err;
    EXPECT_FALSE(says(done.err, "json.exception")) << done.err;
    EXPECT_FALSE(fs::exists(in("set")) || fs::exists(in("set.partial")));
  }
};

TEST_F(HostileFiles, a_best_checkpoint_that_was_removed_is_missed_by_its_step) {
  make_falling("r");
  const fs::path checkpoints = scratch_.runs() / "r/checkpoints";
  fs::remove_all(checkpoints / "step-12");
  const Finished removed = hyperion({"eval", "r@best"});
  EXPECT_EQ(removed.code, 2) << removed.out;
  EXPECT_TRUE(says(error_line(removed), "the best checkpoint of run r, step 12, is not there any more")) << removed.err;
  EXPECT_TRUE(says(hint_line(removed), "r@last")) << removed.err;
  EXPECT_TRUE(says(hint_line(removed), "r@10")) << removed.err;
  const Finished last = hyperion({"eval", "r@last", "--json"});
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(json::parse(last.out)["step"], 10);
}

TEST_F(HostileFiles, a_checkpoint_that_is_a_link_to_another_step_is_not_opened) {
  make_falling("r");
  const fs::path checkpoints = scratch_.runs() / "r/checkpoints";
  fs::remove_all(checkpoints / "step-12");
  fs::create_directory_symlink(checkpoints / "step-10", checkpoints / "step-12");
  const Finished best = hyperion({"eval", "r@best"});
  EXPECT_EQ(best.code, 2) << best.out;
  EXPECT_TRUE(says(error_line(best), "the best checkpoint of run r, step 12, is not there any more")) << best.err;
  EXPECT_FALSE(says(hint_line(best), "r@12")) << best.err;
  const Finished by_step = hyperion({"eval", "r@12"});
  EXPECT_EQ(by_step.code, 2) << by_step.out;
  EXPECT_TRUE(says(error_line(by_step), "no checkpoint of step 12 any more")) << by_step.err;
  const Finished other = hyperion({"eval", "r@10"});
  EXPECT_EQ(other.code, 0) << other.err;
}

TEST_F(HostileFiles, a_checkpoint_where_a_run_is_wanted_is_called_one) {
  make_falling("r");
  for (const std::string which : {"@best", "@last", "@12"})
    for (const Words& verb : {Words{"runs", "show"}, Words{"runs", "tail"}, Words{"report"}, Words{"resume"}}) {
      const Finished done = hyperion(verb + Words{"r" + which});
      EXPECT_EQ(done.code, 2) << verb.back() << which << done.out;
      EXPECT_TRUE(says(error_line(done), "r" + which + " is a checkpoint, and this takes a run"))
          << verb.back() << done.err;
      EXPECT_TRUE(says(hint_line(done), "leave " + which + " out")) << verb.back() << done.err;
    }
  const Finished compared = hyperion({"compare", "r", "r@best"});
  EXPECT_EQ(compared.code, 2) << compared.out;
  EXPECT_TRUE(says(error_line(compared), "r@best is a checkpoint, and this takes a run")) << compared.err;
  const Finished other = hyperion({"runs", "show", "r@else"});
  EXPECT_TRUE(says(error_line(other), "no run called")) << other.err;
}

TEST_F(HostileFiles, weights_that_are_not_finite_have_no_row_in_eval) {
  write_measured();
  write_file(in("lora.toml"), "[train]\nsteps = 2\nbatch = 4\nlength = 24\n[model]\nfrom = \"" + in("folder") +
                                  "\"\n[lora]\nrank = 4\n[data]\nsource = \"prepared\"\npath = \"" + in("set") +
                                  "\"\n[optim]\nlr = 1e-2\nwarmup = 0\n");
  expect_fine(hyperion(train("lora.toml", "lora")));
  expect_fine(hyperion({"export", "lora", "--as-adapter", "--to", in("peft")}));
  expect_fine(hyperion(Words{"eval", in("folder"), "--adapter", in("peft"), "--set", in("set")} + on_device()));
  fill_with_nan(in("peft/adapter_model.safetensors"));
  expect_not_finite({in("folder"), "--adapter", in("peft")}, in("folder") + ", adapter");
  for (const Words& form : {Words{}, Words{"--as-adapter"}}) {
    const Finished merged =
        hyperion(Words{"export", in("folder"), "--adapter", in("peft"), "--to", in("merged")} + form);
    EXPECT_EQ(merged.code, 1) << merged.out;
    EXPECT_TRUE(says(error_line(merged), in("peft") + " holds values that are not finite: ")) << merged.err;
    EXPECT_FALSE(fs::exists(in("merged")));
  }
  fill_with_nan(in("folder/model.safetensors"));
  expect_not_finite({in("folder")}, in("folder"));
  expect_not_finite({"base", in("folder")}, in("folder"));
}

TEST_F(HostileFiles, a_broken_config_is_named_by_its_file) {
  write_measured();
  write_file(in("folder/config.json"), "{\"model_type\": ");
  const Finished done = hyperion(Words{"eval", in("folder"), "--set", in("set")} + on_device());
  EXPECT_TRUE(says(error_line(done), in("folder/config.json") + " is not JSON")) << done.err;
}

TEST_F(HostileFiles, an_input_whose_name_is_not_utf_8_is_refused_before_anything_is_written) {
  fs::create_directories(in("texts"));
  write_file(in("texts/a.txt"), "some text\n");
  write_file(in("texts/caf\xe9.txt"), "more text\n");
  write_file(in("texts.toml"), "[prepare]\nfiles = [\"" + in("texts/*.txt") + "\"]\nformat = \"lines\"\noutput = \"" +
                                   in("set") + "\"\n" + training());
  expect_name_refused("texts.toml", in("texts/caf\\xe9.txt"));
}

TEST_F(HostileFiles, a_class_or_image_whose_name_is_not_utf_8_is_refused_before_anything_is_written) {
  for (const char* name : {"images/a", "images/b"}) fs::create_directories(in(name));
  for (int i = 0; i < 8; ++i)
    for (const char* name : {"images/a/", "images/b/"}) write_file(in(name + std::to_string(i) + ".png"), "x");
  write_file(in("images.toml"), "[prepare]\nfiles = \"" + in("images") +
                                    "\"\nformat = \"images\"\nvalidation = 0.25\n" + "output = \"" + in("set") +
                                    "\"\n" + testing::image_training("vit-tiny", 0));
  write_file(in("images/b/\xff.png"), "x");
  expect_name_refused("images.toml", in("images/b/\\xff.png"));
  fs::remove(in("images/b/\xff.png"));
  fs::rename(in("images/b"), in("images/caf\xe9"));
  expect_name_refused("images.toml", in("images/caf\\xe9"));
}

TEST_F(HostileFiles, a_run_record_cannot_speak_to_the_terminal) {
  const fs::path folder = scratch_.runs() / "theirs";
  fs::create_directories(folder);
  write_file(folder / "config.resolved.toml", "");
  const std::string clear = "\x1b[2J", other =
                                           "\xc2\x9b"
                                           "31m";
  const json record = {{"name", "theirs"},
                       {"recipe", "r.toml" + clear},
                       {"created", "2026-11-17" + clear},
                       {"updated", other},
                       {"status", "complete" + clear + "\nevil"},
                       {"failure", ""},
                       {"step", 1},
                       {"steps", 1},
                       {"parameters", 1},
                       {"seconds", 1},
                       {"environment", json::array({json::array({"host" + clear, "\x1b]0;x\x07"})})}};
  write_file(folder / "run.json", record.dump());
  for (const Words& words : {Words{"runs", "ls"}, Words{"runs", "show", "theirs"}}) {
    const Finished done = hyperion(words);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_TRUE(says(done.out, "complete\\x1b[2J\\nevil")) << done.out;
    for (const char* raw : {"\x1b", "\x07", "\xc2\x9b", "\nevil"}) EXPECT_FALSE(says(done.out, raw)) << words.back();
  }
}

TEST_F(HostileFiles, a_link_to_a_folder_above_is_no_class) {
  for (const char* name : {"images/a", "images/b"}) fs::create_directories(in(name));
  for (int i = 0; i < 8; ++i)
    for (const char* name : {"", "images/a/", "images/b/"}) write_file(in(name + std::to_string(i) + ".png"), "x");
  fs::create_directory_symlink("..", in("images/looplink"));
  write_file(in("images.toml"), "[prepare]\nfiles = \"" + in("images") + "\"\nformat = \"images\"\noutput = \"" +
                                    in("set") + "\"\n" + testing::image_training("vit-tiny", 0));
  const Finished done = hyperion({"data", "prepare", in("images.toml")});
  EXPECT_EQ(done.code, 2) << done.out << done.err;
  EXPECT_TRUE(says(error_line(done), in("images/looplink") + " is a link to ")) << done.err;
  EXPECT_TRUE(says(hint_line(done), "remove the link")) << done.err;
  EXPECT_FALSE(fs::exists(in("set")) || fs::exists(in("set.partial")));
}

TEST_F(HostileFiles, a_set_that_was_moved_is_told_where_it_was_looked_for_and_how_to_go_on) {
  write_wikitext(30);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "r")));
  fs::rename(in("set"), in("moved"));
  const Finished lost = hyperion({"resume", "r", "--steps", "8"});
  EXPECT_EQ(lost.code, 2) << lost.out << lost.err;
  EXPECT_TRUE(says(error_line(lost), in("set"))) << lost.err;
  EXPECT_TRUE(says(lost.err, "hyperion resume RUN --data.path=PLACE")) << lost.err;
  const Finished found = hyperion({"resume", "r", "--steps", "8", "--data.path=" + in("moved")});
  EXPECT_EQ(found.code, 0) << found.err;
}

}  // namespace
}  // namespace hyperion
