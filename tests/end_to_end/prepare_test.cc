// From files in the formats that people download to a trained model, by the commands of docs/data.md.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/end_to_end/support_manifest.h"
#include "tests/end_to_end/support_prepare.h"

namespace hyperion {
namespace {

using testing::image_training;
using testing::Prepare;
using testing::read_file;
using testing::sentence;
using testing::wikitext;
using testing::Words;
using testing::write_file;
using testing::operator+;

TEST_F(Prepare, wikitext_is_prepared_inspected_verified_and_trained_on) {
  write_wikitext(60);
  const auto prepared = hyperion({"data", "prepare", in("wiki.toml")});
  expect_fine(prepared);
  EXPECT_NE(prepared.out.find("60 documents"), std::string::npos) << prepared.out;
  EXPECT_NE(prepared.out.find("validation: 8 documents"), std::string::npos) << prepared.out;
  const auto again = hyperion({"data", "prepare", in("wiki.toml")});
  expect_fine(again);
  EXPECT_NE(again.out.find("it was there already"), std::string::npos);
  const auto shown = hyperion({"data", "inspect", in("set")});
  expect_fine(shown);
  EXPECT_NE(shown.out.find("= Article "), std::string::npos) << shown.out;
  EXPECT_EQ(figures("set")["train.set"]["documents"], 60);
  const auto verified = hyperion({"data", "verify", in("set")});
  expect_fine(verified);
  EXPECT_NE(verified.out.find("are as they were written"), std::string::npos);
  expect_fine(hyperion(train("wiki.toml", "wiki")));
  EXPECT_EQ(testing::losses(scratch_.runs() / "wiki").size(), 6u);
}

TEST_F(Prepare, a_dialogue_of_fields_is_learned_in_the_assistants_turns_alone) {
  write_chat_tokenizer();
  nlohmann::json questions = nlohmann::json::array();
  for (int i = 0; i < 200; ++i)
    questions.push_back({{"query", sentence(random_)},
                         {"response", "The answer is: " + std::to_string(random_() % 100)},
                         {"type", "GSM_Rephrased"},
                         {"original_question", "?"}});
  write_file(in("MetaMathQA.json"), questions.dump());
  write_file(in("math.toml"), "[prepare]\nfiles = [\"" + in("MetaMathQA.json") +
                                  "\"]\nformat = \"json\"\nchat = [\"user:query\", \"assistant:response\"]\ntokenizer "
                                  "= \"" +
                                  in("chat") + "\"\nvalidation = 0.1\noutput = \"" + in("math") + "\"\n" + training());
  expect_fine(hyperion({"data", "prepare", in("math.toml")}));
  const auto all = figures("math");
  const auto& training_half = all["train.set"];
  EXPECT_EQ(training_half["documents"].get<int>() + all["validation.set"]["documents"].get<int>(), 200);
  EXPECT_EQ(all["validation.set"]["documents"], 20);
  EXPECT_GT(training_half["learned"].get<int>(), 0);
  EXPECT_LT(training_half["learned"].get<int>(), training_half["tokens"].get<int>() / 2);
  expect_fine(hyperion({"data", "verify", in("math")}));
  for (const std::string packing : {"whole", "single", "stream"})
    expect_fine(hyperion(train("math.toml", "math-" + packing) +
                         Words{"--model.vocabulary=512", "--data.packing=" + packing, "--data.reset=true"}));
  // The run keeps the tokenizer, and writes text with it.
  const auto said = hyperion({"generate", "math-whole", "--prompt", "the river", "--tokens", "4"});
  expect_fine(said);
}

// Older versions put documents into rows in their order, and had no word for that in a checkpoint.
TEST_F(Prepare, a_run_whose_documents_were_not_fitted_into_rows_is_not_resumed) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "r") + Words{"--data.packing=whole"}));
  const auto last = scratch_.runs() / "r/checkpoints/step-6";
  const std::string digest = testing::manifest_state(last)["data_digest"];
  ASSERT_TRUE(digest.ends_with("-fitted")) << digest;
  for (const std::string& older : {digest.substr(0, digest.find('-')), std::string()}) {
    testing::edit_state(last, [&](nlohmann::json& state) { state["data_digest"] = older; });
    const auto refused = hyperion({"resume", "r", "--steps", "8"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_TRUE(testing::says(refused.err, "put documents into rows in their order")) << refused.err;
    EXPECT_TRUE(testing::says(refused.err, "model.from = RUN")) << refused.err;
  }
  testing::edit_state(last, [&](nlohmann::json& state) { state["data_digest"] = digest; });
  expect_fine(hyperion({"resume", "r", "--steps", "8"}));
}

TEST_F(Prepare, a_folder_with_a_file_of_ranks_is_a_tokenizer_too_and_its_run_can_write) {
  static constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte)
    ranks += std::string{digits[byte >> 2], digits[(byte & 3) << 4]} + "== " + std::to_string(byte) + "\n";
  write_wikitext(60);
  std::filesystem::create_directories(in("ranks"));
  write_file(in("ranks/mine.tiktoken"), ranks);
  expect_fine(
      hyperion({"data", "prepare", in("wiki.toml"), "--prepare.tokenizer=" + in("ranks"), "--prepare.pattern=gpt2"}));
  EXPECT_TRUE(std::filesystem::exists(in("set/tokenizer/gpt2.tiktoken")));
  expect_fine(hyperion(train("wiki.toml", "ranks")));
  expect_fine(hyperion({"generate", "ranks", "--prompt", "the", "--tokens", "3"}));
}

