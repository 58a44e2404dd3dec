#include "hyperion/data/text.h"

#include <algorithm>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"

namespace hyperion::data {
namespace {

class TextSource final : public Source {
 public:
  TextSource(std::shared_ptr<const base::MappedFile> file, int64_t first, int64_t bytes, int64_t length)
      : file_(std::move(file)), first_(first), length_(length), samples_((bytes - 1) / length) {}

  int64_t samples() const override { return samples_; }

  void read(int64_t index, const TokenRow& row) const override {
    const auto out = row.tokens;
    HYPERION_CHECK(static_cast<int64_t>(out.size()) <= length_ + 1, "a sample holds length + 1 tokens");
    const std::string_view bytes = file_->bytes().substr(first_ + index * length_, out.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(bytes[i]);
  }

 private:
  std::shared_ptr<const base::MappedFile> file_;
  int64_t first_, length_, samples_;
};

}  // namespace

Split open_text(const DataConfig& config, int64_t length) {
  std::error_code ignored;
  const std::string& path = config.path.at(0);
  if (!std::filesystem::is_regular_file(path, ignored))
    throw base::ConfigError(base::format("data.path = \"{}\" {}", path,
                                         std::filesystem::exists(path, ignored) ? "is not a file" : "does not exist"),
                            base::format("name a text file; a relative path starts at {}",
                                         std::filesystem::current_path(ignored).string()));
  auto file = std::make_shared<const base::MappedFile>(path);
  const auto bytes = static_cast<int64_t>(file->bytes().size());
  const auto held_out = static_cast<int64_t>(static_cast<double>(bytes) * config.validation);
  if (std::min(bytes - held_out, held_out) < length + 1)
    throw base::ConfigError(
        base::format("{} has {} bytes: too few for a sequence of {} in both the training part and the "
                     "validation part ({} and {} bytes)",
                     path, bytes, length, bytes - held_out, held_out),
        "use a longer text, a shorter train.length, or another data.validation");
  Split split;
  split.digest = base::hash_hex(file->bytes());
  split.train = std::make_unique<TextSource>(file, 0, bytes - held_out, length);
  split.validation = std::make_unique<TextSource>(file, bytes - held_out, held_out, length);
  return split;
}

}  // namespace hyperion::data
