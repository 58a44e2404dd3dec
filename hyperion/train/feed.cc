#include "hyperion/train/feed.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/data/images.h"
#include "hyperion/data/mix.h"
#include "hyperion/data/open_data.h"
#include "hyperion/host/cpu.h"
#include "hyperion/nn/context.h"
#include "hyperion/profile/span.h"
#include "hyperion/train/epochs.h"

namespace hyperion::train {
namespace {

using base::format;

template <class T>
std::span<T> row_of(at::Tensor& tensor, int64_t row) {
  const int64_t width = tensor.numel() / tensor.size(0);
  return {tensor.mutable_data_ptr<T>() + row * width, static_cast<size_t>(width)};
}

template <class T>
std::string_view bytes_of(std::span<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

constexpr int64_t kIgnored = -100;

// A batch that is being filled; rows may be filled by different threads.
class Filling {
 public:
  // Rows from `rows` on, `others` of them, are read to be mixed with those, and are no part of the batch.
  Filling(const data::Split& split, const RunConfig& config, int64_t rows, bool pinned, int64_t others = 0)
      : split_(split), reset_(config.data.reset), hashes_(rows), other_labels_(others) {
    const auto room = [&](at::IntArrayRef sizes, at::ScalarType type) {
      return at::empty(sizes, at::TensorOptions().dtype(type).pinned_memory(pinned));
    };
    batch_.counted.resize(rows, 1);
    if (has_tokens(split)) {
      const int64_t length = config.train.length;
      batch_.inputs = room({rows, length}, at::kLong), batch_.targets = room({rows, length}, at::kLong);
      if (reset_) batch_.segment_starts = room({rows, length}, at::kInt);
      if ((split.train ? *split.train : *split.validation).pads()) batch_.lengths = room({rows}, at::kInt);
      return;
    }
    const auto shape = images(split).shape();
    batch_.inputs = room({rows, shape.channels, shape.height, shape.width}, at::kFloat);
    batch_.targets = room({rows}, at::kLong);
    if (others > 0) others_ = at::empty({others, shape.channels, shape.height, shape.width}, at::kFloat);
  }

  // `training`: from the training half.
  void fill(int64_t row, int64_t position, data::Order::Drawn drawn, bool training) {
    if (has_tokens(split_))
      return fill_tokens(row, position, drawn.index, training ? *split_.train : *split_.validation);
    const auto& source = training ? *split_.train_images : *split_.validation_images;
    if (const int64_t other = row - batch_.rows(); other >= 0) {
      other_labels_[other] = source.read(drawn.index, drawn.epoch, row_of<float>(others_, other));
      return;
    }
    const auto pixels = row_of<float>(batch_.inputs, row);
    auto& label = row_of<int64_t>(batch_.targets, row)[0];
    label = source.read(drawn.index, drawn.epoch, pixels);
    hashes_[row] = data::sample_hash(position, bytes_of(pixels)) + static_cast<uint64_t>(label);
  }

  Batch take() {
    for (const uint64_t hash : hashes_) batch_.hash += hash;
    if (reset_ && batch_.segment_starts.defined()) batch_.documents = blocks::most_documents(batch_.segment_starts);
    return std::move(batch_);
  }

  // Once all rows are there: blends pairs of images, and makes their labels parts of two classes, fp32 [rows, classes].
  void mix(std::span<const data::Mix> mixes) {
    data::mix_images(numbers_of(batch_.inputs), numbers_of(others_), images(split_).shape(), mixes);
    auto parts = at::zeros({batch_.rows(), images(split_).classes()}, batch_.inputs.options());
    std::vector<int64_t> labels(batch_.targets.const_data_ptr<int64_t>(),
                                batch_.targets.const_data_ptr<int64_t>() + batch_.rows());
    labels.insert(labels.end(), other_labels_.begin(), other_labels_.end());
    for (int64_t row = 0; row < batch_.rows(); ++row) {
      const auto of = row_of<float>(parts, row);
      of[labels[row]] += mixes[row].own;
      of[labels[mixes[row].partner]] += 1 - mixes[row].own;
    }
    batch_.targets = parts;
    others_.reset();
  }

 private:
  // A split to measure on has its validation half alone.
  static bool has_tokens(const data::Split& split) { return split.train || split.validation; }
  static const data::ImageSource& images(const data::Split& split) {
    return split.train_images ? *split.train_images : *split.validation_images;
  }

  static std::span<float> numbers_of(at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    return {tensor.mutable_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
  }

  void fill_tokens(int64_t row, int64_t position, int64_t index, const data::Source& source) {
    const auto inputs = row_of<int64_t>(batch_.inputs, row), targets = row_of<int64_t>(batch_.targets, row);
    const size_t length = inputs.size();
    std::vector<int64_t> tokens(length + 1), document(length + 1);
    std::vector<uint8_t> learned(length + 1, 1);
    source.read(index, {tokens, learned, document});
    hashes_[row] = data::sample_hash(position, bytes_of(std::span<const int64_t>(tokens)));
    int64_t counted = 0;
    for (size_t i = 0; i < length; ++i) {
      const bool counts = learned[i + 1] != 0 && !(reset_ && document[i] != document[i + 1]);
      inputs[i] = tokens[i], targets[i] = counts ? tokens[i + 1] : kIgnored;
      counted += counts;
    }
    batch_.counted[row] = counted;
    if (batch_.lengths.defined())
      batch_.lengths.mutable_data_ptr<int32_t>()[row] =
          static_cast<int32_t>(std::find(document.begin(), document.end() - 1, -1) - document.begin());
    if (!reset_) return;
    const auto starts = row_of<int32_t>(batch_.segment_starts, row);
    for (size_t i = 0; i < length; ++i)
      starts[i] = i > 0 && document[i] == document[i - 1] ? starts[i - 1] : static_cast<int32_t>(i);
  }

  const data::Split& split_;
  bool reset_;
  std::vector<uint64_t> hashes_;
  Batch batch_;
  at::Tensor others_;  // images that are only mixed with those of the batch
  std::vector<int64_t> other_labels_;
};

// A process's share of a training batch, while it is read.
class FillingShare {
 public:
  FillingShare(const data::Split& split, const RunConfig& config, const data::BatchShare& share, bool pinned)
      : plan_(plan(split, config, share)),
        own_(static_cast<int64_t>(share.positions().size())),
        filling_(split, config, own_, pinned, rows() - own_) {}

  int64_t rows() const { return static_cast<int64_t>(plan_.positions.size()); }  // to be read
  void fill(int64_t row, const data::Order& order) {
    const int64_t position = plan_.positions[row];
    filling_.fill(row, position, order.at(position), true);
  }
  Batch take() {
    if (!plan_.mixes.empty()) filling_.mix(plan_.mixes);
    return filling_.take();
  }

 private:
  static data::MixPlan plan(const data::Split& split, const RunConfig& config, const data::BatchShare& share) {
    const data::MixConfig how{config.data.augment.mixup, config.data.augment.cutmix};
    if (!split.train_images || !how.any()) return {share.positions(), {}};
    const auto shape = split.train_images->shape();
    return data::mix_plan(how, {shape.height, shape.width}, config.train.seed, share);
  }

  data::MixPlan plan_;
  int64_t own_;
  Filling filling_;
};

// Of the batch at a position, this process's share.
data::BatchShare share_at(const RunConfig& config, DataShard share, int64_t in_all, int64_t position) {
  const int64_t rows = rows_at(config.train.batch, in_all, position);
  HYPERION_CHECK(rows >= share.count, "each process has a row of the batch");
  return {position, rows, share.rank, share.count};
}

}  // namespace

namespace {

// What was said of whole samples is said of the cut's tokens.
void cut_pass(nn::PassInputs& pass, const strategy::TokenCut& tokens, const at::TensorOptions& whole) {
  pass.tokens = tokens;
  const auto places = at::arange(tokens.all, whole.dtype(at::kLong)).unsqueeze(0);
  pass.reach = pass.positions.defined()    ? pass.positions.max().add(1)
               : pass.token_mask.defined() ? places.add(1).mul(pass.token_mask).max()
                                           : at::full({}, tokens.all, whole.dtype(at::kLong));
  pass.positions = nn::tokens_of(pass.positions.defined() ? pass.positions : places, tokens, 1);
  if (pass.token_mask.defined()) pass.token_mask = nn::tokens_of(pass.token_mask, tokens, 1).contiguous();
}

}  // namespace

Batch own_tokens(const Batch& whole, const strategy::TokenCut& cut) {
  Batch own = whole;
  own.tokens = cut;
  own.inputs = nn::tokens_of(whole.inputs, cut, 1).contiguous();
  own.targets = nn::tokens_of(whole.targets, cut, 1).contiguous();
  const auto counted = own.targets.ne(kIgnored).sum(1).to(at::kCPU).contiguous();
  own.counted.assign(counted.const_data_ptr<int64_t>(), counted.const_data_ptr<int64_t>() + counted.numel());
  return own;
}

Batch Batch::part(int64_t index, int64_t of) const {
  const auto cut = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || of == 1) return tensor;
    return tensor.slice(0, index, tensor.size(0), of).contiguous(tensor.suggest_memory_format());
  };
  Batch some{cut(inputs), cut(targets), cut(segment_starts), cut(lengths), {}, documents};
  some.tokens = tokens;
  for (size_t row = static_cast<size_t>(index); row < counted.size(); row += static_cast<size_t>(of))
    some.counted.push_back(counted[row]);
  return some;
}

int64_t Batch::counted_in_part(int64_t index, int64_t of) const {
  int64_t sum = 0;
  for (size_t row = static_cast<size_t>(index); row < counted.size(); row += static_cast<size_t>(of))
    sum += counted[row];
  return sum;
}

void Batch::apply_to(nn::PassInputs& pass) const {
  const int64_t length = tokens.whole() ? inputs.size(1) : tokens.all;
  if (lengths.defined()) pass.token_mask = at::arange(length, lengths.options()).unsqueeze(0).lt(lengths.unsqueeze(1));
  if (segment_starts.defined()) apply_segments(pass);
  if (!tokens.whole()) cut_pass(pass, tokens, inputs.options());
}

void Batch::apply_segments(nn::PassInputs& pass) const {
  pass.segments = blocks::Segments(segment_starts, documents);
  const auto whole = segment_starts.options().dtype(at::kLong);
  pass.positions = at::arange(segment_starts.size(1), whole).sub(segment_starts);
  if (lengths.defined()) pass.positions.mul_(pass.token_mask);  // padding is no document whose length could matter
}

data::Split open_split(const RunConfig& config, const strategy::ModelShape& shape) {
  constexpr int64_t kSide = 32;  // of drawn shapes that no model will take
  return data::open_data(config.data, {config.train.length, shape.image > 0 ? shape.image : kSide}, config.train.seed);
}

// Workers take one row after the other of the oldest batch that has rows left, and begin another batch where fewer than
// kAhead are under way.
class Feed::Work {
 public:
  Work(const data::Split& split, const RunConfig& config, data::Cursor start, DataShard share, bool pinned)
      : split_(split),
        config_(config),
        order_(split.order(config.train.seed)),
        in_all_(samples_in_all(config, split)),
        cursor_(start),
        next_position_(start.samples),
        share_(share),
        pinned_(pinned) {
    const int64_t asked = config.data.threads;
    // Tokens are copied, images computed.
    const int64_t few = split.train ? 1 : std::max<int64_t>(1, host::this_cpu().usable_cores() / 2);
    try {
      for (int64_t i = 0; i < (asked > 0 ? asked : few); ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // a further thread could not be had
      end();
      throw;
    }
  }
  ~Work() { end(); }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  Batch next() {
    const profile::Span span("feed wait");
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return failed_ || (!slots_.empty() && slots_.front()->left == 0); };
    while (!changed_.wait_for(lock, kLook, ready))
      if (share_.count == 1) base::throw_if_stopped("waiting for samples");  // several processes stop together
    if (failed_) std::rethrow_exception(failed_);
    const auto slot = std::move(slots_.front());
    slots_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (slot->error) std::rethrow_exception(slot->error);
    Batch batch = slot->filling.take();
    cursor_.samples += rows_at(config_.train.batch, in_all_, cursor_.samples);
    cursor_.hash += batch.hash;
    return batch;
  }
  const data::Cursor& cursor() const { return cursor_; }

