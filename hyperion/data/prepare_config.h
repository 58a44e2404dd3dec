// What `hyperion data prepare` is asked for, tells meanwhile, and gives.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::data {

struct PrepareConfig {
  std::string output, format = "text", tokenizer = "bytes", pattern, end = "auto", text = "text", messages,
                      tools = "tools", chat_template, on_bad = "fail", store = "jpeg";
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
