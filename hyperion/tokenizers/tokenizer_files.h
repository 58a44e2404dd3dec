// The files a tokenizer is kept in, each read into the stages it means. open_tokenizer chooses among them.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/base/json.h"
#include "hyperion/tokenizers/token_pipeline.h"

namespace hyperion::tokenizers {

// All throw CorruptError that names `place` for what the format does not allow or is not known here.
TokenStages stages_of_json(const base::Json& json, const std::string& place);
// `config`: what tokenizer_config.json says; null where there is none.
TokenStages stages_of_vocabulary(const base::Json& vocabulary, std::string_view merges, const base::Json& config,
                                 const std::string& place);
TokenStages stages_of_ranks(std::string_view text, Pattern pattern, const std::string& place);
// How many lines a rank file has, its last without a line end too.
size_t count_ranks(std::string_view text);

struct BpeParts {
  std::vector<std::pair<std::string, int64_t>> vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;
  std::optional<std::string> unknown;
  bool fuse_unknown = false, byte_fallback = false, whole_pieces = false;
  std::string prefix, suffix;
};
std::unique_ptr<const TokenModel> make_bpe(BpeParts parts, bool byte_level, const std::string& place);

// Of the model in a tokenizer.json; older files do not name it.
std::string type_of_model(const base::Json& model);

// An entry of added_tokens in tokenizer.json, or of added_tokens_decoder in tokenizer_config.json.
AddedToken read_added(const base::Json& json, int64_t id);

// "left right", the spelling of a merge.
std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& place);

}  // namespace hyperion::tokenizers
