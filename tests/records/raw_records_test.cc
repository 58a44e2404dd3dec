#include "hyperion/records/raw_records.h"

#include <gtest/gtest.h>

#include <fstream>

#include "hyperion/base/words.h"
#include "hyperion/records/bad_records.h"
#include "tests/base/support_child.h"
#include "tests/records/support_packed.h"

namespace hyperion::records {
namespace {

using namespace test;
using Strings = std::vector<std::string>;

// "line:bytes" of each record, and "! what is wrong" for what is bad.
Strings records_told(RawRecords& records, bool with_lines = true) {
  Strings all;
  RawRecord record;
  for (;;) {
    try {
      if (!records.next(record)) return all;
      all.push_back(with_lines ? base::format("{}:{}", record.line, record.bytes) : record.bytes);
    } catch (const BadRecord& bad) {
      all.push_back(base::format("! {}", bad.what()));
    }
  }
}

Strings framed(std::unique_ptr<ByteStream> stream, RecordFormat format, const RecordLimits& limits = {}) {
  try {
    return records_told(*frame_records(std::move(stream), std::make_shared<const std::string>("f"), format, limits));
  } catch (const BadRecord& bad) {
    return {base::format("! {}", bad.what())};
  }
}
Strings framed(const std::string& text, RecordFormat format, const RecordLimits& limits = {}) {
  return framed(bytes_of(text), format, limits);
}

TEST(RecordFormat, has_a_name_each) {
  EXPECT_EQ(base::from_word<RecordFormat>("text"), RecordFormat::text);
  EXPECT_EQ(base::from_word<RecordFormat>("wikitext"), RecordFormat::wikitext);
  EXPECT_EQ(base::from_word<RecordFormat>("parquet"), RecordFormat::parquet);
  EXPECT_EQ(base::from_word<RecordFormat>("csv"), std::nullopt);
}

TEST(Lines, are_records_without_line_ends_blank_ones_dropped) {
  EXPECT_EQ(framed("one\n\n \t\ntwo\r\n\r\n three", RecordFormat::lines), (Strings{"1:one", "4:two", "6: three"}));
  EXPECT_EQ(framed("\xEF\xBB\xBF{}\n{}\n", RecordFormat::jsonl), (Strings{"1:{}", "2:{}"}));
  EXPECT_EQ(framed("\n\n", RecordFormat::lines), Strings{});
}

TEST(Lines, one_that_is_too_large_is_bad_and_the_next_is_read) {
  const RecordLimits limits{.record = 5};
  EXPECT_EQ(
      framed("12345\n123456\n1\n" + std::string(500000, 'x') + "\n2", RecordFormat::lines, limits),
      (Strings{"1:12345", "! f:2: the line has more than 5 B", "3:1", "! f:4: the line has more than 5 B", "5:2"}));
}

TEST(WikiText, articles_begin_at_titles_and_are_whole) {
  const std::string file =
      " \n = Valkyria Chronicles III = \n \n Senjō no Valkyria 3 : <unk> \n The game \n \n = = Gameplay = = \n \n As "
      "with \n"
      " \n = = = Deep = = = \n \n text \n \n \n = E = mc² = \n \n x = y = z \n = not after a blank line = \n \n = = \n"
      " \n = = = \n \n = a =  \n";
  EXPECT_EQ(
      framed(file, RecordFormat::wikitext),
      (Strings{"2: = Valkyria Chronicles III = \n Senjō no Valkyria 3 : <unk> \n The game \n = = Gameplay = = \n"
               " As with \n = = = Deep = = = \n text \n",
               "16: = E = mc² = \n x = y = z \n = not after a blank line = \n = = \n = = = \n", "25: = a =  \n"}));
}

TEST(WikiText, what_comes_before_the_first_title_is_a_record_too) {
  EXPECT_EQ(framed("no title \n\n = One = \n\n text\r\n", RecordFormat::wikitext),
            (Strings{"1:no title \n", "3: = One = \n text\n"}));
}

TEST(WikiText, an_article_that_is_too_large_is_bad_and_the_next_is_read) {
  const RecordLimits limits{.record = 30};
  EXPECT_EQ(framed(" = A = \n\n a \n\n = B = \n 1234567890 \n 1234567890 \n 1 \n\n = C = \n c \n\n = D = \n " +
                       std::string(50, 'd') + "\n\n = E = \n",
                   RecordFormat::wikitext, limits),
            (Strings{"1: = A = \n a \n", "! f:5: the article has more than 30 B", "10: = C = \n c \n",
                     "! f:13: the article has more than 30 B", "16: = E = \n"}));
}

TEST(Text, a_file_is_a_record_byte_for_byte) {
  EXPECT_EQ(framed("\n one\r\n\ntwo", RecordFormat::text), (Strings{"1:\n one\r\n\ntwo"}));
}

TEST(Text, long_files_are_cut_after_lines_or_whole_characters_and_nothing_is_lost) {
  const RecordLimits limits{.text_piece = 10};
  EXPECT_EQ(framed("12\n45\n7890123\n56789012345678", RecordFormat::text, limits),
            (Strings{"1:12\n45\n", "3:7890123\n", "4:5678901234", "4:5678"}));
  EXPECT_EQ(framed("1234567é9", RecordFormat::text, limits), (Strings{"1:1234567é9"}));
  EXPECT_EQ(framed("123456789éxyz", RecordFormat::text, limits), (Strings{"1:123456789", "1:éxyz"}));
  EXPECT_EQ(framed("1234567😀x", RecordFormat::text, limits), (Strings{"1:1234567", "1:😀x"}));
  EXPECT_EQ(framed(std::string(25, '\x80'), RecordFormat::text, limits).size(), 3u);
}

TEST(Json, elements_of_the_array_are_records) {
  EXPECT_EQ(framed(R"( [ {"a": "]}\"\\", "b": [1, {}]} , 1,"x,]" ,[],null] )", RecordFormat::json),
            (Strings{R"(1:{"a": "]}\"\\", "b": [1, {}]})", "1:1", "1:\"x,]\"", "1:[]", "1:null"}));
  EXPECT_EQ(framed("[\n {\n\"a\":\n1},\n\n{}\n]\n", RecordFormat::json), (Strings{"2:{\n\"a\":\n1}", "6:{}"}));
  EXPECT_EQ(framed("\xEF\xBB\xBF \n{\"a\": [1]}\n", RecordFormat::json), (Strings{"2:{\"a\": [1]}"}));
  EXPECT_EQ(framed("[]", RecordFormat::json), Strings{});
}

