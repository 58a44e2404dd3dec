#include "hyperion/data/cifar_files.h"

#include <filesystem>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/records/input_files.h"
#include "hyperion/text/unicode.h"

namespace hyperion::data {
namespace {

using base::format;

constexpr int64_t kPlane = kCifarSide * kCifarSide;

std::vector<std::string> class_names(const base::Path& list, size_t count) {
  std::vector<std::string> names;
  if (base::real_files().exists(list)) {
    std::istringstream lines(base::real_files().read(list));
    for (std::string line; std::getline(lines, line);) {
      if (text::valid_prefix(line) != line.size())
        throw base::CorruptError(
            format("{}: the class \"{}\" is not UTF-8", list.string(), records::shown_in_utf8(line)),
            "write the names of its classes in UTF-8");
      if (!line.empty()) names.push_back(line);
    }
  }
  while (names.size() < count) names.push_back(std::to_string(names.size()));
  names.resize(count);
  return names;
}

}  // namespace

CifarLayout cifar_layout(const base::Path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "data_batch_1.bin", ignored)) {
    CifarLayout layout{1, class_names(folder / "batches.meta.txt", 10), {}, {folder / "test_batch.bin"}};
    for (int part = 1; part <= 5; ++part) layout.train.push_back(folder / format("data_batch_{}.bin", part));
    return layout;
  }
  if (std::filesystem::exists(folder / "train.bin", ignored))
    return {2, class_names(folder / "fine_label_names.txt", 100), {folder / "train.bin"}, {folder / "test.bin"}};
  throw base::ConfigError(format("{} holds neither data_batch_1.bin nor train.bin", folder.string()),
                          "name the folder that the binary version of CIFAR-10 or CIFAR-100 unpacks to");
}

CifarFile::CifarFile(const base::Path& path, const CifarLayout& layout)
    : path_(path),
      file_(path),
      label_bytes_(layout.label_bytes),
      record_(layout.label_bytes + 3 * kPlane),
      classes_(static_cast<int64_t>(layout.classes.size())) {
  const auto bytes = static_cast<int64_t>(file_.bytes().size());
  if (bytes == 0 || bytes % record_ != 0)
    throw base::CorruptError(
        format("{} has {} bytes, not a whole number of records of {}", path.string(), bytes, record_));
}

const unsigned char* CifarFile::record(int64_t index) const {
  return reinterpret_cast<const unsigned char*>(file_.bytes().data()) + index * record_;
}

int64_t CifarFile::label(int64_t index) const { return record(index)[label_bytes_ - 1]; }

images::Pixels CifarFile::pixels(int64_t index) const {
  images::Pixels image({kCifarSide, kCifarSide});
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t i = 0; i < kPlane; ++i)
      image.rgb[3 * i + channel] = record(index)[label_bytes_ + channel * kPlane + i];
  return image;
}

void CifarFile::check_labels() const {
  for (int64_t i = 0; i < images(); ++i)
    if (label(i) >= classes_)
      throw base::CorruptError(
          format("{}: image {} has label {}, and there are {} classes", path_.string(), i, label(i), classes_));
}

}  // namespace hyperion::data
