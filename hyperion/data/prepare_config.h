// What `hyperion data prepare` is asked for, tells meanwhile, and gives.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/records/bad_records.h"

namespace hyperion::data {

// records::RecordFormat by the same words, and two of images.
enum class SetFormat { text, lines, wikitext, jsonl, json, tar, parquet, images, cifar };
constexpr auto words_of(SetFormat) {
  return std::array{"text", "lines", "wikitext", "jsonl", "json", "tar", "parquet", "images", "cifar"};
}

enum class ImageStore { jpeg, raw };  // jpeg: the files' own bytes
constexpr auto words_of(ImageStore) { return std::array{"jpeg", "raw"}; }

struct PrepareConfig {
  std::string output, tokenizer = "bytes", pattern, end = "auto", text = "text", messages, tools = "tools",
                      chat_template;
  SetFormat format = SetFormat::text;
  records::OnBad on_bad = records::OnBad::fail;
  ImageStore store = ImageStore::jpeg;
  std::vector<std::string> files, validation_files, chat;
  double validation = 0.01, safe_seconds = 10;
  int64_t bad_limit = 1000, threads = 0, side = 256;
};

struct PrepareProgress {
  const char* doing = "";
  uint64_t bytes = 0, bytes_in_all = 0;  // of the inputs as they lie on the disk, so far
  int64_t records = 0, tokens = 0;       // tokens: 0 for images
};
using OnPrepare = std::function<void(const PrepareProgress&)>;

struct PrepareSummary {
  base::Path output;
  bool was_there = false, resumed = false;
  int64_t records = 0, validation_records = 0, tokens = 0, validation_tokens = 0;
  std::vector<std::string> bad;  // "file:line: reason" of what was skipped
};

}  // namespace hyperion::data
