// `hyperion fetch`, against a hub on this machine: what it leaves in the cache, and what it does when that goes wrong.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "tests/end_to_end/support_hub.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Finished;
using testing::read_file;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::write_file;
using testing::operator+;
using Words = std::vector<std::string>;

constexpr const char* kName = "tiny/model";
constexpr size_t kWeightBytes = 300'000;

class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    fs::create_directories(model());
    write_file(model() / "config.json", R"({"model_type": "gpt2"})");
    write_file(model() / "merges.txt", "");
    write_file(model() / "pytorch_model.bin", "a program");
    std::string weights(kWeightBytes, '\0');
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<char>(i * 7919 >> 5);
    write_file(model() / "model.safetensors", weights);
  }

  fs::path model() const { return hub_.model(kName); }
  fs::path cached() const { return hub_.cached_model(kName); }
  Finished fetch(const Words& words = {kName}, const std::map<std::string, std::string>& more = {}) const {
    return run(scratch_, Words{"fetch"} + words, hub_.online(more));
  }
  Words begun() const {
    Words names;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(cached() / "blobs", none))
      if (entry.path().extension() == ".incomplete") names.push_back(entry.path());
    return names;
  }
  // Until the server has sent what it will, and it has been written.
  void wait_for_bytes(uint64_t bytes) const {
    for (int i = 0; i < 3000; ++i) {
      for (const auto& path : begun())
        if (std::error_code gone; fs::file_size(path, gone) >= bytes && !gone) return;  // it may be whole meanwhile
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << bytes << " bytes never came";
  }
  // Nothing that a reader of the cache could find.
  void expect_nothing_visible() const {
    EXPECT_FALSE(fs::exists(cached() / "refs"));
    EXPECT_FALSE(fs::exists(cached() / "snapshots"));
  }

  Scratch scratch_;
  testing::Hub hub_{scratch_};
};

TEST_F(Fetch, lays_the_cache_out_as_huggingface_hub_does) {
  const Finished done = fetch();
  ASSERT_EQ(done.code, 0) << done.err;
  const std::string commit = read_file(cached() / "refs/main");
  EXPECT_EQ(done.out, (cached() / "snapshots" / commit).string() + "\n");
  for (const char* name : {"config.json", "merges.txt", "model.safetensors"}) {
    const fs::path link = cached() / "snapshots" / commit / name;
    ASSERT_TRUE(fs::is_symlink(link)) << name;
    EXPECT_EQ(fs::read_symlink(link).parent_path(), "../../blobs");
    EXPECT_EQ(read_file(link), read_file(model() / name));
  }
  EXPECT_FALSE(fs::exists(cached() / "snapshots" / commit / "pytorch_model.bin"));
  EXPECT_TRUE(hub_.requests("pytorch_model.bin").empty());
  EXPECT_TRUE(begun().empty());

  const size_t asked = hub_.requests("resolve").size();
  const Finished again = fetch();
  EXPECT_EQ(again.out, done.out);
  EXPECT_TRUE(says(again.err, "all there already")) << again.err;
  EXPECT_EQ(hub_.requests("resolve").size(), asked) << "what is there is not fetched again";
}

TEST_F(Fetch, takes_revisions_and_servers_that_tell_no_hashes) {
  hub_.behave(R"({"no_blobs": true})");
  ASSERT_EQ(fetch({std::string(kName) + "@v1"}).code, 0);
  EXPECT_FALSE(fs::exists(cached() / "refs/main"));
  const std::string commit = read_file(cached() / "refs/v1");
  EXPECT_EQ(read_file(cached() / "snapshots" / commit / "model.safetensors"), read_file(model() / "model.safetensors"));
  const Finished other = fetch({std::string(kName) + "@v2"});
  EXPECT_EQ(other.code, 2);
  EXPECT_TRUE(says(other.err, "v2")) << other.err;
}

TEST_F(Fetch, goes_on_where_it_was_killed) {
  hub_.behave(R"({"stall": 100000})");
  for (const uint64_t bytes : {100'000u, 200'000u}) {
    testing::Program program(scratch_, {"fetch", kName}, hub_.online());
    wait_for_bytes(bytes);
    program.signal(SIGKILL);
    EXPECT_EQ(program.wait().code, 128 + SIGKILL);
    expect_nothing_visible();
  }
  hub_.behave("{}");
  const Finished done = fetch();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(hub_.requests("bytes=100000-").size(), 2u) << "asked of the hub and of where it redirects to";
  EXPECT_EQ(hub_.requests("store GET /models/tiny/model/model.safetensors bytes=200000-").size(), 1u);
  const std::string commit = read_file(cached() / "refs/main");
  EXPECT_EQ(read_file(cached() / "snapshots" / commit / "model.safetensors"), read_file(model() / "model.safetensors"));
}

TEST_F(Fetch, goes_on_after_control_c) {
  hub_.behave(R"({"stall": 100000})");
  testing::Program program(scratch_, {"fetch", kName}, hub_.online());
  wait_for_bytes(100'000);
  program.signal(SIGINT);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_TRUE(says(stopped.err, "goes on where it was")) << stopped.err;
  hub_.behave("{}");
  EXPECT_EQ(fetch().code, 0);
  EXPECT_EQ(hub_.requests("store GET /models/tiny/model/model.safetensors bytes=100000-").size(), 1u);
}

TEST_F(Fetch, tries_again_when_the_connection_breaks) {
  hub_.behave(R"({"cut": 2})");
  const Finished done = fetch();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.err, "trying again")) << done.err;
  EXPECT_EQ(hub_.requests("store GET").size(), 3u);
}

