// A run in a program of one's own: own_run RECIPE NAME begins it, and goes on with it where it is there. As `hyperion
// train` it keeps checkpoints, metrics and a report, stops at Ctrl-C without losing a step, and is one of several
// processes where `hyperion launch` started it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/signals.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/train/session.h"

using namespace hyperion;

int train_or_resume(const base::Path& recipe, const std::string& name) {
  train::RunConfig config;
  auto settings = train::bind(config);
  settings.read_toml(base::real_files().read(recipe), recipe);
  settings.read_environment(::environ);
  const train::Session session{config, settings};
  const base::Path run = interop::runs_folder() / name;
  if (interop::is_run(base::real_files(), run))
    train::resume_run(session, run, train::HeldRun(run, session.launch));
  else
    train::begin_run(session, name, /*numbered=*/false, recipe);
  return 0;
}

int main(int argc, char** argv) {
  int code = 2;
  base::watch_stop_signals();
  try {
    if (argc == 3)
      code = train_or_resume(argv[1], argv[2]);
    else
      std::fputs("usage: own_run RECIPE NAME\n", stderr);
  } catch (const base::Error& error) {
    std::fputs(base::error_text(error).c_str(), stderr);
    code = error.exit_code();
  }
  std::quick_exit(code);  // LibTorch's static destructors are not safe beside CUDA's
}