TEST_F(Prepare, a_tokenizer_of_any_name_is_found_again_by_its_set_and_run) {
  write_chat_tokenizer();
  write_wikitext(60);
  std::filesystem::copy_file(in("chat/tokenizer.json"), in("tok"));
  expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--prepare.tokenizer=" + in("tok")}));
  EXPECT_TRUE(std::filesystem::exists(in("set/tokenizer/tokenizer.json")));
  expect_fine(hyperion({"data", "verify", in("set")}));
  expect_fine(hyperion(train("wiki.toml", "named") + Words{"--model.vocabulary=512"}));
  expect_fine(hyperion({"generate", "named", "--prompt", "the", "--tokens", "3"}));
  expect_fine(hyperion({"export", "named", "--to", in("out")}));
  EXPECT_TRUE(std::filesystem::exists(in("out/tokenizer.json")));
}

TEST_F(Prepare, a_model_that_knows_fewer_tokens_than_the_set_is_refused) {
  write_chat_tokenizer();
  write_file(in("lines.txt"), wikitext(random_, 30));
  write_file(in("lines.toml"), "[prepare]\nfiles = \"" + in("lines.txt") +
                                   "\"\nformat = \"lines\"\nvalidation = 0.1\ntokenizer = \"" + in("chat") +
                                   "\"\noutput = \"" + in("lines") + "\"\n" + training());
  expect_fine(hyperion({"data", "prepare", in("lines.toml")}));
  const auto refused = hyperion(train("lines.toml", "x"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("set model.vocabulary = 3"), std::string::npos) << refused.err;
}

TEST_F(Prepare, killed_at_any_point_it_goes_on_and_gives_the_same_bytes) {
  write_wikitext(9000);  // some twenty pieces of work
  expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--output", in("whole")}));
  for (const std::string point : {"prepare.batch", "prepare.journal", "set.finish", "files.write"}) {
    const std::string output = in("killed-" + point);
    int kills = 0;
    for (int round = 0; round < 4; ++round) {
      const int at =
          point == "set.finish" ? 1 + round % 2 : 1 + static_cast<int>(random_() % (point == "files.write" ? 60 : 8));
      const auto done =
          hyperion({"data", "prepare", in("wiki.toml"), "--output", output},
                   {{"HYPERION_FAULTS", point + (point == "files.write" ? "=tear@" : "=kill@") + std::to_string(at)}});
      if (done.code == 0) break;
      EXPECT_EQ(done.code, 128 + SIGKILL) << done.err;
      EXPECT_FALSE(std::filesystem::exists(output)) << "a half-made set has its name";
      ++kills;
    }
    EXPECT_GT(kills, 0) << point;
    expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--output", output}));
    for (const char* name : {"train.set", "validation.set"})
      EXPECT_TRUE(read_file(output + "/" + name) == read_file(in("whole/") + name)) << point << " " << name;
    EXPECT_FALSE(std::filesystem::exists(output + ".partial"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(output), {}), 3) << "two sets and their record";
  }
}

TEST_F(Prepare, ctrl_c_keeps_what_is_done_and_says_how_to_go_on) {
  write_wikitext(9000);
  const auto stopped =
      hyperion({"data", "prepare", in("wiki.toml")}, {{"HYPERION_FAULTS", "prepare.batch=interrupt@3"}});
  EXPECT_EQ(stopped.code, 130);
  EXPECT_NE(stopped.err.find("the same command goes on there"), std::string::npos) << stopped.err;
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
}

TEST_F(Prepare, changed_inputs_or_settings_are_never_mixed_with_the_old) {
  write_wikitext(9000);
  EXPECT_NE(hyperion({"data", "prepare", in("wiki.toml")}, {{"HYPERION_FAULTS", "prepare.batch=kill@5"}}).code, 0);
  write_wikitext(50);
  const auto anew = hyperion({"data", "prepare", in("wiki.toml")});
  expect_fine(anew);
  EXPECT_NE(anew.err.find("beginning anew"), std::string::npos) << anew.err;
  EXPECT_EQ(figures("set")["train.set"]["documents"], 50);
  write_wikitext(51);
  const auto other = hyperion({"data", "prepare", in("wiki.toml")});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("from other inputs or settings"), std::string::npos) << other.err;
}

