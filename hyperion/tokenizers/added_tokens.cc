#include "hyperion/tokenizers/added_tokens.h"

#include <algorithm>

#include "hyperion/text/unicode.h"

namespace hyperion::tokenizers {
namespace {

const char* char_before(const char* at) {
  do --at;
  while ((*at & 0xC0) == 0x80);
  return at;
}

bool stands_alone(std::string_view text, size_t start, size_t end) {
  return (start == 0 || !text::is_word_char(text::char_at(char_before(text.data() + start)))) &&
         (end == text.size() || !text::is_word_char(text::char_at(text.data() + end)));
}

size_t before_spaces(std::string_view text, size_t start, size_t floor) {
  while (start > floor) {
    const char* before = char_before(text.data() + start);
    if (!text::is_space(text::class_of(text::char_at(before)))) break;
    start = static_cast<size_t>(before - text.data());
  }
  return start;
}

size_t after_spaces(std::string_view text, size_t end) {
  while (end < text.size() && text::is_space(text::class_of(text::char_at(text.data() + end))))
    end += text::char_size(text[end]);
  return end;
}

}  // namespace

void AddedTokenFinder::add(std::string_view text, const AddedToken& token) {
  if (text.empty()) return;
  int32_t node = 0;
  for (const char byte : text) {
    const auto [place, fresh] = nodes_[node].next.try_emplace(byte, static_cast<int32_t>(nodes_.size()));
    node = place->second;
    if (fresh) nodes_.emplace_back();
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  starts_[static_cast<unsigned char>(text[0])] = true;
}

size_t AddedTokenFinder::next_candidate(std::string_view text, size_t from) const {
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::longest_at(std::string_view text, size_t at) const {
  std::optional<Match> best;
  int32_t node = 0;
  for (size_t end = at; end < text.size();) {
    const auto found = nodes_[node].next.find(text[end++]);
    if (found == nodes_[node].next.end()) break;
    node = found->second;
    if (nodes_[node].token >= 0) best = Match{at, end, &tokens_[nodes_[node].token]};
  }
  return best;
}

std::vector<AddedTokenFinder::Part> AddedTokenFinder::split(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;
  for (size_t at = next_candidate(text, 0); at < text.size(); at = next_candidate(text, at)) {
    auto match = longest_at(text, at);
    if (!match) {
      ++at;
      continue;
    }
    at = match->end;  // what is not taken as a single word is not looked at again either
    if (match->token->single_word && !stands_alone(text, match->start, match->end)) continue;
    if (match->token->lstrip) match->start = before_spaces(text, match->start, done);
    if (match->token->rstrip) match->end = after_spaces(text, match->end);
    if (match->start < done) continue;
    if (match->start > done) parts.push_back({text.substr(done, match->start - done), -1});
    parts.push_back({text.substr(match->start, match->end - match->start), match->token->id});
    done = match->end;
    at = std::max(at, done);
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
  return parts;
}

}  // namespace hyperion::tokenizers