TEST(Json, what_cannot_be_cut_ends_the_file_with_the_place) {
  const auto last = [](const std::string& text) { return framed(text, RecordFormat::json).back(); };
  EXPECT_EQ(last("[{},\n{}"), "! f:2: a ',' or ']' is missing after an element of the array (byte 7)");
  EXPECT_EQ(last("[{} {}]"), "! f:1: a ',' or ']' is missing after an element of the array (byte 4)");
  EXPECT_EQ(last("[{},"), "! f:1: ends in the middle of its array (byte 4)");
  EXPECT_EQ(last("[{},]"), "! f:1: an element of the array is missing (byte 4)");
  EXPECT_EQ(last("[{\"a\": \""), "! f:1: ends in the middle of an element (byte 8)");
  EXPECT_EQ(last("[]]"), "! f:1: something follows the end of the JSON");
  EXPECT_EQ(last("{}\n{}"), "! f:2: something follows the end of the JSON");
  EXPECT_EQ(last("3"), "! f:1: is neither an array nor an object of JSON (byte 0)");
  EXPECT_EQ(last(std::string("[\0]", 3)), std::string("1:\0", 3));  // for the parser to refuse
  EXPECT_EQ(framed("[1, 2, 3", RecordFormat::json).size(), 4u);
}

TEST(Json, an_element_that_is_too_large_is_bad_and_the_next_is_read) {
  const RecordLimits limits{.record = 10};
  EXPECT_EQ(framed("[\"12345678\",\n\"123456789\", [" + std::string(400000, ' ') + "], 5]", RecordFormat::json, limits),
            (Strings{"1:\"12345678\"", "! f:2: the element has more than 10 B", "! f:2: the element has more than 10 B",
                     "2:5"}));
  EXPECT_EQ(framed("{\"12345678\":9}", RecordFormat::json, limits), (Strings{"! f:1: the element has more than 10 B"}));
}