 private:
  static constexpr size_t kAhead = 3;
  static constexpr std::chrono::milliseconds kLook{100};
  struct Slot {
    explicit Slot(FillingShare share) : filling(std::move(share)), left(filling.rows()) {}
    FillingShare filling;
    int64_t claimed = 0, left;  // rows begun by someone, and not yet done
    std::exception_ptr error;
  };

  void work() {
    std::unique_lock lock(mutex_);
    while (!stopped_ && !failed_) {
      std::shared_ptr<Slot> slot;
      try {
        slot = open_slot();
      } catch (...) {  // no memory for another batch
        failed_ = std::current_exception();
        changed_.notify_all();
        return;
      }
      if (!slot) {
        changed_.wait(lock);
        continue;
      }
      const int64_t row = slot->claimed++;
      lock.unlock();
      std::exception_ptr error;
      try {
        const profile::Span span("feed read");
        slot->filling.fill(row, order_);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      if (error && !slot->error) slot->error = error;
      if (--slot->left == 0) changed_.notify_all();
    }
  }

  // One with rows that nobody has begun; null where there is nothing to do.
  std::shared_ptr<Slot> open_slot() {
    for (const auto& slot : slots_)
      if (slot->claimed < slot->filling.rows()) return slot;
    if (slots_.size() >= kAhead || (in_all_ > 0 && next_position_ >= in_all_)) return nullptr;
    slots_.push_back(std::make_shared<Slot>(
        FillingShare(split_, config_, share_at(config_, share_, in_all_, next_position_), pinned_)));
    next_position_ += rows_at(config_.train.batch, in_all_, next_position_);
    if (threads_.size() > 1) changed_.notify_all();
    return slots_.back();
  }

  const data::Split& split_;
  const RunConfig& config_;
  data::Order order_;
  int64_t in_all_;  // positions of the run; 0: no end
  data::Cursor cursor_;
  int64_t next_position_;
  DataShard share_;
  bool pinned_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool stopped_ = false;
  std::exception_ptr failed_;  // where no batch can be begun
  std::vector<std::thread> threads_;
};

Feed::Feed(const data::Split& split, const RunConfig& config, data::Cursor start, DataShard share, bool pinned)
    : work_(std::make_unique<Work>(split, config, start, share, pinned)) {}
Feed::~Feed() = default;
Batch Feed::next() { return work_->next(); }
const data::Cursor& Feed::cursor() const { return work_->cursor(); }

Batch batch_at(const data::Split& split, const RunConfig& config, int64_t position, DataShard share) {
  const auto order = split.order(config.train.seed);
  FillingShare filling(split, config, share_at(config, share, samples_in_all(config, split), position), false);
  for (int64_t row = 0; row < filling.rows(); ++row) filling.fill(row, order);
  return filling.take();
}

int64_t validation_samples(const data::Split& split) {
  return split.validation ? split.validation->samples() : split.validation_images->samples();
}

Batch validation_batch(const data::Split& split, int64_t first, int64_t count, const RunConfig& config) {
  Filling filling(split, config, count, false);
  for (int64_t row = 0; row < count; ++row) filling.fill(row, first + row, {first + row, 0}, false);
  return filling.take();
}

Batch to_device(const Batch& batch, at::Device device, at::ScalarType type) {
  const auto move = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true) : tensor;
  };
  Batch there{move(batch.inputs),  move(batch.targets), move(batch.segment_starts),
              move(batch.lengths), batch.counted,       batch.documents};
  there.tokens = batch.tokens;
  if (there.inputs.is_floating_point()) there.inputs = there.inputs.to(type);
  if (there.inputs.dim() == 4) there.inputs = there.inputs.contiguous(at::MemoryFormat::ChannelsLast);
  return there;
}

