// The recipes of recipes/experiments, each as it stands but for sizes: from files as they are downloaded to a report
// and an export. docs/experiments.md names them all.
#include "tests/end_to_end/support_experiments.h"
#include "tests/end_to_end/support_prepare.h"
#include "tests/support/image_files.h"

namespace hyperion {
namespace {

using testing::says;
using testing::Words;
using testing::write_file;
using testing::operator+;

class Experiments : public testing::Prepare {
 protected:
  static std::string recipe(const std::string& name) {
    return std::string(HYPERION_SOURCE) + "/recipes/experiments/" + name + ".toml";
  }

  void write_articles() {
    for (const std::string set : {"wikitext-2-raw", "wikitext-103-raw"}) {
      std::filesystem::create_directories(in(set));
      write_file(in(set + "/wiki.train.raw"), testing::wikitext(random_, 30));
      write_file(in(set + "/wiki.valid.raw"), testing::wikitext(random_, 8));
    }
  }
  std::string pixels(const std::string& labels) {
    std::string record = labels;
    for (int i = 0; i < 3072; ++i) record += static_cast<char>(random_());
    return record;
  }
  void write_cifar10() {
    std::filesystem::create_directories(in("cifar-10-batches-bin"));
    for (const std::string part :
         {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
      std::string records;
      for (char i = 0; i < 4; ++i) records += pixels({i});
      write_file(in("cifar-10-batches-bin/" + part + ".bin"), records);
    }
    write_file(in("cifar-10-batches-bin/batches.meta.txt"),
               "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
  }
  void write_cifar100() {
    std::filesystem::create_directories(in("cifar-100-binary"));
    std::string training, names;
    for (char i = 0; i < 16; ++i) training += pixels({static_cast<char>(i % 20), static_cast<char>(6 * i)});
    for (int i = 0; i < 100; ++i) names += "class_" + std::to_string(i) + "\n";
    write_file(in("cifar-100-binary/train.bin"), training);
    write_file(in("cifar-100-binary/test.bin"), training.substr(0, size_t{4} * 3074));
    write_file(in("cifar-100-binary/fine_label_names.txt"), names);
  }
  void write_food() {
    std::string training, held;
    for (const std::string name : {"apple_pie", "ramen"}) {
      std::filesystem::create_directories(in("food-101/images/" + name));
      for (int i = 0; i < 6; ++i) {
        const std::string id = name + "/" + std::to_string(1000 + i);
        write_file(in("food-101/images/" + id + ".jpg"), testing::jpeg_file(testing::picture({40, 48}, random_)));
        (i < 4 ? training : held) += id + "\n";
      }
    }
    std::filesystem::create_directories(in("food-101/meta"));
    write_file(in("food-101/meta/classes.txt"), "apple_pie\nramen\n");
    write_file(in("food-101/meta/labels.txt"), "Apple pie\nRamen\n");
    write_file(in("food-101/meta/train.txt"), training);
    write_file(in("food-101/meta/test.txt"), held);
  }
  void write_questions() {
    nlohmann::json questions = nlohmann::json::array();
    for (int i = 0; i < 800; ++i)
      questions.push_back({{"query", "What is" + testing::sentence(random_) + "?"},
                           {"response", testing::sentence(random_) + "The answer is: " + std::to_string(i)},
                           {"type", "GSM_Rephrased"},
                           {"original_question", "?"}});
    write_file(in("MetaMathQA-395K.json"), questions.dump());
  }

  // A folder as the hub has it, of a model with random weights.
  void make_base(const std::string& name, const std::string& settings, const Words& flags = {}) {
    write_file(in("base.toml"), settings);
    expect_fine(hyperion(train("base.toml", "base") + flags));
    expect_fine(hyperion({"export", "base", "--to", name}));
    std::filesystem::remove_all(scratch_.runs() / "base");
  }
  void make_image_base(const std::string& name) {
    make_base(name,
              "[data]\nsource = \"shapes\"\n[train]\nsteps = 1\nbatch = 4\n[eval]\nbatches = 1\n[model]\n"
              "preset = \"vit-tiny\"\nlayers = 2\nwidth = 16\nheads = 2\ninner = 32\n");
  }
  void make_text_base(const std::string& name, const std::string& preset, const Words& flags) {
    const std::string text =
        "[prepare]\nfiles = [\"wikitext-2-raw/wiki.train.raw\"]\nformat = \"wikitext\"\ntokenizer = \"chat\"\n"
        "validation = 0.2\noutput = \"base-set\"\n[data]\nsource = \"prepared\"\n[train]\nsteps = 1\nbatch = 2\n"
        "length = 16\n[eval]\nbatches = 1\n[model]\nlayers = 1\nheads = 2\nwidth = 16\nvocabulary = 403\n"
        "context = 2048\ninner = 32\npreset = \"";
    write_file(in("base.toml"), text + preset + "\"\n");
    expect_fine(hyperion({"data", "prepare", in("base.toml")}));
    make_base(name, text + preset + "\"\n", flags);
  }

  void prepare(const std::string& name) { expect_fine(hyperion({"data", "prepare", recipe(name)})); }
  // Trains it on so many processes, and looks at what a run leaves.
  void follow(const std::string& name, const std::string& run, int ranks, const Words& sizes, bool exports = true) {
    const Words launch = ranks > 1 ? Words{"launch", "-n", std::to_string(ranks), "--"} : Words{};
    const auto done = hyperion(launch + Words{"train", recipe(name), "--run", run, "--eval.batches=1"} + sizes +
                               testing::device_flags());
    ASSERT_EQ(done.code, 0) << run << "\n" << done.out << done.err;
    const auto folder = scratch_.runs() / run;
    EXPECT_GE(testing::losses(folder).size(), 2u) << run;
    EXPECT_TRUE(says(testing::read_file(folder / "report.html"), "</html>")) << run;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_TRUE(std::filesystem::exists(folder / ("metrics.rank-" + std::to_string(rank) + ".csv"))) << run;
    const auto exported = hyperion({"export", run, "--to", "export-" + run});
    EXPECT_EQ(exported.code, exports ? 0 : 2) << run << exported.err;
    EXPECT_EQ(std::filesystem::exists(in("export-" + run + "/model.safetensors")), exports) << run;
  }
};

const Words kTinyText = {"--model.layers=1", "--model.heads=2", "--model.width=16", "--model.inner=32"};

TEST_F(Experiments, baselines_run_from_their_files_to_report_and_export) {
  write_articles(), write_cifar10();
  prepare("wikitext2-transformer"), prepare("cifar10-resnet18");
  const Words text = kTinyText + Words{"--model.context=32", "--train.length=32", "--train.epochs=1", "--train.batch=8",
                                       "--data.limit=16"};
  follow("wikitext2-transformer", "wikitext2-transformer", 1, text);
  EXPECT_EQ(testing::losses(scratch_.runs() / "wikitext2-transformer").size(), 2u);  // 16 samples of the set, 8 a step
  follow("wikitext2-transformer", "wikitext2-zero3", 2,
         text + Words{"--zero", "3", "--precision", "fp16", "--memory.recompute=full", "--seed", "7"});
  const Words images = {"--train.epochs=1", "--train.batch=8", "--data.limit=16"};
  follow("cifar10-resnet18", "cifar10-resnet18", 1, images, /*exports=*/false);  // its stem is none of transformers'
  follow("cifar10-resnet50", "cifar10-resnet50", 1, images + Words{"--model.image=32"});
  follow("cifar10-vit", "cifar10-vit", 2, images + kTinyText + Words{"--zero", "3"});
}

TEST_F(Experiments, trained_vision_transformers_learn_new_classes) {
  write_cifar100(), write_food();
  make_image_base("google/vit-base-patch16-224");
  std::filesystem::copy(in("google/vit-base-patch16-224"), in("google/vit-huge-patch14-224-in21k"));
  prepare("vit-base-lora-cifar100"), prepare("vit-base-lora-food101"), prepare("vit-huge");
  const Words images = {"--train.epochs=2", "--train.batch=8"};
  follow("vit-base-lora-cifar100", "vit-base-lora-cifar100", 2, images);
  follow("vit-base-lora-food101", "vit-base-lora-food101", 2, images);
  follow("vit-huge", "vit-huge-zero2", 2, images);
  follow("vit-huge", "vit-huge-zero3", 2, images + Words{"--zero", "3"});
  follow("vit-huge", "vit-huge-zeropp", 2, images + Words{"--zero", "3", "--zeropp", "weights,secondary,grads"});
}

TEST_F(Experiments, language_models_run_from_their_files_to_report_and_export) {
  write_articles(), write_questions(), write_chat_tokenizer();
  const Words grouped = {"--model.key_value_heads=1"};
  make_text_base("meta-llama/Llama-2-7b-hf", "llama-tiny", grouped);
  make_text_base("Qwen/Qwen2.5-3B-Instruct", "qwen2.5-0.5b", grouped + Words{"--model.layers=2"});
  make_text_base("Qwen/Qwen1.5-MoE-A2.7B-Chat", "qwen-moe-tiny",
                 Words{"--model.layers=2", "--model.key_value_heads=2"});
  make_text_base("openai-community/gpt2-large", "gpt2-tiny", {});
  prepare("llama2-lora-zero3"), prepare("qwen3b-metamath-1d"), prepare("gpt2-large-wikitext103"), prepare("tinyllama");
  prepare("qwen-moe-metamath-5d");
  const Words few = {"--train.length=64", "--data.limit=16"};
  follow("llama2-lora-zero3", "llama2-lora-zero3", 2, few + Words{"--train.batch=8"});
  follow("qwen3b-metamath-1d", "qwen3b-metamath-1d", 2, few + Words{"--train.batch=8"});
  follow("qwen3b-metamath-1d", "qwen3b-metamath-2d", 2,
         few + Words{"--train.batch=8", "--parallel", "pp=2", "--train.accumulate=4"});
  follow("qwen3b-metamath-1d", "qwen3b-metamath-3d", 4,
         few + Words{"--train.batch=8", "--parallel", "pp=2,tp=2", "--zero", "1", "--train.accumulate=4",
                     "--parallel.sequence=true"});
  follow("qwen3b-metamath-1d", "qwen3b-metamath-4d", 4,
         few + Words{"--train.batch=8", "--parallel", "tp=2,cp=2", "--zero", "1", "--train.accumulate=2",
                     "--parallel.sequence=true"});
  follow("qwen-moe-metamath-5d", "qwen3b-metamath-5d", 4,
         few + Words{"--train.batch=8", "--parallel", "dp=2,tp=2,ep=2", "--train.accumulate=2"});
  const Words gpt2 = few + kTinyText + Words{"--model.context=64", "--train.batch_per_rank=4"};
  follow("gpt2-large-wikitext103", "gpt2-large-ddp", 2, gpt2);
  follow("gpt2-large-wikitext103", "gpt2-large-zero3", 2, gpt2 + Words{"--zero", "3"});
  follow("gpt2-large-scaling", "gpt2-large-scaled", 2, gpt2 + Words{"--steps", "2"});  // of the same set
  const Words tiny = kTinyText + grouped + Words{"--steps", "2", "--train.batch=2"};
  int version = 0;
  for (const std::string rung : {"reference", "fused", "graph", "max"})
    follow("tinyllama", "tinyllama-v" + std::to_string(++version), 1,
           tiny + Words{"--optimize", rung, "--train.length=16"});
  follow("tinyllama", "tinyllama-medium", 1,
         tiny + Words{"--model.preset", "tinyllama-medium", "--train.length", "32"});
}

TEST_F(Experiments, every_full_form_can_be_tried_without_weights) {
  write_articles(), write_cifar10(), write_cifar100(), write_food(), write_questions(), write_chat_tokenizer();
  for (const auto& [name, config] : testing::full_configs()) {
    std::filesystem::create_directories(in(name));
    std::filesystem::copy(in("chat"), in(name));
    write_file(in(name + "/config.json"), config);
  }
  const std::map<std::string, std::string> world = {{"WORLD_SIZE", "8"},          {"RANK", "0"},
                                                    {"LOCAL_RANK", "0"},          {"LOCAL_WORLD_SIZE", "8"},
                                                    {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, flags, parameters] : testing::full_forms()) {
    prepare(name);
    const auto tried = hyperion(Words{"train", recipe(name), "--dry-run"} + flags, world);
    ASSERT_EQ(tried.code, 0) << name << tried.err;
    EXPECT_TRUE(says(tried.out, "parameters  " + parameters + "\n")) << name << tried.out;
    EXPECT_TRUE(says(tried.out, "nothing was written")) << name;
    const bool starts_from = says(testing::read_file(recipe(name)), "\nfrom = ");
    EXPECT_EQ(says(tried.out, "model.safetensors is not there: sizes are those of config.json"), starts_from) << name;
  }
}

TEST_F(Experiments, the_page_names_every_recipe_and_every_experiment) {
  const std::string page = testing::read_file(std::string(HYPERION_SOURCE) + "/docs/experiments.md");
  for (const auto& entry : std::filesystem::directory_iterator(std::string(HYPERION_SOURCE) + "/recipes/experiments"))
    EXPECT_TRUE(says(page, entry.path().filename().string())) << entry.path();
  for (const char* name : {"wikitext2-transformer", "cifar10-resnet18",
                           "cifar10-resnet50",      "cifar10-vit",
                           "llama2-lora-zero3",     "vit-base-lora-cifar100",
                           "vit-base-lora-food101", "vit-huge-zero2",
                           "vit-huge-zero3",        "vit-huge-zeropp",
                           "qwen3b-metamath-1d",    "qwen3b-metamath-2d",
                           "qwen3b-metamath-3d",    "qwen3b-metamath-4d",
                           "qwen3b-metamath-5d",    "gpt2-large-wikitext103",
                           "gpt2-large-scaling",    "gpt2-tiny-scaling",
                           "tinyllama-v1",          "tinyllama-v2",
                           "tinyllama-v3",          "tinyllama-v4"})
    EXPECT_TRUE(says(page, name)) << name;
}

}  // namespace
}  // namespace hyperion
