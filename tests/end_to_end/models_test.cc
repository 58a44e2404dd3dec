// Models and memory as a user meets them: images, mixtures, weights to start from, a budget, memory that runs out, and
// the examples.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Models : public ::testing::Test {
 protected:
  Finished train(const std::string& recipe, const std::string& name, const Words& flags = {},
                 const std::map<std::string, std::string>& environment = {}) {
    return train_on(testing::device_flags(), recipe, name, flags, environment);
  }
  Finished train_on(const Words& device, const std::string& recipe, const std::string& name, const Words& flags = {},
                    const std::map<std::string, std::string>& environment = {}) {
    testing::write_file(scratch_.path() / "recipe.toml", recipe);
    return run(scratch_, Words{"train", scratch_.path() / "recipe.toml", "--run", name} + device + flags, environment);
  }
  std::string losses_of(const std::string& name) {
    std::string all;
    for (const auto& [step, text] : testing::losses(scratch_.runs() / name)) all += std::to_string(step) + text + "\n";
    return all;
  }
  Scratch scratch_;
};

const char* const kImages =
    "[train]\nsteps = 6\nbatch = 16\n[data]\nsource = \"shapes\"\nimages = 200\n[eval]\nbatches = 2\n"
    "[optim]\nwarmup = 2\n";
const char* const kText =
    "[train]\nsteps = 6\nbatch = 8\nlength = 24\n[model]\nlayers = 3\nheads = 2\nwidth = 32\ndropout = 0.1\n"
    "[eval]\nbatches = 1\n[optim]\nwarmup = 2\nlr = 5e-3\n";

TEST_F(Models, images_are_learnt_and_judged_by_their_best_classes) {
  for (const std::string model : {"preset = \"vit-tiny\"\nlayers = 2\nwidth = 32\ninner = 64\nheads = 2\n",
                                  "preset = \"resnet18-cifar\"\nimage = 16\n"}) {
    const std::string name = model.find("vit") != model.npos ? "vit" : "resnet";
    const Finished done = train(kImages + ("[model]\n" + model), name);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find("img/s"), std::string::npos) << done.err;
    const std::string page = testing::read_file(scratch_.runs() / name / "report.html");
    EXPECT_NE(page.find("Images a second"), std::string::npos);
    EXPECT_EQ(page.find("okens a second"), std::string::npos);
    const Finished judged = run(scratch_, {"eval", name, "--device", "cpu"});
    EXPECT_EQ(judged.code, 0) << judged.err;
    EXPECT_NE(judged.out.find("top 5"), std::string::npos) << judged.out;
    EXPECT_EQ(judged.out.find("perplexity"), std::string::npos) << judged.out;
    EXPECT_NE(run(scratch_, {"generate", name, "--prompt", "x", "--device", "cpu"}).code, 0);
  }
}

TEST_F(Models, a_batch_norms_statistics_survive_a_resume) {
  const std::string recipe = kImages + std::string("[model]\npreset = \"resnet18-cifar\"\nimage = 16\n");
  ASSERT_EQ(train(recipe, "whole").code, 0);
  ASSERT_EQ(train(recipe, "part", {"--steps", "3", "--optim.schedule=constant"}).code, 0);
  ASSERT_EQ(train(recipe, "straight", {"--optim.schedule=constant"}).code, 0);
  ASSERT_EQ(run(scratch_, {"resume", "part", "--steps", "6"}).code, 0);
  EXPECT_EQ(losses_of("part"), losses_of("straight"));
  const auto eval = [&](const std::string& name) {
    return run(scratch_, {"eval", name, "--json", "--device", "cpu"}).out;
  };
  const std::string part = eval("part"), straight = eval("straight");
  EXPECT_EQ(part.substr(part.find("\"split\"")), straight.substr(straight.find("\"split\"")));
}

TEST_F(Models, data_of_the_other_kind_is_refused) {
  const Finished done = train("[model]\npreset = \"vit-tiny\"\n", "x");
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("takes images, and data.source = \"sums\" gives tokens"), std::string::npos) << done.err;
}

TEST_F(Models, a_run_starts_from_the_weights_of_another_and_resumes_without_it) {
  ASSERT_EQ(train(kText, "first").code, 0);
  const std::string next =
      "[train]\nsteps = 4\nbatch = 8\nlength = 24\n[eval]\nbatches = 1\n[optim]\nwarmup = 0\n"
      "[checkpoint]\nevery = 2\n[model]\nfrom = \"first\"\n";
  const Finished second = train(next, "second");
  ASSERT_EQ(second.code, 0) << second.err;
  const auto first_losses = testing::losses(scratch_.runs() / "first"),
             losses = testing::losses(scratch_.runs() / "second");
  const auto loss = [](const std::string& text) { return std::stod(text.substr(text.find_first_of("0123456789"))); };
  EXPECT_LT(loss(losses.at(1)), loss(first_losses.at(1)) - 0.2) << "it does not start where the other ended";
  std::filesystem::remove_all(scratch_.runs() / "first");
  const Finished more = run(scratch_, {"resume", "second", "--steps", "5"});
  EXPECT_EQ(more.code, 0) << more.err;
  const Finished clash = train(next + "layers = 7\n", "clash");
  EXPECT_EQ(clash.code, 2);
  EXPECT_NE(clash.err.find("brings its own"), std::string::npos) << clash.err;
}

