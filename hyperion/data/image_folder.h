// Folders of images as people keep them: which files there are, and what each shows. Errors name the file, and the line
// of a list.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/records/bad_records.h"

namespace hyperion::data {

struct ImageFile {
  base::Path path;
  int64_t label = 0;
};

struct ImageList {
  std::vector<std::string> classes;          // by label
  std::vector<ImageFile> files;              // in a fixed order: by class, then by name, or as the list has them
  std::vector<base::Path> passed_over = {};  // images of class folders that are neither JPEG nor PNG
};

// root/<class>/<any>.jpg, .jpeg or .png, in any case; classes sorted by the bytes of their names.
ImageList list_class_folders(const base::Path& root);

// Food-101's folders: images/<class>/<id>.jpg, meta/classes.txt, and `part`.txt in meta ("train" or "test") with a line
// <class>/<id> for each image. meta/labels.txt, the classes for people to read, must have as many lines where it is
// there.
// A line that names no image goes to `bad`, which may throw; without one it is thrown here.
ImageList list_food101(const base::Path& root, const std::string& part, records::BadRecords* bad = nullptr);

struct ImageSplit {
  ImageList train, validation;
};
// What kind of folder it is, is seen from what it holds: meta/classes.txt (Food-101); the folders train and val,
// validation or test, with the same classes; else class folders, of which the part `validation` is held out, in each
// class as much.
ImageSplit list_images(const base::Path& root, double validation, records::BadRecords* bad = nullptr);

// How many images of such a split cannot be read, and the first of them; empty where there are none.
std::string passed_over_text(const ImageSplit& split);

}  // namespace hyperion::data
