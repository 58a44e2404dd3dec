// Documents and dialogues of any text format, tokenized by all cores, in the order of the files.
#pragma once
#include <memory>

#include "hyperion/data/preparation.h"
#include "hyperion/data/prepare_config.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/record_parser.h"
#include "hyperion/tokenizers/tokenizer.h"

namespace hyperion::data {

struct TextRecipe {
  records::RecordFormat format;
  records::FieldMapping mapping;
  std::unique_ptr<const tokenizers::Tokenizer> tokenizer;  // null: bytes
  std::vector<base::Path> tokenizer_files;                 // to be kept beside the tokens
  std::unique_ptr<const text::ChatTemplate> chat;          // null: documents, not dialogues
  std::unique_ptr<const text::ChatTemplate> tool_chat;     // of dialogues with tools; null: that one
  std::string tool_chat_fault;   // why there is none that could be used, though the folder has one
  base::Path template_file;      // one of tokenizer_files, where it was named apart
  std::string bos, eos;          // for the template
  std::string pattern;           // of a file of ranks, where it was named
  tokenizers::TokenId end = -1;  // appended to every document; -1: none
  records::OnBad on_bad = records::OnBad::fail;
  int64_t bad_limit = 0;
  double validation = 0, safe_seconds = 0;

  int64_t vocabulary() const { return tokenizer ? tokenizer->vocabulary_size() : 256; }
};
// Opens the tokenizer and the template that the settings name. Throws ConfigError where they contradict each other.
TextRecipe text_recipe(const PrepareConfig& config);

struct TextFiles {
  std::vector<base::Path> training, validation;
};
PrepareSummary prepare_text(base::FileSystem& files, const TextRecipe& recipe, const TextFiles& inputs,
                            Preparation& preparation, int threads, const OnPrepare& progress);

}  // namespace hyperion::data
