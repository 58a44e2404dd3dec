#include "hyperion/data/token_set.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json_fault.h"

namespace hyperion::data {
namespace {

using base::CorruptError;
using base::format;

constexpr const char* kLearned = "learned";

template <class T>
int64_t widen(std::string_view bytes, std::span<int64_t> out) {
  int64_t highest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = value;
    highest = std::max<int64_t>(highest, value);
  }
  return highest;
}

}  // namespace

TokenSet::TokenSet(const base::Path& path) : file_(path) {
  const auto refuse = [&](const std::string& why) {
    throw CorruptError(format("{} {}", path.string(), why),
                       "remove the folder, then make it again: hyperion data prepare RECIPE");
  };
  if (file_.kind() != kTokens) refuse(format("holds {}, not tokens", file_.kind()));
  try {
    width_ = file_.meta().at("width").get<int64_t>();
    vocabulary_ = file_.meta().at("vocabulary").get<int64_t>();
    end_ = file_.meta().at("end").get<int64_t>();
    learned_in_all_ = file_.meta().at("learned").get<int64_t>();
  } catch (const nlohmann::json::exception& error) {
    refuse(format("does not say what its tokens are: {}", base::json_fault(error)));
  }
  if ((width_ != 2 && width_ != 4) || vocabulary_ < 1 || vocabulary_ > int64_t{1} << 31 || end_ >= vocabulary_)
    refuse("does not say what its tokens are");
  if (file_.payload().size() % width_ != 0) refuse("ends in the middle of a token");
  tokens_ = static_cast<int64_t>(file_.payload().size()) / width_;
  learned_ = file_.section(kLearned);
  if (!learned_.empty() && static_cast<int64_t>(learned_.size()) != (tokens_ + 7) / 8)
    refuse(format("has {} bytes of mask for {} tokens", learned_.size(), tokens_));
}

void TokenSet::read(int64_t first, std::span<int64_t> out) const {
  HYPERION_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens_, "tokens lie inside their set");
  const auto bytes = file_.checked(file_.payload().substr(first * width_, out.size() * width_));
  const int64_t highest = width_ == 2 ? widen<uint16_t>(bytes, out) : widen<uint32_t>(bytes, out);
  if (highest >= vocabulary_)
    throw CorruptError(format("{} is damaged: token {} is beyond its vocabulary of {}, between tokens {} and {}",
                              file_.path().string(), highest, vocabulary_, first, first + out.size()),
                       "remove the folder, then make it again: hyperion data prepare RECIPE");
}

void TokenSet::read_loss_mask(int64_t first, std::span<uint8_t> out) const {
  HYPERION_CHECK(first >= 0 && first + std::ssize(out) <= tokens_, "tokens lie inside their set");
  if (learned_.empty() || out.empty()) {
    std::fill(out.begin(), out.end(), 1);
    return;
  }
  const int64_t byte = first / 8, last = (first + std::ssize(out) - 1) / 8;
  const auto bits = file_.checked(learned_.substr(byte, last - byte + 1));
  for (int64_t i = 0; i < std::ssize(out); ++i) {
    const int64_t bit = first + i - 8 * byte;
    out[i] = static_cast<unsigned char>(bits[bit / 8]) >> (bit % 8) & 1;
  }
}

TokenSet::Extent TokenSet::document(int64_t index) const {
  const auto [begin, end] = file_.bounds(index);
  if (begin % width_ != 0 || end % width_ != 0)
    throw CorruptError(format("{} is damaged: document {} ends inside a token", file_.path().string(), index));
  return {static_cast<int64_t>(begin) / width_, static_cast<int64_t>(end - begin) / width_};
}

int64_t TokenSet::document_of(int64_t token) const {
  int64_t low = 0, high = documents();  // the first whose end is beyond the token
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (static_cast<int64_t>(file_.bounds(middle).second) / width_ > token)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

void TokenSet::verify(const std::function<void(uint64_t)>& progress) const {
  file_.verify(progress);
  std::vector<int64_t> some(1 << 16);
  for (int64_t first = 0; first < tokens_; first += static_cast<int64_t>(some.size()))
    read(first, std::span(some).first(std::min<int64_t>(static_cast<int64_t>(some.size()), tokens_ - first)));
  for (int64_t i = 0; i < documents(); ++i) document(i);
  int64_t learned = masked() ? 0 : tokens_;
  for (int64_t bit = 0; masked() && bit < tokens_; bit += 8) {
    const auto byte = static_cast<unsigned char>(learned_[bit / 8]);
    learned += std::popcount(static_cast<unsigned>(byte & (255 >> std::max<int64_t>(0, bit + 8 - tokens_))));
  }
  if (learned != learned_in_all_)
    throw CorruptError(format("{} is damaged: its footer says that {} of its tokens are learned, and {} are",
                              file_.path().string(), learned_in_all_, learned),
                       "remove the folder, then make it again: hyperion data prepare RECIPE");
}

TokenWriter::TokenWriter(base::FileSystem& files, const base::Path& path, int64_t width, const SetWriter::Kept& kept)
    : file_(files, path, kept), width_(width) {}

void TokenWriter::add(std::span<const int32_t> ids, std::span<const uint8_t> learned) {
  encoded_.clear();
  for (const int32_t id : ids) encoded_.append(reinterpret_cast<const char*>(&id), width_);  // little-endian
  file_.add(encoded_);
  learned_ += learned.empty() ? std::ssize(ids)
                              : std::count_if(learned.begin(), learned.end(), [](uint8_t bit) { return bit != 0; });
  if (learned.empty()) return;
  HYPERION_CHECK(learned.size() == ids.size(), "each token has its place in the mask");
  encoded_.clear();
  for (const uint8_t bit : learned) {
    bits_ |= (bit != 0) << bit_count_;
    if (++bit_count_ == 8) encoded_ += static_cast<char>(bits_), bits_ = bit_count_ = 0;
  }
  file_.append(kLearned, encoded_);
}

TokenWriter::State TokenWriter::make_safe() { return {file_.make_safe(), bits_, bit_count_, learned_}; }

void TokenWriter::finish(int64_t vocabulary, int64_t end, const nlohmann::json& more) {
  if (bit_count_ > 0) file_.append(kLearned, std::string(1, static_cast<char>(bits_)));
  nlohmann::json meta = more;
  meta["width"] = width_, meta["vocabulary"] = vocabulary, meta["end"] = end, meta["tokens"] = tokens(),
  meta["learned"] = learned_;
  file_.finish(kTokens, meta);
}

}  // namespace hyperion::data
