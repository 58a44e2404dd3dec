#include "hyperion/base/stop_file.h"

#include <csignal>

#include "hyperion/base/log.h"

namespace hyperion::base {

void heed_stop_file(FileSystem& files, const Path& run) {
  const Path path = run / kStopFile;
  if (!files.exists(path)) return;
  files.remove_all(path);  // it is answered, and does not stop the run again once that goes on
  log_info(path.string() + " asks the run to stop");
  ::raise(SIGUSR1);
}

}  // namespace hyperion::base
