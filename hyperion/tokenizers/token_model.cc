#include "hyperion/tokenizers/token_model.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::tokenizers {

void Vocabulary::add(std::string token, int64_t id) {
  if (id < 0 || id >= kIdLimit)
    throw base::CorruptError(base::format("the token \"{}\" has the id {}", token, id),
                             base::format("ids are from 0 to {}", kIdLimit - 1));
  if (const auto* other = Vocabulary::token(static_cast<TokenId>(id)); other != nullptr && *other != token)
    throw base::CorruptError(base::format("the tokens \"{}\" and \"{}\" both have the id {}", *other, token, id),
                             "each token of a vocabulary has an id of its own");
  const auto [place, fresh] = ids_.insert_or_assign(std::move(token), static_cast<TokenId>(id));
  if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(id + 1);
  tokens_[id] = &place->first;
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* Vocabulary::token(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < tokens_.size() ? tokens_[id] : nullptr;
}

}  // namespace hyperion::tokenizers
