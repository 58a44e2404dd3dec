#include <CLI/CLI.hpp>
#include <cstdio>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/meter.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/hub/fetch.h"

namespace hyperion::cli {
namespace {

struct FetchOptions {
  std::string name;
  std::vector<std::string> only;
  bool set = false, allow_http = false;
};

constexpr size_t kShownDigits = 12;

int fetch_command(const FetchOptions& options) {
  const auto repo = hub::parse_repo(options.name, options.set ? hub::RepoKind::set : hub::RepoKind::model);
  if (!repo)
    throw base::ConfigError(base::format("\"{}\" is no name of a repository of the hub", options.name),
                            "write OWNER/NAME or OWNER/NAME@REVISION, such as Qwen/Qwen2.5-0.5B");
  Meter meter;
  const auto fetched = hub::fetch(base::real_files(), {*repo, options.only, options.allow_http},
                                  [&](const hub::FetchProgress& progress) {
                                    meter.show("fetching", progress.bytes, progress.bytes_in_all, "  " + progress.file);
                                  });
  meter.clear();
  base::log_info(base::format("{} at {}: {} files, {}{}", repo->name, fetched.commit.substr(0, kShownDigits),
                              fetched.files, base::bytes_text(fetched.bytes),
                              fetched.bytes_fetched == 0 ? ", all there already" : ""));
  std::printf("%s\n", fetched.snapshot.c_str());
  return 0;
}

}  // namespace

void add_fetch_command(Commands& commands) {
  const auto add_flags = [](CLI::App* fetch, FetchOptions& options) {
    fetch->add_option("NAME", options.name, "OWNER/NAME, or OWNER/NAME@REVISION: a branch, a tag or a commit")
        ->required()
        ->check(not_empty());
    fetch->add_flag("--set", options.set, "a data set, not a model");
    fetch
        ->add_option("--only", options.only,
                     "fetch only files whose name fits a pattern, such as 'data/train-*'; may be given again")
        ->allow_extra_args(false)
        ->check(not_empty());
    fetch->add_flag(
        "--allow-http", options.allow_http,
        "take http://, not only https://, also from another machine: the token and the files then travel in "
        "the open");
    fetch->footer(
        "\nExamples:\n  hyperion fetch Qwen/Qwen2.5-0.5B && hyperion generate Qwen/Qwen2.5-0.5B --prompt 'The sky is'\n"
        "  hyperion fetch --set Salesforce/wikitext --only 'wikitext-2-raw-v1/*'\n\nPrints the folder. Stopped or "
        "killed, "
        "the same command goes on where it was. Environment: HF_TOKEN (else the file HF_HOME/token), HF_ENDPOINT, "
        "HF_HUB_CACHE or HF_HOME: where the cache lies.");
  };
  commands.add<FetchOptions>("fetch", "bring a model or a data set of the hub into Hugging Face's cache", add_flags,
                             fetch_command);
}

}  // namespace hyperion::cli
