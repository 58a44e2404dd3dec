#include "hyperion/data/token_set.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/token_samples.h"
#include "tests/base/support_child.h"
#include "tests/support/seed.h"

namespace hyperion::data {
namespace {

using base::test::TestFolder;

struct Documents {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint8_t>> learned;
};

Documents random_documents(std::mt19937& random, int count, int longest, int vocabulary, bool masked) {
  Documents all;
  for (int i = 0; i < count; ++i) {
    all.ids.emplace_back(1 + random() % longest);
    all.learned.emplace_back();
    for (auto& id : all.ids.back()) {
      id = static_cast<int32_t>(random() % vocabulary);
      if (masked) all.learned.back().push_back(random() % 2);
    }
  }
  return all;
}

std::shared_ptr<const TokenSet> written(const base::Path& path, const Documents& documents, int64_t vocabulary) {
  TokenWriter writer(base::real_files(), path, token_width(vocabulary), {});
  for (size_t i = 0; i < documents.ids.size(); ++i) writer.add(documents.ids[i], documents.learned[i]);
  writer.finish(vocabulary, 0, nlohmann::json::object());
  return std::make_shared<const TokenSet>(path);
}

struct Row {
  std::vector<int64_t> tokens, segment_ids;
  std::vector<uint8_t> loss_mask;
};

Row row_of(const Source& source, int64_t index, int64_t length) {
  Row row;
  row.tokens.resize(length + 1, -7), row.segment_ids.resize(length + 1), row.loss_mask.resize(length + 1, 1);
  source.read(index, {row.tokens, row.loss_mask, row.segment_ids});
  return row;
}

TEST(TokenSet, verify_holds_the_footers_count_of_learned_tokens_against_the_mask) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  for (const bool masked : {false, true}) {
    const base::Path path = folder / "tokens.set";
    const auto documents = random_documents(random, 5, 13, 300, masked);
    const auto good = written(path, documents, 300);
    good->verify();
    auto meta = good->file().meta();
    meta["learned"] = good->learned_in_all() + 1;
    SetWriter writer(base::real_files(), folder / "wrong.set");
    writer.add(good->file().payload());
    if (masked) writer.append("learned", good->file().section("learned"));
    writer.finish("tokens", meta);
    const TokenSet wrong(folder / "wrong.set");
    EXPECT_NE(base::test::error_of<base::CorruptError>([&] { wrong.verify(); }).find("tokens are learned, and"),
              std::string::npos);
  }
}

TEST(TokenSet, gives_every_token_and_mask_back_in_both_widths) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  for (const int vocabulary : {300, 65'536, 65'537, 200'000})
    for (const bool masked : {false, true}) {
      const auto documents = random_documents(random, 50, 40, vocabulary, masked);
      const auto set = written(folder / "set", documents, vocabulary);
      set->verify();
      EXPECT_EQ(set->masked(), masked);
      ASSERT_EQ(set->documents(), 50);
      int64_t token = 0;
      for (size_t i = 0; i < documents.ids.size(); ++i) {
        const auto extent = set->document(static_cast<int64_t>(i));
        EXPECT_EQ(extent.first, token);
        std::vector<int64_t> ids(extent.count);
        set->read(extent.first, ids);
        EXPECT_TRUE(std::equal(ids.begin(), ids.end(), documents.ids[i].begin(), documents.ids[i].end()));
        std::vector<uint8_t> learned(extent.count);
        set->read_loss_mask(extent.first, learned);
        for (int64_t j = 0; j < extent.count; ++j, ++token) {
          EXPECT_EQ(set->document_of(token), static_cast<int64_t>(i));
          EXPECT_EQ(learned[j] != 0, !masked || documents.learned[i][j] != 0);
        }
      }
      EXPECT_EQ(set->tokens(), token);
    }
}

TEST(TokenSet, a_mask_goes_on_after_a_stop_in_the_middle_of_a_byte) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  const auto documents = random_documents(random, 9, 5, 100, true);
  written(folder / "whole", documents, 100);
  TokenWriter::State state;
  {
    TokenWriter writer(base::real_files(), folder / "resumed", 2, {});
    for (int i = 0; i < 4; ++i) writer.add(documents.ids[i], documents.learned[i]);
    state = writer.make_safe();
    writer.add(documents.ids[4], documents.learned[4]);
  }
  TokenWriter writer(base::real_files(), folder / "resumed", 2, state.kept);
  writer.restore(state);
  for (int i = 4; i < 9; ++i) writer.add(documents.ids[i], documents.learned[i]);
  writer.finish(100, 0, nlohmann::json::object());
  EXPECT_EQ(base::real_files().read(folder / "resumed"), base::real_files().read(folder / "whole"));
}

TEST(TokenSet, a_token_beyond_the_vocabulary_is_refused_not_handed_out) {
  TestFolder folder;
  TokenWriter writer(base::real_files(), folder / "set", 2, {});
  writer.add(std::vector<int32_t>{1, 2, 900, 3}, {});
  writer.finish(300, 0, nlohmann::json::object());
  const TokenSet set(folder / "set");
  std::vector<int64_t> out(4);
  EXPECT_THROW(set.read(0, out), base::CorruptError);
  EXPECT_THROW(set.verify(), base::CorruptError);
}

TEST(Packing, a_stream_tiles_all_tokens_and_knows_their_documents) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  const auto documents = random_documents(random, 30, 20, 1000, true);
  const auto set = written(folder / "set", documents, 1000);
  std::vector<int64_t> tokens, owner;
  std::vector<uint8_t> loss_mask;
  for (size_t i = 0; i < documents.ids.size(); ++i)
    for (size_t j = 0; j < documents.ids[i].size(); ++j)
      tokens.push_back(documents.ids[i][j]), owner.push_back(static_cast<int64_t>(i)),
          loss_mask.push_back(documents.learned[i][j]);
  for (const int64_t length : {1, 3, 17, 50}) {
    const auto source = make_token_source(set, Packing::stream, length);
    const int64_t rows = (static_cast<int64_t>(tokens.size()) - 1) / length;
    int64_t sample = 0;
    for (int64_t i = 0; i < rows; ++i) {
      const auto first_target = loss_mask.begin() + i * length + 1;
      if (std::find(first_target, first_target + length, 1) == first_target + length) continue;  // nothing to learn
      ASSERT_LT(sample, source->samples());
      const Row row = row_of(*source, sample++, length);
      EXPECT_TRUE(std::equal(row.tokens.begin(), row.tokens.end(), tokens.begin() + i * length));
      EXPECT_TRUE(std::equal(row.segment_ids.begin(), row.segment_ids.end(), owner.begin() + i * length));
      EXPECT_TRUE(std::equal(row.loss_mask.begin(), row.loss_mask.end(), loss_mask.begin() + i * length));
    }
    EXPECT_EQ(source->samples(), sample);
    EXPECT_EQ(source->cut().unlearned, rows - sample);
  }
}

