// A run leaves as a Hugging Face folder and is the same model there; what probe is given wrongly it says.
#include <gtest/gtest.h>

#include "hyperion/base/format.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::read_file;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

// A safetensors file of one int64 tensor for each name.
struct Ids {
  std::string name, shape;
  std::vector<int64_t> values;
  std::string type = "I64";
};

std::string safetensors(const std::vector<Ids>& tensors) {
  std::string header = "{", data;
  for (const auto& [name, shape, values, type] : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t));
    header += base::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", begin > 0 ? "," : "", name,
                           type, shape, begin, data.size());
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  uint64_t length = header.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
  return text + header + data;
}

class Probe : public ::testing::Test {
 protected:
  void SetUp() override {
    const Words train = {"train", testing::tiny_recipe(scratch_), "--device", "cpu", "--run", "first", "--steps", "6"};
    ASSERT_EQ(run(scratch_, train).code, 0);
  }

  testing::Finished probe(const std::string& model, const std::vector<Ids>& tensors, const Words& flags = {}) {
    testing::write_file(scratch_.path() / "in.safetensors", safetensors(tensors));
    return run(scratch_,
               Words{"probe", model, "--input", path("in.safetensors"), "--output", path("out.safetensors")} + flags);
  }
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  Scratch scratch_;
};

TEST_F(Probe, an_exported_run_is_the_same_model) {
  const auto exported = run(scratch_, {"export", "first", "--to", path("folder")});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const std::vector<Ids> input = {{"input_ids", "[2,3]", {1, 2, 3, 200, 5, 6}},
                                  {"labels", "[2,3]", {1, 2, 3, -100, 5, 6}}};
  const auto done = probe("first", input, {"--grads"});
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string from_run = read_file(path("out.safetensors"));
  EXPECT_NE(from_run.find("\"transformer.wte.weight\""), std::string::npos);
  ASSERT_EQ(probe(path("folder"), input, {"--grads"}).code, 0);
  EXPECT_EQ(read_file(path("out.safetensors")), from_run);
  const Words prompt = {"--prompt", "12+34:", "--tokens", "20", "--device", "cpu"};
  const auto here = run(scratch_, Words{"generate", "first"} + prompt);
  EXPECT_EQ(run(scratch_, Words{"generate", path("folder")} + prompt).out, here.out);
  EXPECT_EQ(run(scratch_, {"export", "first", "--to", path("folder")}).code, 2) << "nothing is written over";
}

TEST_F(Probe, says_what_is_wrong_with_its_input) {
  const auto expect_refused = [&](const std::vector<Ids>& input, const std::string& error, const Words& flags = {}) {
    const auto done = probe("first", input, flags);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find(error), std::string::npos) << done.err;
    EXPECT_FALSE(std::filesystem::exists(path("out.safetensors")));
  };
  expect_refused({{"labels", "[1,2]", {1, 2}}}, "holds no input_ids");
  expect_refused({{"input_ids", "[1,2]", {1, 2}}, {"positions", "[1,2]", {1, 2}}}, "tensor \"positions\" is not known");
  expect_refused({{"input_ids", "[1,4]", {1, 2}, "I32"}}, "input_ids holds Int, not int64");
  expect_refused({{"input_ids", "[2]", {1, 2}}}, "input_ids is [2], not [batch, length]");
  expect_refused({{"input_ids", "[1,2]", {1, 256}}}, "input_ids[0, 1] = 256 is not a token id of this model, 0 to 255");
  expect_refused({{"input_ids", "[1,2]", {1, -100}}}, "input_ids[0, 1] = -100 is not");
  expect_refused({{"input_ids", "[1,2]", {1, 2}}, {"labels", "[1,2]", {-1, 2}}}, "labels[0, 0] = -1 is not");
  expect_refused({{"input_ids", "[1,2]", {1, 2}}, {"labels", "[2,1]", {1, 2}}},
                 "labels is [2, 1], and input_ids is [1, 2]");
  expect_refused({{"input_ids", "[1,2]", {1, 2}}, {"attention_mask", "[1,2]", {1, 2}}}, "not only 0 and 1");
  expect_refused({{"input_ids", "[1,2]", {1, 2}}}, "--grads needs a loss", {"--grads"});
  expect_refused({{"input_ids", "[1,2]", {1, 2}}, {"labels", "[1,2]", {2, -100}}}, "count no token: there is no loss");
  expect_refused({{"input_ids", "[1,49]", std::vector<int64_t>(49, 1)}},
                 "49 tokens are more than the model's context of 48");
}

}  // namespace
}  // namespace hyperion