TEST_F(Models, a_start_that_is_refused_leaves_no_folder_in_the_way) {
  ASSERT_EQ(train(kText, "base").code, 0);
  const std::string adapted =
      "[train]\nsteps = 2\nbatch = 8\nlength = 24\n[eval]\nbatches = 1\n[optim]\nwarmup = 1\n"
      "[model]\nfrom = \"base\"\n[lora]\nrank = 2\ntargets = ";
  EXPECT_EQ(train(adapted + "\"nothing\"\n", "x").code, 2);
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "x"));
  EXPECT_EQ(train(adapted + "\"c_attn\"\n", "x").code, 0);
}

TEST_F(Models, every_way_to_save_memory_gives_the_same_losses) {
  ASSERT_EQ(train(kText, "plain").code, 0);
  const std::string expected = losses_of("plain");
  const std::pair<std::string, Words> ways[] = {
      {"selective", {"--memory.recompute=selective"}},
      {"full", {"--memory.recompute=full"}},
      {"second", {"--memory.recompute=full", "--memory.recompute_every=2"}},
      {"offload", {"--memory.offload_activations=true", "--memory.offload_optimizer=true"}},
      {"budget", {"--memory-budget", "100GiB"}},
      {"report", {"--memory.report=true"}}};
  for (const auto& [name, flags] : ways) {
    const Finished done = train(kText, name, flags);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(losses_of(name), expected) << name;
  }
  EXPECT_TRUE(std::filesystem::exists(scratch_.runs() / "report" / "memory.json"));
}

TEST_F(Models, a_budget_is_met_or_refused_with_the_least_there_is) {
  const std::string wide =
      "[train]\nsteps = 2\nbatch = 32\nlength = 64\n[model]\nlayers = 6\nwidth = 64\n"
      "[eval]\nbatches = 1\n[optim]\nwarmup = 1\n";
  const Words cpu = {"--device", "cpu"};  // a GPU's libraries take some of their own
  const Finished tight = train_on(cpu, wide, "tight", {"--memory-budget", "24MiB"});
  EXPECT_EQ(tight.code, 0) << tight.err;
  EXPECT_NE((tight.out + tight.err).find("chose"), std::string::npos) << tight.out << tight.err;
  EXPECT_NE((tight.out + tight.err).find("after trying nothing"), std::string::npos) << tight.out << tight.err;
  const Finished none = train_on(cpu, wide, "none", {"--memory-budget", "1MiB"});
  EXPECT_EQ(none.code, 3) << none.err;
  EXPECT_NE(none.err.find("the least that one takes is"), std::string::npos) << none.err;
  EXPECT_EQ(train_on(cpu, wide, "bad", {"--memory-budget", "lots"}).code, 2);
}

TEST_F(Models, out_of_memory_says_what_took_it_or_adapts) {
  const std::map<std::string, std::string> fault = {{"HYPERION_FAULTS", "train.forward=memory@3"}};
  const Finished failed = train(kText, "failed", {}, fault);
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("out of memory at step 3 in the forward pass, allocating activations"), std::string::npos)
      << failed.err;
  EXPECT_NE(failed.err.find("--train.accumulate=2"), std::string::npos) << failed.err;
  ASSERT_EQ(train(kText, "parts", {"--train.accumulate=2"}).code, 0);
  const Finished adapted = train(kText, "adapted", {"--on-oom", "adapt"}, fault);
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE((adapted.out + adapted.err).find("computed in 2 parts of 4"), std::string::npos) << adapted.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "adapted").size(), 6u) << "no step is lost";
  // Batches that do not halve: the next number of parts that divides them, in deed and in word.
  const Finished odd = train(kText, "odd", {"--on-oom", "adapt", "--train.batch=9"}, fault);
  ASSERT_EQ(odd.code, 0) << odd.err;
  EXPECT_NE((odd.out + odd.err).find("computed in 3 parts of 3"), std::string::npos) << odd.err;
  const Finished told = train(kText, "told", {"--train.batch=9"}, fault);
  EXPECT_NE(told.err.find("--train.accumulate=3"), std::string::npos) << told.err;
  const Finished again = train(kText, "again", {"--on-oom", "adapt", "--train.batch=3"},
                               {{"HYPERION_FAULTS", "train.forward=memory@3/1"}});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.err.find("on_oom"), std::string::npos) << again.err;
  EXPECT_EQ(train(kText, "sharded", {"--on-oom", "adapt", "--zero", "3"}, fault).code, 2)
      << "said before the first step";
}

TEST_F(Models, a_short_run_needs_no_warm_up_of_its_own) {
  EXPECT_EQ(
      train("[train]\nsteps = 3\nbatch = 4\nlength = 16\n[model]\nlayers = 1\nwidth = 32\n[eval]\nbatches = 1\n", "x")
          .code,
      0);
  EXPECT_EQ(train("[train]\nsteps = 3\n[optim]\nwarmup = 20\n", "y").code, 2) << "but one that is set is meant";
}

TEST_F(Models, presets_are_listed_and_a_wrong_one_is_corrected) {
  const Finished list = run(scratch_, {"presets"});
  EXPECT_NE(list.out.find("qwen2.5-3b"), std::string::npos);
  const Finished wrong = train("[model]\npreset = \"gpt2-142m\"\n", "x");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean \"gpt2-124m\"?"), std::string::npos) << wrong.err;
  const Finished foreign = train("[model]\nexperts = 4\n", "x");
  EXPECT_NE(foreign.err.find("model.experts means nothing to a model of family gpt2"), std::string::npos)
      << foreign.err;
}

}  // namespace
}  // namespace hyperion