// Whether the loss counts the token of that place.
bool learned_at(const Documents& documents, int64_t document, int64_t place) {
  return documents.learned[document].empty() || documents.learned[document][place] != 0;
}

// How often each token of each document is a target, where a document's first may be one behind another's last. Tokens
// are their own places.
std::vector<std::vector<int>> targets_of(const Source& source, const Documents& documents, int64_t length) {
  std::vector<std::vector<int>> times;
  for (const auto& ids : documents.ids) times.emplace_back(ids.size());
  for (int64_t i = 0; i < source.samples(); ++i) {
    const Row row = row_of(source, i, length);
    EXPECT_NE(std::find(row.loss_mask.begin() + 1, row.loss_mask.end(), 1), row.loss_mask.end()) << "nothing to learn";
    for (size_t at = 0; at < row.tokens.size(); ++at) {
      const int64_t document = row.segment_ids[at], token = row.tokens[at];
      if (document < 0) {
        EXPECT_EQ(row.loss_mask[at], 0);
        EXPECT_EQ(token, 0);  // the end token
        EXPECT_TRUE(at + 1 == row.tokens.size() || row.segment_ids[at + 1] == -1);
      } else if (at > 0) {
        const bool begins = row.segment_ids[at - 1] != document, again = begins && token > 0;
        EXPECT_TRUE(begins || token == row.tokens[at - 1] + 1);
        EXPECT_GE(document, row.segment_ids[at - 1]) << "documents of a row are in their order";
        EXPECT_EQ(row.loss_mask[at], !again && learned_at(documents, document, token));
        times[document][token] += row.loss_mask[at];
      }
    }
  }
  return times;
}