TEST(TarRecords, are_samples_by_key_with_json_before_txt) {
  const std::string tar = tar_of({{"d.1/a.jpg", "image"},
                                  {"d.1/a.txt", "caption"},
                                  {"d.1/a.json", "{\"text\":\"a\"}"},
                                  {"d.1/b.txt", "b"},
                                  {"d.1/b.seg.json", "not this"},
                                  {"d.2/b.json", "{}"},
                                  {"d.2/._b.json", "of another system"},
                                  {"c.txt", ""}});
  auto records = frame_records(bytes_of(tar), std::make_shared<const std::string>("s.tar"), RecordFormat::tar);
  RawRecord record;
  record.line = 7;
  Strings all;
  while (records->next(record)) all.push_back(base::format("{}:{}:{}", *record.file, record.line, record.bytes));
  EXPECT_EQ(all, (Strings{"s.tar/d.1/a.json:0:{\"text\":\"a\"}", "s.tar/d.1/b.txt:0:b", "s.tar/d.2/b.json:0:{}",
                          "s.tar/c.txt:0:"}));
}

TEST(TarRecords, a_sample_without_text_or_with_too_much_is_bad_once_and_the_next_is_read) {
  const RecordLimits limits{.record = 5};
  const std::string tar =
      tar_of({{"a.jpg", "a"}, {"b.txt", "b"}, {"c.txt", "123456"}, {"c.jpg", "c"}, {"d.txt", "d"}, {"e.jpg", "e"}});
  EXPECT_EQ(framed(tar, RecordFormat::tar, limits), (Strings{"! f/a: the sample has neither a .json nor a .txt", "0:b",
                                                             "! f: c.txt has 6 B, and the most is 5 B", "0:d",
                                                             "! f/e: the sample has neither a .json nor a .txt"}));
}

TEST(TarRecords, a_name_twice_in_a_row_is_bad_and_the_next_is_read) {
  const std::string twice = " twice: the name of a sample must not come again right after it";
  EXPECT_EQ(framed(tar_of({{"a.txt", "1"}, {"a.txt", "2"}, {"b.txt", "b"}}), RecordFormat::tar),
            (Strings{"! f/a: the sample has .txt" + twice, "0:b"}));
  EXPECT_EQ(framed(tar_of({{"a.json", "1"}, {"a.jpg", "i"}, {"a.json", "2"}, {"b.txt", "b"}}), RecordFormat::tar),
            (Strings{"! f/a: the sample has .json" + twice, "0:b"}));
  EXPECT_EQ(framed(tar_of({{"a.txt", "1"}, {"b.txt", "b"}, {"a.txt", "2"}}), RecordFormat::tar),
            (Strings{"0:1", "0:b", "0:2"}));
}

TEST(TarRecords, of_a_cut_tar_the_whole_samples_are_read) {
  const std::string tar = tar_of({{"a.txt", "a"}, {"b.txt", "b"}, {"c.txt", "c"}});
  const Strings all = framed(tar.substr(0, 2500), RecordFormat::tar);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], "0:a");
  EXPECT_EQ(all[1].substr(0, 10), "! f: ends ");
}