TEST_F(Prepare, any_number_of_threads_gives_the_same_bytes) {
  write_wikitext(2000);
  for (const std::string threads : {"1", "3"})
    expect_fine(
        hyperion({"data", "prepare", in("wiki.toml"), "--output", in("t" + threads), "--prepare.threads=" + threads}));
  EXPECT_TRUE(read_file(in("t1/train.set")) == read_file(in("t3/train.set")));
}

TEST_F(Prepare, damage_is_named_by_verify_and_never_trained_on_silently) {
  write_wikitext(300);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  std::string bytes = read_file(in("set/train.set"));
  bytes[5000] ^= 1;
  write_file(in("set/train.set"), bytes);
  const auto verified = hyperion({"data", "verify", in("set")});
  EXPECT_EQ(verified.code, 1);
  EXPECT_NE(verified.err.find("block 0"), std::string::npos) << verified.err;
  EXPECT_NE(verified.err.find("payload, records 0 to"), std::string::npos) << verified.err;
  write_file(in("set/train.set"), bytes.substr(0, bytes.size() - 100));
  const auto refused = hyperion(train("wiki.toml", "x"));
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("ends early"), std::string::npos) << refused.err;
}

// What is trained on is known by its content, wherever it lies.
TEST_F(Prepare, a_set_that_was_exchanged_is_noticed) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "first")));
  std::filesystem::rename(in("set"), in("old"));
  write_wikitext(61);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  const auto resumed = hyperion({"resume", "first", "--steps", "8"});
  EXPECT_EQ(resumed.code, 2);
  EXPECT_NE(resumed.err.find("is not what this run was trained on until step 6"), std::string::npos) << resumed.err;
  std::filesystem::copy_file(in("old/train.set"), in("set/train.set"),
                             std::filesystem::copy_options::overwrite_existing);
  for (const Words& words : {Words{"data", "verify", in("set")}, Words{"data", "inspect", in("set")},
                             Words{"data", "prepare", in("wiki.toml")}, train("wiki.toml", "second")}) {
    const auto refused = hyperion(words);
    EXPECT_EQ(refused.code, 1) << words[1];
    EXPECT_NE(refused.err.find("train.set is not the file that was prepared"), std::string::npos) << refused.err;
  }
}

TEST_F(Prepare, a_set_that_is_cut_while_it_is_trained_on_ends_the_run_with_its_name) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  testing::Program program(scratch_, train("wiki.toml", "cut") + Words{"--steps", "1000000", "--train.log_every=1"});
  ASSERT_TRUE(program.wait_for_text("step 1/"));
  std::filesystem::resize_file(in("set/train.set"), 100);
  const auto done = program.wait();
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("train.set was cut short"), std::string::npos) << done.err;
}