void check_counted(const data::Split& split, const RunConfig& config) {
  constexpr int64_t kFirst = 4096;
  if (!split.train) return;
  const auto refuse = [&](const std::string& what) {
    throw base::ConfigError(format("the loss counts no token of {}", what),
                            config.data.packing == data::Packing::stream
                                ? "use a longer train.length, or data.packing = whole, whose rows are whole dialogues"
                                : "use a longer train.length, or data.reset = false");
  };
  const auto counts = [&](int64_t samples, bool training) {
    for (int64_t i = 0; i < samples; ++i) {
      Filling row(split, config, 1, false);
      row.fill(0, i, {i, 0}, training);
      if (row.take().counted_in_all() > 0) return true;
    }
    return samples == 0;
  };
  const int64_t first = std::min(kFirst, split.train->samples());
  if (!counts(first, true)) refuse(format("the first {} samples of the training data", first));
  const int64_t measured = std::min(validation_samples(split), config.eval.batches * config.train.batch);
  if (!counts(measured, false))
    refuse(format("the {} samples that a validation reads (eval.batches = {})", measured, config.eval.batches));
}

void check_fit(const data::Split& split, const strategy::ModelShape& shape, const RunConfig& config) {
  const bool tokens = split.train != nullptr;
  const std::string named = config.model.from.empty() ? format("model.preset = \"{}\"", config.model.preset)
                                                      : format("model.from = \"{}\"", config.model.from);
  if (tokens != (shape.context > 0))
    throw base::ConfigError(
        format("{} takes {}, and data.source = \"{}\" gives {}", named, shape.context > 0 ? "tokens" : "images",
               base::word_of(config.data.source), tokens ? "tokens" : "images"),
        shape.context > 0 ? "use data.source = prepared, text or sums" : "use data.source = images, cifar or shapes");
  if (tokens && shape.vocabulary < split.train->vocabulary())
    throw base::ConfigError(
        format("{} knows {} token ids, and the data has {}", named, shape.vocabulary, split.train->vocabulary()),
        config.model.from.empty() ? format("set model.vocabulary = {}", split.train->vocabulary())
                                  : "leave model.vocabulary out: the model then grows to what the data has");
  if (!tokens && split.train_images->classes() > shape.vocabulary)
    throw base::ConfigError(format("data.source = \"{}\" has {} classes, and the model {}",
                                   base::word_of(config.data.source), split.train_images->classes(), shape.vocabulary),
                            format("set model.classes = {}", split.train_images->classes()));
}

}  // namespace hyperion::train