// The same records whatever pieces a file comes in: of good files, and of such as were broken.
TEST(RawRecords, do_not_depend_on_the_pieces_of_the_stream) {
  std::string lines, wiki, json = "[";
  for (int i = 0; i < 3000; ++i) {
    lines += i % 7 == 0 ? " \n" : std::string(i % 200, 'x') + "é\r\n";
    wiki += i % 50 == 0 ? " \n = Title = \n \n" : " a line of it \n";
    json += base::format("{}{{\"a\": \"{}\\\\\\\"\", \"b\": [{}]}}\n", i == 0 ? "" : ", ",
                         std::string(i % 100, '"' + 1), i);
  }
  std::mt19937 random(7);
  const RecordLimits limits{.record = 1500, .text_piece = 5000};
  for (int round = 0; round < 60; ++round) {
    const auto broken = [&](std::string text) {
      if (round % 3 > 0) text[random() % text.size()] = "\n\"\\[]{}, ="[random() % 10];
      if (round % 5 == 0) text.resize(random() % text.size());
      return text;
    };
    for (const auto& [text, format] :
         {std::pair(broken(lines), RecordFormat::lines),
          {broken(lines), RecordFormat::text},
          {broken(wiki), RecordFormat::wikitext},
          {broken(json + "]"), RecordFormat::json},
          {broken(tar_of({{"a.txt", lines.substr(0, 1400)}, {"b.txt", "b"}})), RecordFormat::tar}}) {
      const size_t most = round % 2 == 0 ? 1 + random() % 10 : 1 + random() % 100000;
      ASSERT_EQ(framed(std::make_unique<PiecewiseBytes>(text, most, random()), format, limits),
                framed(text, format, limits))
          << "round " << round << " format " << static_cast<int>(format);
    }
  }
}

class RawRecordFilesTest : public ::testing::Test {
 protected:
  base::Path file(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return folder_ / name;
  }
  Strings of(const std::vector<base::Path>& files, RecordFormat format) {
    Strings all = records_told(*open_raw_records(files, format));
    for (auto& text : all)
      if (const size_t at = text.find(folder_.path().string()); at != std::string::npos)
        text.erase(at, folder_.path().string().size() + 1);
    return all;
  }
  base::test::TestFolder folder_;
};

TEST_F(RawRecordFilesTest, files_follow_each_other_and_bad_ones_are_told_of_once) {
  const Strings all = of({file("a", "1\n2"), file("b", ""), file("c", "3\n"), file("d", " \n\n"),
                          file("e", "\xEF\xBB\xBF"), file("f", "4")},
                         RecordFormat::jsonl);
  EXPECT_EQ(all,
            (Strings{"1:1", "2:2", "! b: is empty", "1:3", "! d: holds no record", "! e: holds no record", "1:4"}));
}

TEST_F(RawRecordFilesTest, what_comes_after_a_damaged_file_is_read) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += base::format("{}\n", i);
  const std::string cut = packed_well_gzip().substr(0, 100);
  Strings all;
  try {
    all = of({file("a.gz", gzip_of(text)), file("b.gz", cut), file("c.zst", zstd_of("last"))}, RecordFormat::jsonl);
  } catch (const base::ConfigError&) {
    GTEST_SKIP() << "built without zlib or zstd";
  }
  ASSERT_GT(all.size(), 42u);
  EXPECT_EQ(all[39], "40:39");
  EXPECT_EQ(all[40], "1:line 0 of a text that packs well");
  EXPECT_EQ(all[all.size() - 2], "! b.gz: ends in the middle of its gzip data (byte 100)");
  EXPECT_EQ(all.back(), "1:last");
  for (const auto format : {RecordFormat::text, RecordFormat::wikitext, RecordFormat::json, RecordFormat::tar}) {
    const Strings told = of({folder_ / "b.gz", folder_ / "b.gz"}, format);
    EXPECT_EQ(told.size(), 2u) << static_cast<int>(format);
    EXPECT_EQ(told.front().substr(0, 7), "! b.gz:") << told.front();
  }
}

}  // namespace
}  // namespace hyperion::records
