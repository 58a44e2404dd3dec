#include "hyperion/data/image_digest.h"

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/signals.h"

namespace hyperion::data {
namespace {

constexpr int kHashingThreads = 8;       // they wait for the disk, or for the network
constexpr uint64_t kEndBytes = 4 << 10;  // of a file that is not read whole, at its beginning and at its end

struct ListedFile {
  const ImageFile* file;
  uint64_t bytes;
};

std::vector<ListedFile> all_files(const ImageSplit& split) {
  std::vector<ListedFile> all;
  for (const ImageList* list : {&split.train, &split.validation})
    for (const auto& file : list->files) all.push_back({&file, base::real_files().size(file.path)});
  return all;
}

std::string line_of(const ListedFile& listed) {
  return base::format("{} {} {}\n", listed.file->path.filename().string(), listed.file->label, listed.bytes);
}

uint64_t hash_of_content(const ListedFile& listed, bool whole) {
  const bool ends = !whole && listed.bytes > 2 * kEndBytes;
  std::string bytes(ends ? 2 * kEndBytes : listed.bytes, '\0');
  std::ifstream file(listed.file->path, std::ios::binary);
  if (ends) {
    file.read(bytes.data(), kEndBytes);
    file.seekg(static_cast<std::streamoff>(listed.bytes - kEndBytes));
    file.read(bytes.data() + kEndBytes, kEndBytes);
  } else {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  return base::hash_64(bytes);
}

}  // namespace

std::string image_digest(const ImageSplit& split, uint64_t whole, size_t most) {
  const auto all = all_files(split);
  uint64_t bytes = 0;
  for (const auto& listed : all) bytes += listed.bytes;
  const bool read_through = bytes <= whole;
  const size_t step = read_through ? 1 : std::max<size_t>(1, (all.size() + most - 1) / most);
  std::vector<uint64_t> hashes((all.size() + step - 1) / step);
  std::atomic<size_t> next{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kHashingThreads; ++i)
      threads.emplace_back([&] {
        for (size_t at = next++; at < hashes.size() && base::stop_signal() == 0; at = next++)
          hashes[at] = hash_of_content(all[at * step], read_through);
      });
  }
  base::throw_if_stopped("looking at the images");
  base::Hasher hasher;
  for (const auto& listed : all) hasher.update(line_of(listed));
  for (const uint64_t hash : hashes) hasher.update(base::format("{:016x}\n", hash));
  return hasher.hex();
}

std::string image_listing_digest(const ImageSplit& split) {
  base::Hasher hasher;
  for (const auto& listed : all_files(split)) hasher.update(line_of(listed));
  return hasher.hex();
}

}  // namespace hyperion::data
