#include "hyperion/command/recipe_templates.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::cli {
namespace {

constexpr const char* kPretrain = R"(# A language model from scratch, on texts of your own:
#   hyperion data prepare recipe.toml
#   hyperion train recipe.toml --run mine

[prepare]
files = ["texts/*.txt"]     # for lines of JSON: "texts/*.jsonl", and format = "jsonl"
format = "text"
tokenizer = "bytes"         # or a folder or tokenizer.json; model.vocabulary is then as large as it says
output = "sets/texts"

[data]
source = "prepared"         # the set above

[model]
preset = "llama-tiny"       # `hyperion presets` lists others
layers = 6
width = 256
heads = 8
key_value_heads = 8
inner = 688
context = 256

[train]
steps = 2000
batch = 32                  # samples of one update, on all processes together
length = 256
precision = "fp32"          # "bf16" on a GPU

[optim]
lr = 1e-3
warmup = 100

[eval]
every = 200

[checkpoint]
every = 500
)";

constexpr const char* kSft = R"(# All weights of a chat model, trained further on dialogues of your own:
#   hyperion data prepare recipe.toml
#   hyperion train recipe.toml --run mine
#   hyperion chat mine
# The loss counts what the assistant says.

[prepare]
files = ["dialogues.jsonl"]
format = "jsonl"
messages = "messages"       # the field with a list of {"role": ..., "content": ...}
tokenizer = "base-model"    # the folder of the model: it brings the chat template too
output = "sets/dialogues"

[data]
source = "prepared"
packing = "whole"
reset = true

[model]
from = "base-model"         # a Hugging Face folder, a run or a checkpoint

[train]
steps = 500
batch = 32
accumulate = 8              # parts the batch is computed in: more need less memory
length = 512
precision = "bf16"          # "fp32" on most CPUs

[optim]
lr = 1e-5
warmup = 20
weight_decay = 0.0

[eval]
every = 100
)";

constexpr const char* kLora =
    R"(# A small adapter beside the frozen weights of a model, trained on questions and answers of your own:
#   hyperion data prepare recipe.toml
#   hyperion train recipe.toml --run mine
#   hyperion export mine --as-adapter --to mine-adapter
# The loss counts the answers.

[prepare]
files = ["answers.jsonl"]
format = "jsonl"
chat = ["user:question", "assistant:answer"]    # the fields of a line, by who says them
tokenizer = "base-model"
output = "sets/answers"

[data]
source = "prepared"
packing = "whole"
reset = true

[model]
from = "base-model"         # a Hugging Face folder, a run or a checkpoint
quantize = "none"           # "nf4": its weights in 4 bits, for a quarter of the memory

[lora]
rank = 16
alpha = 32.0

[train]
steps = 500
batch = 32
accumulate = 8
length = 512
precision = "bf16"          # "fp32" on most CPUs

[optim]
lr = 2e-4
warmup = 20

[eval]
every = 100
)";

constexpr const char* kImages =
    R"(# A model that tells classes of images apart. Each class is a folder of JPEG or PNG files: images/cat/1.jpg
#   hyperion data prepare recipe.toml
#   hyperion train recipe.toml --run mine

[prepare]
files = ["images"]
format = "images"
store = "raw"               # decoded once and kept as pixels
side = 256
output = "sets/images"

[data]
source = "prepared"

[augment]
crop = "resized"
flip = true

[model]
preset = "resnet18"         # or vit-b16; `hyperion presets` lists others
classes = 10                # as many as there are folders

[train]
steps = 5000
batch = 128
precision = "fp32"          # "bf16" on a GPU

[optim]
rule = "sgd"
lr = 0.1
weight_decay = 1e-4
warmup = 200

[eval]
every = 500
batches = 20
)";

}  // namespace

const std::vector<RecipeTemplate>& recipe_templates() {
  static const std::vector<RecipeTemplate> all = {
      {"pretrain", "a language model from scratch", kPretrain},
      {"sft", "a chat model trained further on dialogues", kSft},
      {"lora", "an adapter beside a frozen model", kLora},
      {"images", "classes of images", kImages},
  };
  return all;
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const auto& one : recipe_templates()) names.emplace_back(one.name);
  return names;
}

const RecipeTemplate& find_template(const std::string& name) {
  for (const auto& one : recipe_templates())
    if (name == one.name) return one;
  throw base::ConfigError(base::format("no template is called {}", name), "`hyperion init --help` lists them");
}

}  // namespace hyperion::cli