TEST_F(Prepare, sets_of_different_tokenizers_are_not_mixed) {
  write_chat_tokenizer();
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml"), "--output", in("bytes")}));
  expect_fine(
      hyperion({"data", "prepare", in("wiki.toml"), "--output", in("ids"), "--prepare.tokenizer=" + in("chat")}));
  const auto refused = hyperion(train("wiki.toml", "x") +
                                Words{"--data.path=" + in("bytes") + "," + in("ids"), "--model.vocabulary=512"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("different tokenizers"), std::string::npos) << refused.err;
  expect_fine(
      hyperion(train("wiki.toml", "mixed") +
               Words{"--data.path=[\"" + in("bytes") + "\", \"" + in("bytes") + "\"]", "--data.weights=[0.7, 0.3]"}));
  std::filesystem::remove_all(in("ids/tokenizer"));
  EXPECT_EQ(hyperion({"data", "verify", in("ids")}).code, 1);
}

TEST_F(Prepare, an_input_that_changes_while_it_is_read_makes_no_set) {
  write_wikitext(9000);
  testing::Program program(scratch_, {"data", "prepare", in("wiki.toml")},
                           {{"HYPERION_FAULTS", "prepare.batch=sleep@2"}});
  ASSERT_TRUE(wait_for_file(in("set.partial/journal.json")));
  std::ofstream(in("wiki.train.raw"), std::ios::app) << "more";
  const auto done = program.wait();
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("wiki.train.raw changed while it was read"), std::string::npos) << done.err;
  EXPECT_FALSE(std::filesystem::exists(in("set")));
}

TEST_F(Prepare, dialogues_without_an_assistant_are_not_trained_on) {
  write_chat_tokenizer();
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += R"({"query": "how large is the river ?"})"
             "\n";
  write_file(in("q.jsonl"), lines);
  write_file(in("q.toml"), "[prepare]\nfiles = \"" + in("q.jsonl") +
                               "\"\nformat = \"jsonl\"\nchat = [\"user:query\"]\ntokenizer = \"" + in("chat") +
                               "\"\noutput = \"" + in("q") + "\"\n" + training());
  const auto prepared = hyperion({"data", "prepare", in("q.toml")});
  expect_fine(prepared);
  EXPECT_NE(prepared.err.find("no token is learned"), std::string::npos) << prepared.err;
  const auto refused = hyperion(train("q.toml", "x") + Words{"--model.vocabulary=512"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("no token that the loss counts"), std::string::npos) << refused.err;
}

class BadData : public Prepare {
 protected:
  // What `data prepare` says of lines of JSON with one bad one among them.
  void expect(const std::string& bad_line, const std::string& reason) {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += i == 16 ? bad_line + "\n"
                       : R"({"text": "line of text"})"
                         "\n";
    write_file(in("bad.jsonl"), lines);
    write_file(in("bad.toml"), "[prepare]\nfiles = \"" + in("bad.jsonl") +
                                   "\"\nformat = \"jsonl\"\nvalidation = 0.1\noutput = \"" + in("bad") + "\"\n");
    std::filesystem::remove_all(in("bad")), std::filesystem::remove_all(in("bad.partial"));
    const auto failed = hyperion({"data", "prepare", in("bad.toml")});
    EXPECT_EQ(failed.code, 1);
    EXPECT_NE(failed.err.find("bad.jsonl:17"), std::string::npos) << failed.err;
    EXPECT_NE(failed.err.find(reason), std::string::npos) << failed.err;
    EXPECT_NE(failed.err.find("--on-bad=skip"), std::string::npos) << failed.err;
    EXPECT_FALSE(std::filesystem::exists(in("bad")));
    const auto skipped = hyperion({"data", "prepare", in("bad.toml"), "--on-bad", "skip"});
    expect_fine(skipped);
    EXPECT_NE(skipped.err.find("bad.jsonl:17"), std::string::npos) << skipped.err;
    EXPECT_NE(skipped.out.find("1 left out"), std::string::npos) << skipped.out;
    EXPECT_EQ(
        figures("bad")["train.set"]["documents"].get<int>() + figures("bad")["validation.set"]["documents"].get<int>(),
        39);
  }
};

TEST_F(BadData, lines_of_json_are_named_or_skipped) {
  expect(R"({"text": "cut)", "JSON");
  expect(R"({"body": "no text"})", "text");
  expect(R"({"text": 17})", "text");
  expect(R"({"text": ""})", "empty");
}

TEST_F(BadData, too_many_bad_records_stop_even_a_run_that_skips) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "nonsense\n";
  write_file(in("bad.jsonl"), lines);
  write_file(in("bad.toml"), "[prepare]\nfiles = \"" + in("bad.jsonl") +
                                 "\"\nformat = \"jsonl\"\non_bad = \"skip\"\nbad_limit = 10\noutput = \"" + in("bad") +
                                 "\"\n");
  const auto failed = hyperion({"data", "prepare", in("bad.toml")});
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("10"), std::string::npos) << failed.err;
}

