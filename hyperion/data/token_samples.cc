#include "hyperion/data/token_samples.h"

#include <algorithm>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/fit_rows.h"

namespace hyperion::data {
namespace {

using base::format;

// Writes `extent` of the set from place `at` of the row on.
void fill_row(const TokenSet& set, TokenSet::Extent extent, int64_t at, int64_t document, const TokenRow& row) {
  set.read(extent.first, row.tokens.subspan(at, extent.count));
  if (row.loss_mask.empty()) return;
  set.read_loss_mask(extent.first, row.loss_mask.subspan(at, extent.count));
  std::fill_n(row.segment_ids.begin() + at, extent.count, document);
}

// Of so many rows those in which something is learned: a sample is one of them.
class LearnedRows {
 public:
  template <class Learns>
  LearnedRows(int64_t rows, Learns learns) : rows_(rows) {
    std::vector<int64_t> learned;
    for (int64_t row = 0; row < rows; ++row)
      if (learns(row)) learned.push_back(row);
    left_out_ = rows - std::ssize(learned);
    if (left_out_ > 0) learned_ = std::move(learned);
  }
  int64_t count() const { return rows_ - left_out_; }
  int64_t left_out() const { return left_out_; }
  int64_t operator[](int64_t sample) const { return left_out_ == 0 ? sample : learned_[sample]; }

 private:
  int64_t rows_, left_out_;
  std::vector<int64_t> learned_;  // empty: all
};

class StreamSamples final : public Source {
 public:
  StreamSamples(std::shared_ptr<const TokenSet> set, int64_t length)
      : set_(std::move(set)),
        length_(length),
        rows_(std::max<int64_t>(0, (set_->tokens() - 1) / length), [this](int64_t row) { return learns(row); }) {}
  int64_t samples() const override { return rows_.count(); }
  int64_t vocabulary() const override { return set_->vocabulary(); }
  Cut cut() const override { return {.unlearned = rows_.left_out()}; }

  void read(int64_t index, const TokenRow& row) const override {
    const auto size = static_cast<int64_t>(row.tokens.size());
    int64_t token = rows_[index] * length_;
    int64_t document = set_->document_of(token);
    for (int64_t at = 0; at < size; ++document) {
      const bool there = document < set_->documents();
      const auto extent = there ? set_->document(document) : TokenSet::Extent{};
      if (!there || token < extent.first || token > extent.first + extent.count)  // the index is not in order
        throw base::CorruptError(
            format("{} is damaged: no document holds token {}", set_->file().path().string(), token),
            "remove the folder, then make it again: hyperion data prepare RECIPE");
      const int64_t count = std::min(extent.first + extent.count - token, size - at);
      fill_row(*set_, {token, count}, at, document, row);
      at += count, token += count;
    }
  }

 private:
  bool learns(int64_t row) const {
    if (!set_->masked()) return true;
    std::vector<uint8_t> targets(static_cast<size_t>(length_));
    set_->read_loss_mask(row * length_ + 1, targets);
    return std::any_of(targets.begin(), targets.end(), [](uint8_t bit) { return bit != 0; });
  }

  std::shared_ptr<const TokenSet> set_;
  int64_t length_;
  LearnedRows rows_;
};

// Documents side by side, the rest of a row empty.
class RowSamples final : public Source {
 public:
  RowSamples(std::shared_ptr<const TokenSet> set, int64_t length, bool together, TooLong too_long)
      : set_(std::move(set)), length_(length), too_long_(too_long) {
    cut_.documents = set_->documents();
    std::vector<Piece> window;
    int64_t tokens = 0;
    for (int64_t i = 0; i < set_->documents(); ++i) {
      tokens += cut_up(i, window);
      if (!together) {
        add_each(window);
      } else if (fill_window(std::ssize(window), tokens, length_ + 1)) {
        tokens = add_fitted(window, /*last=*/false);
      }
    }
    add_fitted(window, /*last=*/true);
    rows_.push_back({set_->documents(), 0, std::ssize(others_)});
    rows_.shrink_to_fit(), others_.shrink_to_fit();
    samples_.emplace(std::ssize(rows_) - 1, [this](int64_t row) { return learns(row); });
    cut_.unlearned = samples_->left_out();
  }
  int64_t samples() const override { return samples_->count(); }
  int64_t vocabulary() const override { return set_->vocabulary(); }
  Cut cut() const override { return cut_; }
  bool pads() const override { return true; }

  void read(int64_t index, const TokenRow& row) const override {
    int64_t at = 0;
    each_piece((*samples_)[index], [&](const Piece& piece) {
      fill_row(*set_, extent_of(piece), at, piece.document, row);
      if (piece.skip > 0 && !row.loss_mask.empty()) row.loss_mask[at] = 0;  // a target where the row before it ends
      at += piece.count;
      return true;
    });
    std::fill(row.tokens.begin() + at, row.tokens.end(), std::max<int64_t>(set_->end(), 0));
    if (row.loss_mask.empty()) return;
    std::fill(row.loss_mask.begin() + at, row.loss_mask.end(), 0);
    std::fill(row.segment_ids.begin() + at, row.segment_ids.end(), -1);
  }

