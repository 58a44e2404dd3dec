#include "hyperion/data/image_folder.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/data/order.h"
#include "hyperion/records/bad_records.h"
#include "hyperion/records/input_files.h"
#include "hyperion/text/unicode.h"

namespace hyperion::data {
namespace {

using base::ConfigError;
using base::format;
using base::Path;
namespace fs = std::filesystem;

bool is_there(const Path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string ending_of(const Path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

bool is_image(const Path& path) {
  const std::string ending = ending_of(path);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_other_image(const Path& path) {
  const std::string ending = ending_of(path);
  for (const char* other : {".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl"})
    if (ending == other) return true;
  return false;
}

// "owl and 3 more are only in tv/train", of both.
std::string differing(const std::vector<std::string>& classes, const Path& folder,
                      const std::vector<std::string>& others) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> only;
  std::set_difference(classes.begin(), classes.end(), others.begin(), others.end(), std::back_inserter(only));
  if (only.empty()) return {};
  std::string names;
  for (size_t i = 0; i < std::min(only.size(), kNamed); ++i) names += (i > 0 ? ", " : "") + format("\"{}\"", only[i]);
  if (only.size() > kNamed) names += format(" and {} more", only.size() - kNamed);
  return format("; only {} has {}", folder.string(), names);
}

// Sorted by their bytes, without what is hidden.
std::vector<Path> children(const Path& folder, bool folders) {
  std::vector<Path> found;
  std::error_code ignored;  // of a link that leads nowhere
  for (const Path& path : base::real_files().list(folder))
    if (!path.filename().string().starts_with('.') && fs::is_directory(path, ignored) == folders) found.push_back(path);
  return found;
}

struct Line {
  int64_t number = 0;
  std::string text;
};

// The lines of a list that are not empty.
std::vector<Line> lines_of(const Path& file) {
  const std::string text = base::real_files().read(file);
  std::vector<Line> lines;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    ++number;
    if (!line.empty()) lines.push_back({number, std::move(line)});
    begin = end + 1;
  }
  if (lines.empty()) throw records::BadRecord(file.string(), 0, "an empty list");
  return lines;
}

std::vector<std::string> food_classes(const Path& meta) {
  std::vector<std::string> classes;
  std::set<std::string> seen;
  for (const Line& line : lines_of(meta / "classes.txt")) {
    if (text::valid_prefix(line.text) != line.text.size())
      throw records::BadRecord(
          (meta / "classes.txt").string(), line.number,
          format("class \"{}\" is not UTF-8: rename it, its folder too", records::shown_in_utf8(line.text)));
    if (line.text.find('/') != std::string::npos || line.text.starts_with('.'))
      throw records::BadRecord((meta / "classes.txt").string(), line.number,
                               format("\"{}\" is no name of a class", line.text));
    if (!seen.insert(line.text).second)
      throw records::BadRecord((meta / "classes.txt").string(), line.number,
                               format("class \"{}\" is listed twice", line.text));
    classes.push_back(line.text);
  }
  if (const Path labels = meta / "labels.txt"; is_there(labels))
    if (const size_t count = lines_of(labels).size(); count != classes.size())
      throw records::BadRecord(labels.string(), 0,
                               format("{} labels, and classes.txt has {} classes", count, classes.size()));
  return classes;
}

void check_not_empty(const ImageList& list, const Path& root) {
  if (list.files.empty())
    throw ConfigError(format("{} holds no images", root.string()),
                      "images lie in a folder for each class, as .jpg, .jpeg or .png");
}

// A link to the folder of classes itself, or to one that holds it, would make a class of all there is.
void refuse_loop(const Path& folder, const Path& root) {
  std::error_code error;
  if (!fs::is_symlink(folder, error)) return;
  const Path target = fs::canonical(folder, error), inside = fs::canonical(root, error);
  const auto end = std::mismatch(target.begin(), target.end(), inside.begin(), inside.end()).first;
  if (target.empty() || end != target.end()) return;
  throw ConfigError(format("{} is a link to {}, which holds it, and each folder beside it is a class",
                           records::shown_in_utf8(folder.native()), records::shown_in_utf8(target.native())),
                    "remove the link");
}

}  // namespace

ImageList list_class_folders(const Path& root) {
  ImageList list;
  for (const Path& folder : children(root, true)) {
    records::check_utf8_path(folder);
    refuse_loop(folder, root);
    const auto label = static_cast<int64_t>(list.classes.size());
    list.classes.push_back(folder.filename().string());
    const size_t before = list.files.size();
    for (const Path& file : children(folder, false)) {
      if (is_image(file)) list.files.push_back({file, label});
      if (is_other_image(file)) list.passed_over.push_back(file);
    }
    if (list.files.size() == before)
      throw ConfigError(format("{} holds no images, and each folder beside it is a class", folder.string()),
                        list.passed_over.empty() || list.passed_over.back().parent_path() != folder
                            ? "put its .jpg, .jpeg or .png files there, or take the folder away"
                            : format("{} and its like are neither JPEG nor PNG: convert them",
                                     list.passed_over.back().filename().string()));
  }
  check_not_empty(list, root);
  return list;
}

ImageList list_food101(const Path& root, const std::string& part, records::BadRecords* bad) {
  const Path meta = root / "meta", names = meta / (part + ".txt");
  ImageList list;
  list.classes = food_classes(meta);
  std::map<std::string, int64_t> labels;
  std::vector<std::set<std::string>> there(list.classes.size());  // of each class, listed once: no look at every file
  for (size_t label = 0; label < list.classes.size(); ++label) {
    labels[list.classes[label]] = static_cast<int64_t>(label);
    for (const Path& file : children(root / "images" / list.classes[label], false))
      there[label].insert(file.filename().string());
  }
  for (const Line& line : lines_of(names)) {
    const size_t slash = line.text.find('/');
    const auto label = labels.find(line.text.substr(0, slash));
    const std::string file = slash == std::string::npos ? "" : line.text.substr(slash + 1) + ".jpg";
    std::string why;
    if (slash == std::string::npos)
      why = format("\"{}\" is not CLASS/NAME", records::shown_in_utf8(line.text));
    else if (label == labels.end())
      why = format("class \"{}\" is not in classes.txt", records::shown_in_utf8(line.text.substr(0, slash)));
    else if (!there[label->second].contains(file))
      why = format("images/{}/{} is not there", label->first, records::shown_in_utf8(file));
    else
      list.files.push_back({root / "images" / label->first / file, label->second});
    if (why.empty()) continue;
    const records::BadRecord record(names.string(), line.number, why);
    if (bad == nullptr) throw record;
    bad->add(record);
  }
  return list;
}

ImageSplit list_images(const Path& root, double validation, records::BadRecords* bad) {
  if (!is_there(root))
    throw ConfigError(format("the folder {} does not exist", root.string()), "name the folder of images");
  if (is_there(root / "meta" / "classes.txt"))
    return {list_food101(root, "train", bad), list_food101(root, "test", bad)};
  if (is_there(root / "train")) {
    for (const char* name : {"val", "validation", "test"}) {
      if (!is_there(root / name)) continue;
      ImageSplit split{list_class_folders(root / "train"), list_class_folders(root / name)};
      if (split.train.classes != split.validation.classes)
        throw ConfigError(format("{} and {} have other classes{}{}", (root / "train").string(), (root / name).string(),
                                 differing(split.train.classes, root / "train", split.validation.classes),
                                 differing(split.validation.classes, root / name, split.train.classes)),
                          "each class needs a folder of the same name in both");
      return split;
    }
    throw ConfigError(format("{} has a folder train, but none named val, validation or test", root.string()),
                      "add one, or name the folder train itself: a part of it is held out");
  }
  ImageList all = list_class_folders(root);
  ImageSplit split{{all.classes, {}, std::move(all.passed_over)}, {all.classes, {}}};
  for (size_t begin = 0, end = 0; begin < all.files.size(); begin = end) {
    while (end < all.files.size() && all.files[end].label == all.files[begin].label) ++end;
    const auto count = static_cast<int64_t>(end - begin);
    const auto held_out = static_cast<int64_t>(std::llround(static_cast<double>(count) * validation));
    for (int64_t i = 0; i < count; ++i) {
      const bool out = shuffled(i, count, 0, all.files[begin].label) < held_out;
      (out ? split.validation : split.train).files.push_back(std::move(all.files[begin + i]));
    }
  }
  check_not_empty(split.train, root);
  if (split.validation.files.empty())
    throw ConfigError(format("{} has too few images to hold out {} of each class", root.string(), validation),
                      "raise prepare.validation (data.validation where nothing is prepared), or keep validation images "
                      "in a folder val beside train");
  return split;
}

std::string passed_over_text(const ImageSplit& split) {
  const auto &here = split.train.passed_over, &there = split.validation.passed_over;
  const size_t count = here.size() + there.size();
  if (count == 0) return {};
  return format("{} {} neither JPEG nor PNG and {} passed over (the first: {})", count,
                count == 1 ? "file is" : "files are", count == 1 ? "is" : "are",
                records::shown_in_utf8((here.empty() ? there : here).front().native()));
}

}  // namespace hyperion::data
