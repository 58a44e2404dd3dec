#include "hyperion/data/image_check.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/records/input_files.h"

namespace hyperion::data {
namespace {

constexpr int kLookingThreads = 8;  // they wait for the disk, or for the network

std::string why_no_image(const base::Path& path) {
  if (auto why = why_unreadable(path); !why.empty()) return why;
  char first[16];
  std::ifstream file(path, std::ios::binary);
  file.read(first, sizeof first);
  const std::string_view bytes(first, static_cast<size_t>(file.gcount()));
  if (bytes.empty()) return "empty";
  return images::begins_as_image(bytes) ? "" : "neither a JPEG nor a PNG file";
}

}  // namespace

std::string why_unreadable(const base::Path& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found)
    return std::filesystem::is_symlink(path, error) ? "a link that leads nowhere" : "not there";
  if (error) return base::format("cannot be read: {}", error.message());
  if (kind != std::filesystem::file_type::regular) return "not a regular file, but a folder, a pipe or a device";
  if (::access(path.c_str(), R_OK) != 0) return base::format("cannot be read: {}", std::strerror(errno));
  return {};
}

void refuse_broken_images(const ImageSplit& split, size_t most) {
  const auto &train = split.train.files, &validation = split.validation.files;
  const size_t count = std::min(train.size() + validation.size(), most);
  const auto path_of = [&](size_t i) -> const base::Path& {
    return i < train.size() ? train[i].path : validation[i - train.size()].path;
  };
  std::atomic<size_t> next{0};
  std::map<size_t, std::string> broken;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kLookingThreads; ++i)
      threads.emplace_back([&] {
        for (size_t at = next++; at < count && base::stop_signal() == 0; at = next++)
          if (auto why = why_no_image(path_of(at)); !why.empty()) {
            const std::lock_guard lock(mutex);
            broken.emplace(at, std::move(why));
          }
      });
  }
  base::throw_if_stopped("looking at the images");
  if (broken.empty()) return;
  const auto& [at, why] = *broken.begin();
  const std::string name = records::shown_in_utf8(path_of(at).native());
  const bool one = broken.size() == 1;
  throw base::CorruptError(one ? base::format("{}: {}", name, why)
                               : base::format("{} files are no images that can be read; the first is {}: {}",
                                              base::with_commas(static_cast<int64_t>(broken.size())), name, why),
                           base::format("remove {}, or make a set without: hyperion data prepare RECIPE --on-bad skip",
                                        one ? "it" : "them"));
}

}  // namespace hyperion::data