TEST_F(BadData, empty_and_damaged_files_are_named) {
  write_file(in("empty.jsonl"), "");
  write_file(in("broken.jsonl.gz"), std::string("\x1f\x8b\x08\0\0\0\0\0\0\3nonsense", 18));
  for (const std::string name : {"empty.jsonl", "broken.jsonl.gz"}) {
    write_file(in("bad.toml"),
               "[prepare]\nfiles = \"" + in(name) + "\"\nformat = \"jsonl\"\noutput = \"" + in("bad") + "\"\n");
    const auto failed = hyperion({"data", "prepare", in("bad.toml")});
    EXPECT_EQ(failed.code, 1);
    EXPECT_NE(failed.err.find(name), std::string::npos) << failed.err;
  }
}

TEST_F(Prepare, calls_of_tools_are_written_by_a_template_that_has_a_place_for_them_and_else_refused) {
  write_chat_tokenizer();
  const std::string
      plain = R"({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]})",
      calls = R"({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": null, )"
              R"("tool_calls": [{"function": {"name": "weather", "arguments": {"at": "home"}}}]}], )"
              R"("tools": [{"type": "function", "function": {"name": "weather"}}]})";
  write_file(in("calls.jsonl"), plain + "\n" + calls + "\n");
  write_file(in("calls.toml"), "[prepare]\nfiles = \"" + in("calls.jsonl") + "\"\nvalidation_files = \"" +
                                   in("calls.jsonl") +
                                   "\"\nformat = \"jsonl\"\nmessages = \"messages\"\ntokenizer = \"" + in("chat") +
                                   "\"\noutput = \"" + in("calls") + "\"\n");
  const auto refused = hyperion({"data", "prepare", in("calls.toml")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_NE(refused.err.find("calls.jsonl:2: the record has \"tools\""), std::string::npos) << refused.err;
  write_file(in("no-tools.toml"), read_file(in("calls.toml")) + "tools = \"\"\n");
  const auto without = hyperion({"data", "prepare", in("no-tools.toml")});
  EXPECT_NE(without.err.find("calls.jsonl:2: message 2 has \"tool_calls\""), std::string::npos) << without.err;

  std::filesystem::create_directories(in("chat/additional_chat_templates"));
  write_file(in("chat/additional_chat_templates/tool_use.jinja"),
             "{{ tools[0].function.name }}{% for m in messages %}<|im_start|>{{ m.content or "
             "m.tool_calls[0].function.arguments.at }}<|im_end|>{% endfor %}");
  expect_fine(hyperion({"data", "prepare", in("calls.toml")}));
  expect_fine(hyperion({"data", "verify", in("calls")}));
  const auto shown = hyperion({"data", "inspect", in("calls"), "--samples", "2"});
  EXPECT_NE(shown.out.find("weather<|im_start|>hello<|im_end|><|im_start|>home<|im_end|>"), std::string::npos)
      << shown.out;
  expect_fine(hyperion({"data", "prepare", in("calls.toml")}));  // it was there already
}

// With one image a process, or three, partners are another process's.
TEST_F(Prepare, mixed_images_give_the_same_bits_on_one_two_and_four_processes) {
  std::filesystem::create_directories(in("cifar"));
  std::string bytes;
  for (int i = 0; i < 12 * 3073; ++i) bytes += static_cast<char>(i % 3073 == 0 ? i / 3073 % 10 : random_());
  for (int part = 1; part <= 5; ++part) write_file(in("cifar/data_batch_" + std::to_string(part) + ".bin"), bytes);
  write_file(in("cifar/test_batch.bin"), bytes);
  write_file(in("cifar.toml"), "[augment]\nmixup = 0.5\ncutmix = 1\n" + image_training("vit-tiny", 0));
  const auto losses = [&](int ranks, int batch) {
    const std::string name = std::to_string(batch) + "-by-" + std::to_string(ranks);
    const Words launch{"launch", "-n", std::to_string(ranks), "--logs", in("logs-" + name), "--"};
    const Words flags{"--deterministic=layout",
                      "--data.source=cifar",
                      "--data.path=" + in("cifar"),
                      "--model.layers=1",
                      "--train.batch=" + std::to_string(batch),
                      "--train.accumulate=" + std::to_string(4 / ranks)};
    expect_fine(hyperion(launch + train("cifar.toml", name) + flags));
    return testing::losses(scratch_.runs() / name);
  };
  for (const int batch : {4, 12}) {
    const auto alone = losses(1, batch);
    EXPECT_EQ(alone.size(), 4u);
    EXPECT_EQ(losses(2, batch), alone) << batch;
    EXPECT_EQ(losses(4, batch), alone) << batch;
  }
}

TEST_F(Prepare, cifar_is_prepared_inspected_verified_and_trained_on) {
  std::filesystem::create_directories(in("cifar"));
  const auto batch = [&](const std::string& name, int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      bytes += static_cast<char>(i % 10);
      for (int pixel = 0; pixel < 3072; ++pixel) bytes += static_cast<char>(random_());
    }
    write_file(in("cifar/" + name), bytes);
  };
  for (int part = 1; part <= 5; ++part) batch("data_batch_" + std::to_string(part) + ".bin", 20);
  batch("test_batch.bin", 30);
  write_file(in("cifar/batches.meta.txt"), "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  write_file(in("cifar.toml"), "[prepare]\nfiles = \"" + in("cifar") + "\"\nformat = \"cifar\"\noutput = \"" +
                                   in("set") + "\"\n[augment]\ncrop = \"padded\"\nflip = true\nmixup = 0.5\n" +
                                   image_training("vit-tiny", 0));
  expect_fine(hyperion({"data", "prepare", in("cifar.toml")}));
  const auto shown = hyperion({"data", "inspect", in("set"), "--grid", in("grid.png")});
  expect_fine(shown);
  EXPECT_NE(shown.out.find("automobile"), std::string::npos) << shown.out;
  EXPECT_EQ(read_file(in("grid.png")).substr(1, 3), "PNG");
  EXPECT_EQ(figures("set")["train.set"]["images"], 100);
  EXPECT_EQ(figures("set")["validation.set"]["images"], 30);
  expect_fine(hyperion({"data", "verify", in("set")}));
  expect_fine(hyperion(train("cifar.toml", "cifar")));
  EXPECT_EQ(testing::losses(scratch_.runs() / "cifar").size(), 4u);
}

// The hash of every sample a run took is the same however often it was stopped.
TEST_F(Prepare, a_killed_and_resumed_run_reads_the_same_samples) {
  write_wikitext(60);
  expect_fine(hyperion({"data", "prepare", in("wiki.toml")}));
  expect_fine(hyperion(train("wiki.toml", "whole")));
  const auto killed = hyperion(train("wiki.toml", "killed"), {{"HYPERION_FAULTS", "train.step=kill@5"}});
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  expect_fine(hyperion({"resume", "killed"}));
  const auto hashes = [&](const std::string& name) {
    std::vector<std::string> all;
    std::istringstream lines(read_file(scratch_.runs() / name / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const auto json = nlohmann::json::parse(line); json.contains("sample_hash"))
        all.push_back(json["samples"].dump() + " " + json["sample_hash"].get<std::string>());
    return all;
  };
  EXPECT_EQ(hashes("whole").size(), 6u);
  EXPECT_EQ(hashes("killed"), hashes("whole"));
  EXPECT_EQ(testing::losses(scratch_.runs() / "killed"), testing::losses(scratch_.runs() / "whole"));
}

}  // namespace
}  // namespace hyperion
