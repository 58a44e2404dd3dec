#include "hyperion/base/config.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "tests/base/support_child.h"

namespace hyperion::base::test {
namespace {

enum class Rule { adamw, sgd };
constexpr auto words_of(Rule) { return std::array{"adamw", "sgd"}; }

// "3x4"
struct Size {
  Size() = default;
  explicit Size(const std::string& text) : high(text.at(0) - '0'), wide(text.at(2) - '0') {
    if (text.size() != 3 || text[1] != 'x') throw ConfigError("train.size = \"" + text + "\" is no size");
  }
  std::string text() const { return std::to_string(high) + "x" + std::to_string(wide); }
  int high = 1, wide = 2;
};

struct Example {
  double lr = 3e-4, anything = 0;
  int64_t steps = 10, wide = 0;
  bool fused = false;
  Rule rule = Rule::adamw;
  Size size;
  std::string note;

  Settings settings() {
    Settings all;
    all.section("optim", "the update")
        .real("lr", lr, {0, 10}, "peak learning rate")
        .choice("rule", rule, "how weights change");
    all.section("train", "the run")
        .integer("steps", steps, {1, 1000}, "updates in all", "steps")
        .integer("wide", wide, {-9.3e18, 9.3e18}, "any whole number")
        .real("anything", anything, {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()},
              "any number")
        .flag("fused", fused, "one kernel")
        .written("size", size, "height and width")
        .text("note", note, "for people");
    return all;
  }
};

std::string refusal_of_recipe(const std::string& text) {
  Example example;
  Settings settings = example.settings();
  return error_of<ConfigError>([&] { settings.read_toml(text, "r.toml"); });
}
std::string refusal_of(const std::string& name, const std::string& value) {
  Example example;
  Settings settings = example.settings();
  return error_of<ConfigError>([&] { settings.set(name, value, "--" + name); });
}
void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no \"" << part << "\" in: " << text;
}

TEST(Recipe, what_stands_in_it_twice_is_named_with_its_place) {
  EXPECT_EQ(refusal_of_recipe("[train]\nsteps = 3\nsteps = 4\n"),
            "error: steps is set twice, r.toml:3:9\nhint: leave one of them out\n");
  EXPECT_EQ(refusal_of_recipe("[train]\nsteps = 3\n[optim]\nlr = 1\n[train]\nwide = 4\n"),
            "error: [train] is there twice, r.toml:5:1\nhint: put all its keys under one of the two\n");
}

TEST(Config, reads_every_type_from_a_recipe) {
  Example example;
  Settings settings = example.settings();
  settings.read_toml("[optim]\nlr = 1\nrule = \"sgd\"\n[train]\nsteps = 7\nfused = true\nnote = 'x'\n", "r.toml");
  EXPECT_EQ(example.lr, 1.0);
  EXPECT_EQ(example.rule, Rule::sgd);
  EXPECT_EQ(example.steps, 7);
  EXPECT_TRUE(example.fused);
  EXPECT_EQ(example.note, "x");
  EXPECT_EQ(settings.at("train.steps").origin, "r.toml:5:1");
  EXPECT_EQ(settings.at("train.wide").origin, "default");
}

TEST(Config, an_unknown_key_is_refused_with_the_nearest_one) {
  const std::string text = refusal_of_recipe("[train]\nstesp = 3\n");
  expect_has(text, "unknown setting train.stesp, r.toml:2:1");
  expect_has(refusal_of_recipe("[train]\nstep = 3\n"), "did you mean train.steps?");
  expect_has(refusal_of_recipe("[train]\nzzzzzzz = 3\n"), "lists all settings");
}

TEST(Config, a_key_of_another_section_is_named_in_full) {
  expect_has(refusal_of_recipe("[train]\n\"optim.lr\" = 3\n"), "did you mean optim.lr?");
}

TEST(Config, an_unknown_section_is_refused_with_the_nearest_one) {
  expect_has(refusal_of_recipe("[optin]\nlr = 3\n"), "did you mean optim.lr?");
  expect_has(refusal_of_recipe("[zzz]\nlr = 3\n"), "unknown setting zzz.lr, r.toml:2:1");
}

TEST(Config, an_unknown_section_is_refused_even_when_empty) {
  const std::string text = refusal_of_recipe("[optim]\n[trainn]\n");
  expect_has(text, "unknown section [trainn], r.toml:2:");
  expect_has(text, "did you mean [train]?");
}

TEST(Config, a_wrong_type_says_both_types_and_the_place) {
  expect_has(refusal_of_recipe("[train]\nsteps = 1.5\n"),
             "train.steps must be a whole number, not a TOML floating-point, r.toml:2:9");
  expect_has(refusal_of_recipe("[train]\nsteps = \"5\"\n"), "must be a whole number");
  expect_has(refusal_of_recipe("[train]\nsteps = true\n"), "must be a whole number");
  expect_has(refusal_of_recipe("[train]\nfused = 1\n"), "train.fused must be true or false, not a TOML integer");
  expect_has(refusal_of_recipe("[train]\nnote = 1\n"), "train.note must be text");
  expect_has(refusal_of_recipe("[optim]\nlr = \"fast\"\n"), "must be a number");
  expect_has(refusal_of_recipe("[optim]\nlr = 1979-05-27\n"), "must be a number");
}

TEST(Config, arrays_and_tables_are_no_values) {
  expect_has(refusal_of_recipe("[train]\nsteps = [1, 2]\n"), "not a TOML array");
  expect_has(refusal_of_recipe("[train]\nsteps = {a = 1}\n"), "not a TOML table");
  expect_has(refusal_of_recipe("[train.steps]\na = 1\n"), "not a TOML table");
  expect_has(refusal_of_recipe("[[train]]\nsteps = 1\n"), "train");
  expect_has(refusal_of_recipe("train = [1]\n"), "train");
}

TEST(Config, a_key_outside_a_section_is_refused) {
  expect_has(refusal_of_recipe("steps = 3\n[train]\n"), "steps stands outside any section, r.toml:1:1");
}

TEST(Config, out_of_range_says_the_range_and_unit) {
  expect_has(refusal_of_recipe("[train]\nsteps = 0\n"), "train.steps = 0 is out of range, r.toml:2:9");
  expect_has(refusal_of_recipe("[train]\nsteps = 1001\n"), "1 to 1000 steps");
  expect_has(refusal_of_recipe("[optim]\nlr = -1e-9\n"), "out of range");
  expect_has(refusal_of_recipe("[optim]\nrule = \"sdg\"\n"), "optim.rule = \"sdg\" is not one of adamw, sgd");
  expect_has(refusal_of_recipe("[optim]\nrule = \"adam\"\n"), "did you mean \"adamw\"?");
}

TEST(Config, a_choice_is_an_enum_that_is_written_as_its_word) {
  Example example;
  Settings settings = example.settings();
  const Setting& rule = settings.at("optim.rule");
  EXPECT_EQ(rule.default_text, "\"adamw\"");
  EXPECT_EQ(rule.choices, (std::vector<std::string>{"adamw", "sgd"}));
  settings.set("optim.rule", "sgd", "--optim.rule");
  EXPECT_EQ(example.rule, Rule::sgd);
  EXPECT_EQ(rule.text(), "\"sgd\"");
  expect_has(settings.toml(false), "\nrule = \"sgd\"\n");
  expect_has(settings.help(), "--optim.rule                   how weights change (default \"adamw\"; adamw, sgd)\n");
  const char* environment[] = {"HYPERION_OPTIM__RULE=adamw", nullptr};
  settings.read_environment(environment);
  EXPECT_EQ(example.rule, Rule::adamw);
}

TEST(Config, a_word_that_no_choice_has_is_refused_with_the_nearest_one) {
  EXPECT_EQ(refusal_of("optim.rule", "adam"),
            "error: optim.rule = \"adam\" is not one of adamw, sgd, --optim.rule\nhint: did you mean \"adamw\"?\n");
  EXPECT_EQ(refusal_of("optim.rule", "lion"),
            "error: optim.rule = \"lion\" is not one of adamw, sgd, --optim.rule\nhint: how weights change\n");
  expect_has(refusal_of_recipe("[optim]\nrule = 1\n"), "optim.rule must be text, not a TOML integer, r.toml:2:8");
  expect_has(refusal_of("optim.rule", "\xff"), "optim.rule is not UTF-8 text");
  EXPECT_EQ(from_word<Rule>("sgd"), Rule::sgd);
  EXPECT_EQ(from_word<Rule>("lion"), std::nullopt);
  EXPECT_STREQ(word_of(Rule::sgd), "sgd");
}

TEST(Config, a_type_of_its_own_reads_and_writes_its_text) {
  Example example;
  Settings settings = example.settings();
  settings.read_toml("[train]\nsize = \"3x4\"\n", "r.toml");
  EXPECT_EQ(example.size.high, 3);
  EXPECT_EQ(example.size.wide, 4);
  EXPECT_EQ(settings.at("train.size").text(), "\"3x4\"");
  expect_has(refusal_of("train.size", "3 4"), "train.size = \"3 4\" is no size");
  expect_has(refusal_of_recipe("[train]\nsize = 3\n"), "train.size must be text, not a TOML integer");
}

TEST(Config, both_ends_of_a_range_are_allowed) {
  EXPECT_EQ(refusal_of_recipe("[train]\nsteps = 1\n[optim]\nlr = 0\n"), "");
  EXPECT_EQ(refusal_of_recipe("[train]\nsteps = 1000\n[optim]\nlr = 10\n"), "");
}

TEST(Config, not_a_number_is_never_in_range) {
  expect_has(refusal_of_recipe("[optim]\nlr = nan\n"), "out of range");
  expect_has(refusal_of_recipe("[train]\nanything = -nan\n"), "out of range");
  expect_has(refusal_of_recipe("[optim]\nlr = inf\n"), "out of range");
  expect_has(refusal_of("optim.lr", "nan"), "out of range");
  expect_has(refusal_of("train.anything", "nan"), "out of range");
}

TEST(Config, a_large_whole_number_is_a_number_too) {
  Example example;
  Settings settings = example.settings();
  settings.read_toml("[train]\nanything = 9223372036854775807\n", "r.toml");
  EXPECT_EQ(example.anything, 9223372036854775807.0);
  settings.read_toml("[train]\nanything = -9007199254740994\n", "r.toml");
  EXPECT_EQ(example.anything, -9007199254740994.0);
  expect_has(refusal_of_recipe("[optim]\nlr = 9007199254740995\n"), "out of range");
}

TEST(Config, numbers_beyond_64_bits_are_refused) {
  expect_has(refusal_of_recipe("[train]\nwide = 9223372036854775808\n"), "r.toml:2:");
  expect_has(refusal_of("train.wide", "9223372036854775808"), "train.wide");
  expect_has(refusal_of("train.anything", "1e999"), "train.anything");
  EXPECT_EQ(refusal_of("train.wide", "-9223372036854775808"), "");
}

TEST(Config, help_shows_ranges_wider_than_64_bits) {
  Example example;
  expect_has(example.settings().help(), "-9223372036854775808 to 9223372036854775807");
}

TEST(Config, bad_toml_is_refused_with_line_and_column) {
  expect_has(refusal_of_recipe("[train]\nsteps = = 3\n"), "r.toml:2:9");
  expect_has(refusal_of_recipe("[train\nsteps = 3\n"), "r.toml:1:");
  expect_has(refusal_of_recipe("[train]\nsteps = 3\nsteps = 4\n"), "r.toml:3:");
  expect_has(refusal_of_recipe("[train]\nnote = \"\xff\"\n"), "r.toml:2:");
  expect_has(refusal_of_recipe(std::string("[train]\nnote = \"a\0b\"\n", 21)), "r.toml:2:");
  expect_has(refusal_of_recipe("[train]\nnote = \"open\n"), "r.toml:2:");
}

TEST(Config, an_empty_recipe_changes_nothing) {
  EXPECT_EQ(refusal_of_recipe(""), "");
  EXPECT_EQ(refusal_of_recipe("# only a comment\n[train]\n"), "");
}

TEST(Config, command_line_text_must_be_whole) {
  for (const char* text : {"", " 5", "5 ", "5x", "0x5", "1e2", "+5", "5.0", "five"})
    expect_has(refusal_of("train.steps", text), "must be a whole number, not \"" + std::string(text) + "\"");
  for (const char* text : {"", "1,5", "1e", "--1", "0.1f"})
    expect_has(refusal_of("optim.lr", text), "must be a number");
  for (const char* text : {"", "yes", "True", "2"})
    expect_has(refusal_of("train.fused", text), "must be true or false");
  EXPECT_EQ(refusal_of("train.note", ""), "");
}

TEST(Config, a_name_without_a_section_is_refused_plainly) {
  const std::string text = refusal_of("lr", "1");
  expect_has(text, "unknown setting lr, --lr");
  expect_has(text, "did you mean optim.lr?");
  expect_has(refusal_of("", "1"), "unknown setting");
  expect_has(refusal_of(".", "1"), "unknown setting");
  expect_has(refusal_of("train.", "1"), "unknown setting train, --train.");
  expect_has(refusal_of("train.steps.x", "1"), "unknown setting train.steps.x");
}

TEST(Config, the_environment_is_read_by_section_and_key) {
  Example example;
  Settings settings = example.settings();
  const char* environment[] = {"HYPERION_OPTIM__LR=0.5", "HYPERION_TRAIN__NOTE=a=b", "PATH=/bin",
                               "HYPERION_RUNS=/x",       "HYPERION_FAULTS=a=kill",   nullptr};
  settings.read_environment(environment);
  EXPECT_EQ(example.lr, 0.5);
  EXPECT_EQ(example.note, "a=b");
  EXPECT_EQ(settings.at("optim.lr").origin, "HYPERION_OPTIM__LR");
}

TEST(Config, an_environment_variable_with_one_underscore_is_told_of_with_the_name_that_is_meant) {
  Example example;
  Settings settings = example.settings();
  const char* environment[] = {"HYPERION_OPTIM_LR=0.5", "HYPERION_RUNS=/x", nullptr};
  ::testing::internal::CaptureStderr();
  settings.read_environment(environment);
  const std::string said = ::testing::internal::GetCapturedStderr();
  expect_has(said, "HYPERION_OPTIM_LR is ignored: for optim.lr set HYPERION_OPTIM__LR");
  EXPECT_EQ(said.find("HYPERION_RUNS"), said.npos);
  EXPECT_EQ(example.lr, 3e-4);
}

TEST(Config, a_mistyped_environment_variable_is_refused) {
  const auto refusal = [](const char* entry) {
    Example example;
    Settings settings = example.settings();
    const char* environment[] = {entry, nullptr};
    return error_of<ConfigError>([&] { settings.read_environment(environment); });
  };
  expect_has(refusal("HYPERION_TRAIN__STEP=3"), "environment variable HYPERION_TRAIN__STEP");
  expect_has(refusal("HYPERION_TRAIN__STEP=3"), "did you mean train.steps?");
  expect_has(refusal("HYPERION_TRAIN__STEPS=x"), "environment variable HYPERION_TRAIN__STEPS");
  expect_has(refusal("HYPERION_TRAIN__STEPS="), "must be a whole number");
  expect_has(refusal("HYPERION__STEPS=3"), "unknown setting");
  EXPECT_EQ(refusal("HYPERION_TRAIN__STEPS"), "");
}

TEST(Config, later_origins_win) {
  Example example;
  Settings settings = example.settings();
  const char* environment[] = {"HYPERION_TRAIN__STEPS=2", nullptr};
  settings.read_toml("[train]\nsteps = 1\n", "r.toml");
  EXPECT_EQ(settings.at("train.steps").origin, "r.toml:2:1");
  settings.read_environment(environment);
  EXPECT_EQ(example.steps, 2);
  settings.set("train.steps", "3", "--steps");
  EXPECT_EQ(example.steps, 3);
  EXPECT_EQ(settings.at("train.steps").origin, "--steps");
  EXPECT_EQ(settings.at("train.steps").default_text, "10");
}

TEST(Config, a_refused_value_changes_nothing) {
  Example example;
  Settings settings = example.settings();
  EXPECT_THROW(settings.set("train.steps", "0", "--steps"), ConfigError);
  EXPECT_EQ(example.steps, 10);
  EXPECT_EQ(settings.at("train.steps").origin, "default");
  EXPECT_THROW(settings.at("train.none"), Error);
}

TEST(Config, help_names_every_key_with_its_default) {
  Example example;
  const Settings settings = example.settings();
  const std::string help = settings.help();
  for (const auto& setting : settings.all()) {
    expect_has(help, "--" + setting.name());
    expect_has(help, setting.meaning);
    expect_has(help, "default " + setting.default_text);
  }
  expect_has(help, "[optim] the update");
  expect_has(help, "1 to 1000 steps");
  expect_has(help, "adamw, sgd");
}

void expect_round_trip(Example& written) {
  const Settings from = written.settings();
  for (const bool with_origin : {false, true}) {
    Example read;
    read.settings().read_toml(from.toml(with_origin), "again.toml");
    EXPECT_EQ(read.lr, written.lr);
    EXPECT_EQ(read.anything, written.anything);
    EXPECT_EQ(std::signbit(read.anything), std::signbit(written.anything));
    EXPECT_EQ(read.wide, written.wide);
    EXPECT_EQ(read.fused, written.fused);
    EXPECT_EQ(read.rule, written.rule);
    EXPECT_EQ(read.size.text(), written.size.text());
    EXPECT_EQ(read.note, written.note);
  }
}

TEST(Config, toml_gives_every_number_again_exactly) {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.1, 1.0 / 3, -0.0, 1e22, 1e23, 5e-324, 1e-8, 123456789012345678.0, Limits::max(),
                             Limits::lowest(), Limits::min(), Limits::denorm_min(), 3.0, 1e15, 1e16, 1e17}) {
    Example example;
    example.anything = value;
    expect_round_trip(example);
  }
  for (const int64_t value : {INT64_MIN, INT64_MAX, int64_t{0}, int64_t{-1}, int64_t{9007199254740993}}) {
    Example example;
    example.wide = value;
    expect_round_trip(example);
  }
}

TEST(Config, toml_gives_every_choice_again) {
  for (const Rule rule : {Rule::adamw, Rule::sgd}) {
    Example example;
    example.rule = rule, example.size = Size("5x6");
    expect_round_trip(example);
  }
}

TEST(Config, toml_gives_every_text_again_exactly) {
  Example example;
  for (const char* text :
       {"", "plain", "\"quoted\"", "back\\slash", "two\nlines", "cr\r\ntab\t", "é 日本 😀", "# no comment", "'single'",
        "\x01\x02\x1f\x7f", "\xc2\x80\xc2\x9f", "ends with \\", "\"\"\""}) {
    example.note = text;
    expect_round_trip(example);
  }
  example.note = std::string("a\0b", 3);
  expect_round_trip(example);
}

TEST(Config, text_that_no_recipe_could_hold_is_refused) {
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"})
    expect_has(refusal_of("train.note", text), "train.note is not UTF-8 text, --train.note");
  for (const char* text : {"é", "日本", "😀", "\xf4\x8f\xbf\xbf", "\xef\xbf\xbd"})
    EXPECT_EQ(refusal_of("train.note", text), "");
}

}  // namespace
}  // namespace hyperion::base::test
