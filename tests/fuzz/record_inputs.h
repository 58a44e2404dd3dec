// Good files of every format of records, and a reader of them down to the documents.
#pragma once
#include <string>
#include <vector>

#include "hyperion/records/bad_records.h"
#include "hyperion/records/decompress.h"
#include "hyperion/records/record_parser.h"
#include "tests/records/support_packed.h"

namespace hyperion::testing {

enum class Packing { none, gzip, zstd };

struct RecordInput {
  std::string name;
  records::RecordFormat format;
  Packing packing;
  std::string good;
};

inline const std::vector<RecordInput>& record_inputs() {
  using records::RecordFormat;
  using namespace records::test;
  static const std::string record =
      R"({"text": "a \"text\" \u00e9\ud83d\ude00 é", "query": "2+2?\n", "n": [1, -0.5e3, true, null, {"a": {}}]})";
  static const std::string jsonl =
      record + "\n\n" + R"({"text":"b","messages":[{"role":"user","content":"c"}]})" + "\n";
  static const std::string wikitext = " \n = One = \n \n text \n \n = = Part = = \n \n more \n \n = Two = \n \n end \n";
  static const std::string tar =
      tar_member("././@LongLink", "d/" + std::string(120, 'n') + ".json" + std::string(1, '\0'), 'L') +
      tar_member("cut", record) + tar_member("x", pax_record("path", "d/p.txt") + pax_record("size", "4"), 'x') +
      tar_member("cut", "text") + tar_member("d/", "", '5') + tar_member("q.txt", "q") + tar_end();
  static const std::vector<RecordInput> list = {
      {"text", RecordFormat::text, Packing::none, wikitext},
      {"lines", RecordFormat::lines, Packing::none, wikitext},
      {"wikitext", RecordFormat::wikitext, Packing::none, wikitext},
      {"jsonl", RecordFormat::jsonl, Packing::none, jsonl},
      {"json", RecordFormat::json, Packing::none, "[" + record + ",\n" + record + "\n]\n"},
      {"tar", RecordFormat::tar, Packing::none, tar},
      {"gzip", RecordFormat::lines, Packing::gzip, packed_well_gzip() + gzip_of("stored\n")},
      {"zstd", RecordFormat::lines, Packing::zstd,
       zstd_to_be_skipped("skip") + packed_well_zstd() + zstd_of("raw\n") + zstd_of_one_character('x', 2)}};
  return list;
}

// Words beside those of JSON.
inline const std::vector<std::string>& record_words() {
  static const std::vector<std::string> list = {"\n",
                                                " \n = T = \n",
                                                "=",
                                                "\"text\":\"x\"",
                                                "\\ud83d",
                                                "\xEF\xBB\xBF",
                                                "ustar",
                                                "5",
                                                "x",
                                                "L",
                                                "00000000017",
                                                "77777777777",
                                                "\x80\xff",
                                                "99 path=",
                                                "\x1f\x8b",
                                                "\x28\xb5\x2f\xfd",
                                                std::string(512, '\0'),
                                                std::string(2000, '{')};
  return list;
}

// Headers that a break left with a wrong checksum would all be refused for that alone.
inline std::string with_tar_checksums(std::string tar) {
  for (size_t at = 0; at + 512 <= tar.size(); at += 512)
    if (tar.compare(at + 257, 5, "ustar") == 0) tar.replace(at, 512, records::test::with_checksum(tar.substr(at, 512)));
  return tar;
}

// Small, so that broken input which unpacks to a lot stays within the memory that is allowed.
constexpr records::RecordLimits kFuzzLimits{.record = size_t{8} << 20, .text_piece = size_t{4} << 20};

// Whether every record was read and parsed. A BadRecord means it was not, and then the rest must still be readable;
// anything else is thrown on.
inline bool reads_records(const RecordInput& input, const std::string& file,
                          const records::RecordLimits& limits = kFuzzLimits) {
  const auto name = std::make_shared<const std::string>("file");
  bool good = true;
  std::unique_ptr<records::RawRecords> records;
  try {
    auto stream = records::test::bytes_of(file);
    if (input.packing == Packing::gzip) stream = records::unpack_gzip(std::move(stream), *name);
    if (input.packing == Packing::zstd) stream = records::unpack_zstd(std::move(stream), *name);
    records = records::frame_records(std::move(stream), name, input.format, limits);
  } catch (const records::BadRecord&) {
    return false;
  }
  records::RawRecord record;
  for (bool more = true; more;) {
    try {
      if ((more = records->next(record))) records::parse_record(record, input.format, {});
    } catch (const records::BadRecord&) {
      good = false;
    }
  }
  return good;
}

}  // namespace hyperion::testing
