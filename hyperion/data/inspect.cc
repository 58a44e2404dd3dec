#include "hyperion/data/inspect.h"

#include <algorithm>
#include <bit>

#include "hyperion/data/order.h"
#include "hyperion/images/png_bytes.h"
#include "hyperion/images/resample.h"

namespace hyperion::data {

TokenFigures inspect_tokens(const TokenSet& set, size_t most_frequent, const std::function<void(int64_t)>& progress) {
  TokenFigures figures;
  figures.documents = set.documents(), figures.tokens = set.tokens(), figures.learned = set.tokens();
  std::vector<int64_t> times(set.vocabulary()), some(1 << 16), lengths(set.documents());
  std::vector<uint8_t> counted(some.size());
  if (set.masked()) figures.learned = 0;
  for (int64_t first = 0; first < set.tokens(); first += static_cast<int64_t>(some.size())) {
    const auto part = std::span(some).first(std::min<int64_t>(static_cast<int64_t>(some.size()), set.tokens() - first));
    set.read(first, part);
    for (const int64_t token : part) ++times[token];
    if (set.masked()) {
      const auto learned = std::span(counted).first(part.size());
      set.read_loss_mask(first, learned);
      figures.learned += std::count(learned.begin(), learned.end(), 1);
    }
    if (progress) progress(first + static_cast<int64_t>(part.size()));
  }
  std::vector<int64_t> bars(64);
  for (int64_t i = 0; i < set.documents(); ++i) {
    lengths[i] = set.document(i).count;
    ++bars[std::bit_width(static_cast<uint64_t>(lengths[i]))];  // 0, 1, 2-3, 4-7, ...
  }
  if (!lengths.empty()) {
    std::sort(lengths.begin(), lengths.end());
    figures.shortest = lengths.front(), figures.median = lengths[lengths.size() / 2], figures.longest = lengths.back();
    figures.mean = static_cast<double>(set.tokens()) / static_cast<double>(lengths.size());
    const auto width = [](int64_t length) {
      return static_cast<size_t>(std::bit_width(static_cast<uint64_t>(length)));
    };
    for (size_t bit = width(figures.shortest); bit <= width(figures.longest); ++bit)
      figures.lengths.push_back({bit == 0 ? 0 : int64_t{1} << (bit - 1), int64_t{1} << bit, bars[bit]});
  }
  for (int64_t token = 0; token < set.vocabulary(); ++token)
    if (times[token] > 0) figures.frequent.push_back({static_cast<tokenizers::TokenId>(token), times[token]});
  figures.distinct = static_cast<int64_t>(figures.frequent.size());
  const size_t kept = std::min(most_frequent, figures.frequent.size());
  std::partial_sort(
      figures.frequent.begin(), figures.frequent.begin() + static_cast<ptrdiff_t>(kept), figures.frequent.end(),
      [](const auto& a, const auto& b) { return a.times != b.times ? a.times > b.times : a.token < b.token; });
  figures.frequent.resize(kept);
  return figures;
}

ImageFigures inspect_images(const ImageSet& set, const std::function<void(int64_t)>& progress) {
  ImageFigures figures;
  figures.images = set.images();
  figures.by_class.resize(set.classes().size());
  for (int64_t i = 0; i < set.images(); ++i) {
    ++figures.by_class[set.label(i)];
    const images::ImageSize size = set.size(i);
    if (i == 0 || size.pixels() < figures.smallest.pixels()) figures.smallest = size;
    if (size.pixels() > figures.largest.pixels()) figures.largest = size;
    if (progress && i % 1000 == 0) progress(i);
  }
  figures.mean_bytes =
      static_cast<double>(set.file().payload().size()) / static_cast<double>(std::max<int64_t>(set.images(), 1));
  return figures;
}

std::string image_grid(const ImageSet& set, int64_t columns, int64_t rows, int64_t side) {
  constexpr int64_t kGap = 4;
  const int64_t cell = side + kGap;
  rows = std::clamp<int64_t>((set.images() + columns - 1) / columns, 1, rows);
  images::Pixels grid({rows * cell + kGap, columns * cell + kGap});
  std::fill(grid.rgb.begin(), grid.rgb.end(), 255);
  for (int64_t i = 0; i < std::min(columns * rows, set.images()); ++i) {
    const images::Pixels image = set.pixels(sampled(i, set.images()));
    const int64_t longer = std::max(image.size.height, image.size.width);
    const images::ImageSize size{std::max<int64_t>(1, image.size.height * side / longer),
                                 std::max<int64_t>(1, image.size.width * side / longer)};
    const images::Pixels small = resize(image, {image.whole(), size});
    const int64_t top = kGap + i / columns * cell + (side - size.height) / 2;
    const int64_t left = kGap + i % columns * cell + (side - size.width) / 2;
    for (int64_t y = 0; y < size.height; ++y) std::copy_n(small.row(y), 3 * size.width, grid.row(top + y) + 3 * left);
  }
  return images::png_bytes(grid);
}

int64_t sampled(int64_t number, int64_t count) { return shuffled(number % count, count, /*seed=*/0, /*epoch=*/0); }

std::string document_text(const TokenSet& set, int64_t document, const tokenizers::Tokenizer* tokenizer, int64_t most) {
  const auto extent = set.document(document);
  std::vector<int64_t> tokens(std::min(extent.count, most));
  set.read(extent.first, tokens);
  if (tokenizer == nullptr) return {tokens.begin(), tokens.end()};
  return tokenizer->decode(std::vector<tokenizers::TokenId>(tokens.begin(), tokens.end()));
}

}  // namespace hyperion::data