Documents numbered_documents(const std::vector<int64_t>& lengths) {
  Documents all;
  for (const int64_t length : lengths) {
    all.ids.emplace_back(length), all.learned.emplace_back();
    std::iota(all.ids.back().begin(), all.ids.back().end(), 0);
  }
  return all;
}

void expect_targets_once(const std::shared_ptr<const TokenSet>& set, const Documents& documents, int64_t length,
                         TooLong too_long) {
  const auto single = make_token_source(set, Packing::single, length, too_long),
             whole = make_token_source(set, Packing::whole, length, too_long);
  EXPECT_LE(whole->samples() + whole->cut().unlearned, single->samples() + single->cut().unlearned);
  for (const auto* source : {single.get(), whole.get()}) {
    const auto times = targets_of(*source, documents, length);
    for (size_t i = 0; i < times.size(); ++i) {
      const auto all = std::ssize(times[i]);
      const bool stays = all <= length + 1 || too_long == TooLong::split;
      const int64_t kept = stays ? all : too_long == TooLong::drop ? 0 : length + 1;
      for (int64_t j = 1; j < all; ++j)
        EXPECT_EQ(times[i][j], j < kept && learned_at(documents, static_cast<int64_t>(i), j)) << j << " of " << all;
      EXPECT_LE(times[i][0], source == whole.get());
    }
  }
}

// Each token but the first of a document must be a target once, whatever the packing.
TEST(Packing, rows_of_whole_documents_make_every_token_a_target_once) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  for (const int longest : {1, 3, 9, 10, 40, 100})
    for (const bool masked : {false, true}) {
      std::vector<int64_t> lengths(60);
      for (auto& each : lengths) each = 1 + static_cast<int64_t>(random() % longest);
      auto documents = numbered_documents(lengths);
      for (size_t i = 0; masked && i < lengths.size(); ++i)
        for (int64_t j = 0; j < lengths[i]; ++j) documents.learned[i].push_back(random() % 4 == 0);
      const auto set = written(folder / "set", documents, 1000);
      for (const int64_t length : {1, 2, 9, 31})
        for (const auto too_long : {TooLong::split, TooLong::truncate, TooLong::drop}) {
          SCOPED_TRACE(base::format("{} tokens a sample, {} a document", length, longest));
          expect_targets_once(set, documents, length, too_long);
        }
    }
}

// More documents than are fitted at once.
TEST(Packing, whole_documents_fill_their_rows) {
  TestFolder folder;
  std::mt19937 random(testing::seed());
  std::lognormal_distribution<double> drawn(std::log(30) - std::log1p(4. / 9) / 2, std::sqrt(std::log1p(4. / 9)));
  for (const int64_t length : {204, 3000}) {
    std::vector<int64_t> lengths(12'000);
    for (auto& each : lengths) each = std::clamp<int64_t>(std::llround(drawn(random)), 1, length + 1);
    const auto documents = numbered_documents(lengths);
    const auto source = make_token_source(written(folder / "set", documents, 4000), Packing::whole, length);
    const auto tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    EXPECT_GT(static_cast<double>(tokens), 0.99 * static_cast<double>(source->samples() * (length + 1)));
    std::vector<int> seen(lengths.size());
    for (int64_t i = 0; i < source->samples(); ++i) {
      const Row row = row_of(*source, i, length);
      for (const int64_t document : row.segment_ids)
        if (document >= 0) ++seen[document];
    }
    for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], lengths[i]) << i;
    const auto again = make_token_source(std::make_shared<const TokenSet>(folder / "set"), Packing::whole, length);
    ASSERT_EQ(again->samples(), source->samples());
    for (int64_t i = 0; i < source->samples(); i += 37)
      EXPECT_EQ(row_of(*again, i, length).segment_ids, row_of(*source, i, length).segment_ids);
  }
}