TEST_F(Fetch, refuses_and_removes_bytes_with_a_wrong_hash) {
  hub_.behave(R"({"corrupt": true})");
  const Finished done = fetch();
  EXPECT_EQ(done.code, 1);
  EXPECT_TRUE(says(done.err, "model.safetensors as it came has the hash")) << done.err;
  EXPECT_TRUE(begun().empty());
  expect_nothing_visible();
  hub_.behave("{}");
  EXPECT_EQ(fetch().code, 0);
}

TEST_F(Fetch, sends_the_token_to_the_endpoint_alone) {
  hub_.behave(R"({"token": "hf_secret"})");
  const Finished done = fetch({kName}, {{"HF_TOKEN", "hf_secret"}});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(hub_.requests("hub ").size(), hub_.requests("Bearer hf_secret").size());
  EXPECT_FALSE(hub_.requests("store ").empty());
  for (const auto& line : hub_.requests("store ")) EXPECT_TRUE(line.ends_with(" -")) << line;
  EXPECT_FALSE(says(done.err + done.out, "hf_secret"));
}

TEST_F(Fetch, says_what_to_do_about_a_gated_model) {
  hub_.behave(R"({"token": "hf_secret"})");
  for (const char* token : {"", "hf_other"}) {
    const Finished done = fetch({kName}, {{"HF_TOKEN", token}});
    EXPECT_EQ(done.code, 2);
    EXPECT_TRUE(says(done.err, "gated") && says(done.err, "HF_TOKEN") && says(done.err, "/tiny/model")) << done.err;
  }
}

TEST_F(Fetch, refuses_pickles_and_names_that_leave_the_cache) {
  for (const char* name : {"../../../escaped.txt", "/tmp/escaped.txt", "a\\u001b[2Jb.txt"}) {
    hub_.behave(std::string(R"({"names": [")") + name + R"("]})");
    const Finished done = fetch();
    EXPECT_EQ(done.code, 1) << done.err;
    EXPECT_TRUE(says(done.err, "could be written anywhere")) << done.err;
    EXPECT_FALSE(says(done.err, "\x1b")) << done.err;
  }
  EXPECT_FALSE(fs::exists(hub_.cache())) << "nothing was made";
  hub_.behave("{}");
  fs::remove(model() / "model.safetensors");
  const Finished done = fetch();
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "pytorch_model.bin") && says(done.err, "pickle")) << done.err;
}

TEST_F(Fetch, says_what_is_not_there_or_cannot_be_reached) {
  const Finished missing = fetch({"tiny/other"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(says(missing.err, "404") && says(missing.err, "check the name")) << missing.err;
  const Finished alone = run(scratch_, {"fetch", kName}, hub_.offline());
  EXPECT_EQ(alone.code, 1);
  EXPECT_TRUE(says(alone.err, "check the network")) << alone.err;
  const Finished open = fetch({kName}, {{"HF_ENDPOINT", "http://hub.invalid"}});
  EXPECT_EQ(open.code, 2);
  EXPECT_TRUE(says(open.err, "only https") && says(open.err, "--allow-http")) << open.err;
  EXPECT_EQ(fetch({kName}, {{"HF_HUB_OFFLINE", "1"}}).code, 2);
  EXPECT_EQ(fetch({"../model"}).code, 2);
}

TEST_F(Fetch, needs_room_on_the_disk) {
  const Finished full = fetch({kName}, {{"HYPERION_FAULTS", "files.write=enospc@3"}});
  EXPECT_EQ(full.code, 1);
  EXPECT_TRUE(says(full.err, "HF_HUB_CACHE")) << full.err;
  expect_nothing_visible();
  hub_.behave(R"({"size": 4611686018427387904})");
  const Finished giant = fetch();
  EXPECT_EQ(giant.code, 3);
  EXPECT_TRUE(says(giant.err, "has room for")) << giant.err;
  hub_.behave("{}");
  EXPECT_EQ(fetch().code, 0);
}

TEST_F(Fetch, waits_for_another_that_fetches_the_same) {
  hub_.behave(R"({"stall": 100000})");
  testing::Program first(scratch_, {"fetch", kName}, hub_.online());
  wait_for_bytes(100'000);
  testing::Program second(scratch_, {"fetch", kName}, hub_.online());
  EXPECT_TRUE(second.wait_for_text("waiting for it"));
  hub_.behave("{}");  // the first one's connection ends, and it goes on
  EXPECT_EQ(first.wait().code, 0);
  EXPECT_EQ(second.wait().code, 0);
  EXPECT_EQ(hub_.requests("store GET").size(), 2u) << "both by the first";
}

TEST_F(Fetch, brings_a_set) {
  fs::create_directories(hub_.set("tiny/set") / "data");
  write_file(hub_.set("tiny/set") / "data/train.jsonl", "{\"text\": \"a\"}\n");
  write_file(hub_.set("tiny/set") / "data/test.parquet", "p");
  write_file(hub_.set("tiny/set") / "load.py", "a program");
  const Finished done = fetch({"--set", "tiny/set", "--only", "*.jsonl"});
  ASSERT_EQ(done.code, 0) << done.err;
  const fs::path folder = hub_.cache() / "datasets--tiny--set";
  const fs::path snapshot = folder / "snapshots" / read_file(folder / "refs/main");
  EXPECT_EQ(done.out, snapshot.string() + "\n");
  EXPECT_EQ(fs::read_symlink(snapshot / "data/train.jsonl").parent_path(), "../../../blobs");
  EXPECT_EQ(read_file(snapshot / "data/train.jsonl"), "{\"text\": \"a\"}\n");
  EXPECT_FALSE(fs::exists(snapshot / "data/test.parquet") || fs::exists(snapshot / "load.py"));
}

}  // namespace
}  // namespace hyperion
