// Where a bench or a check keeps its files.
#pragma once
#include <string>

#include "hyperion/base/files.h"

namespace hyperion::cli {

// The folder that was given, or one beside the runs, named by the bench and the second, that no other run of it has,
// even if both begin in the same second. Made at once: a place that cannot be written fails before minutes of work.
// Gone again where nothing came to lie in it, as when the work is refused or interrupted.
class ResultFolder {
 public:
  ResultFolder(const std::string& name, const std::string& given);
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;
  ResultFolder& operator=(const ResultFolder&) = delete;
  const base::Path& path() const { return path_; }

 private:
  bool was_there_;
  base::Path path_;
};

}  // namespace hyperion::cli