 private:
  // Of a document, `count` tokens from its token `skip` on.
  struct Piece {
    int64_t document, skip, count;
  };
  // Begins with a piece; further ones, if any, are the ends of other documents: most often these are whole.
  struct Row {
    int64_t document, skip;
    int64_t others;  // the first in others_; the next row's are behind them
  };

  int64_t kept_of(int64_t count) const {
    if (count <= length_ + 1 || too_long_ == TooLong::split) return count;
    return too_long_ == TooLong::drop ? 0 : length_ + 1;
  }
  TokenSet::Extent extent_of(const Piece& piece) const {
    return {set_->document(piece.document).first + piece.skip, piece.count};
  }

  // A document that is longer than a sample and split fills rows of its own but for its end; each begins with the last
  // token of the one before, so that every token but the first is a target once. Returns how many tokens that are.
  int64_t cut_up(int64_t document, std::vector<Piece>& pieces) {
    const int64_t all = set_->document(document).count, kept = kept_of(all);
    cut_.too_long += all > length_ + 1;
    int64_t tokens = 0;
    for (int64_t skip = 0; skip == 0 ? kept > 0 : skip + 1 < kept; skip += length_) {
      pieces.push_back({document, skip, std::min(kept - skip, length_ + 1)});
      tokens += pieces.back().count;
    }
    return tokens;
  }

  void add_each(std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) rows_.push_back({piece.document, piece.skip, std::ssize(others_)});
    pieces.clear();
  }

  // Leaves those of the emptiest row, unless they are the last, to be fitted with what follows; returns their tokens.
  int64_t add_fitted(std::vector<Piece>& pieces, bool last) {
    std::vector<int64_t> sizes;
    for (const Piece& piece : pieces) sizes.push_back(piece.count);
    const auto fitted = fit_rows(sizes, length_ + 1);
    std::vector<Piece> left;
    int64_t tokens = 0;
    for (int64_t row = 0; row < fitted.count(); ++row) {
      if (!last && row == fitted.emptiest) {
        for (const int32_t i : fitted[row]) left.push_back(pieces[i]), tokens += sizes[i];
        continue;
      }
      const Piece& first = pieces[fitted[row][0]];
      rows_.push_back({first.document, first.skip, std::ssize(others_)});
      for (const int32_t other : fitted[row].subspan(1))
        others_.push_back(static_cast<uint32_t>(pieces[other].document - first.document));
    }
    pieces = std::move(left);
    return tokens;
  }

  // Until `visit(piece)` says false.
  template <class Visit>
  void each_piece(int64_t row, Visit visit) const {
    const auto kept = [&](int64_t document) { return kept_of(set_->document(document).count); };
    const auto& [first, skip, others] = rows_[row];
    if (!visit(Piece{first, skip, std::min(kept(first) - skip, length_ + 1)})) return;
    for (int64_t i = others; i < rows_[row + 1].others; ++i) {
      const int64_t document = first + others_[i], count = kept(document);
      const int64_t end = std::max<int64_t>(count - 2, 0) / length_ * length_;  // where its last piece begins
      if (!visit(Piece{document, end, count - end})) return;
    }
  }

  bool learns(int64_t row) const {
    bool found = false, first = true;  // the first token of a row is no target
    std::vector<uint8_t> loss_mask;
    each_piece(row, [&](const Piece& piece) {
      const int64_t skip = std::exchange(first, false) || piece.skip > 0 ? 1 : 0;
      if (!set_->masked()) return !(found = piece.count > skip);
      loss_mask.resize(piece.count);
      set_->read_loss_mask(extent_of(piece).first, loss_mask);
      found = std::any_of(loss_mask.begin() + skip, loss_mask.end(), [](uint8_t bit) { return bit != 0; });
      return !found;
    });
    return found;
  }

  std::shared_ptr<const TokenSet> set_;
  int64_t length_;  // a sample has room for length + 1
  TooLong too_long_;
  Cut cut_;
  std::vector<Row> rows_;               // and an end
  std::vector<uint32_t> others_;        // documents, counted from the first of their row
  std::optional<LearnedRows> samples_;  // set once `rows_` are
};

}  // namespace

std::unique_ptr<Source> make_token_source(std::shared_ptr<const TokenSet> set, Packing packing, int64_t length,
                                          TooLong too_long) {
  if (packing == Packing::stream) return std::make_unique<StreamSamples>(std::move(set), length);
  return std::make_unique<RowSamples>(std::move(set), length, packing == Packing::whole, too_long);
}

}  // namespace hyperion::data