TEST(Packing, whole_documents_are_not_cut_where_they_fit) {
  TestFolder folder;
  Documents documents;
  for (const int length : {4, 4, 4, 10, 2}) {
    documents.ids.emplace_back(length, length);
    documents.learned.emplace_back();
  }
  const auto source = make_token_source(written(folder / "set", documents, 100), Packing::whole, 9);
  ASSERT_EQ(source->samples(), 3);
  EXPECT_EQ(row_of(*source, 0, 9).segment_ids, std::vector<int64_t>({0, 0, 0, 0, 1, 1, 1, 1, 4, 4}));
  EXPECT_EQ(row_of(*source, 1, 9).segment_ids, std::vector<int64_t>({2, 2, 2, 2, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(row_of(*source, 2, 9).segment_ids, std::vector<int64_t>(10, 3));
}

TEST(Packing, documents_that_are_too_long_are_split_truncated_or_dropped) {
  TestFolder folder;
  Documents documents;
  for (const int length : {4, 25, 10, 12}) {
    documents.ids.emplace_back(length);
    std::iota(documents.ids.back().begin(), documents.ids.back().end(), 1);
    documents.learned.emplace_back();
  }
  const auto set = written(folder / "set", documents, 100);
  const auto documents_of = [&](Packing packing, TooLong too_long) {
    const auto source = make_token_source(set, packing, 9, too_long);
    EXPECT_EQ(source->cut().documents, 4);
    EXPECT_EQ(source->cut().too_long, 2);
    std::vector<std::pair<int64_t, int64_t>> begins;  // document, and its first token here
    for (int64_t i = 0; i < source->samples(); ++i) {
      const Row row = row_of(*source, i, 9);
      begins.emplace_back(row.segment_ids[0], row.tokens[0]);
    }
    return begins;
  };
  using Begins = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(documents_of(Packing::single, TooLong::split),
            (Begins{{0, 1}, {1, 1}, {1, 10}, {1, 19}, {2, 1}, {3, 1}, {3, 10}}));
  for (const auto packing : {Packing::single, Packing::whole}) {
    EXPECT_EQ(documents_of(packing, TooLong::truncate), (Begins{{0, 1}, {1, 1}, {2, 1}, {3, 1}}));
    EXPECT_EQ(documents_of(packing, TooLong::drop), (Begins{{0, 1}, {2, 1}}));
  }
  const auto truncated = make_token_source(set, Packing::single, 9, TooLong::truncate);
  EXPECT_EQ(row_of(*truncated, 1, 9).tokens, (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
}

TEST(Packing, rows_in_which_nothing_would_be_learned_are_no_samples) {
  TestFolder folder;
  Documents documents;
  documents.ids = {{1, 2, 3}, {4, 5, 6, 7, 8, 9}, {10}, {11, 12}};
  documents.learned = {{1, 0, 0}, {0, 0, 0, 0, 0, 1}, {1}, {0, 1}};
  const auto source = make_token_source(written(folder / "set", documents, 100), Packing::single, 3);
  EXPECT_EQ(source->cut().unlearned, 3);  // the first, a half of the second, and the one without a target
  ASSERT_EQ(source->samples(), 2);
  EXPECT_EQ(row_of(*source, 0, 3).tokens, (std::vector<int64_t>{7, 8, 9, 0}));
  EXPECT_EQ(row_of(*source, 1, 3).tokens, (std::vector<int64_t>{11, 12, 0, 0}));
}

}  // namespace
}  // namespace hyperion::data
