#include "hyperion/cli/launch_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/other_words.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/comm/meeting.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/restartable.h"
#include "hyperion/command/usage.h"
#include "hyperion/host/addresses.h"
#include "hyperion/host/cores.h"
#include "hyperion/host/launch.h"
#include "hyperion/host/programs.h"
#include "hyperion/host/system_files.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/resilience/job_templates.h"
#include "hyperion/resilience/launcher.h"
#include "hyperion/resilience/node_agent.h"

namespace hyperion::cli {

using base::format;

namespace {

// What a run's folder, a SLURM job and a Kubernetes object may all be called.
CLI::Validator plain_name() {
  const auto check = [](std::string& text) -> std::string {
    const bool fine = !text.empty() && text.size() <= 40 && text.front() >= 'a' && text.front() <= 'z' &&
                      text.back() != '-' &&
                      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
    return fine ? "" : format("\"{}\" is not a letter and at most 39 small letters, digits and hyphens", text);
  };
  return {check, "", "name"};
}

// Nothing that would mean something else in YAML.
CLI::Validator image_name() {
  const auto check = [](std::string& text) -> std::string {
    const auto plain = [](unsigned char c) { return std::isalnum(c) || std::strchr("._-/:@", c) != nullptr; };
    const bool fine = !text.empty() && std::isalnum(static_cast<unsigned char>(text.front())) && text.back() != ':' &&
                      std::all_of(text.begin(), text.end(), plain);
    return fine ? "" : format("\"{}\" is not a container's image, such as registry/hyperion:1.0", text);
  };
  return {check, "", "image"};
}

// CLI11 knows nothing of what follows --.
class LaunchHelp final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string name) const override {
    return format("Usage: {} [OPTIONS] -- COMMAND [ARGUMENTS]\n", name);
  }
  // Without the list of flags that each one excludes: a refusal names them.
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
};

}  // namespace

namespace {

void add_launch_flags(CLI::App* launch, LaunchOptions& options) {
  launch->formatter(std::make_shared<LaunchHelp>());
  launch->add_option("-n,--ranks", options.ranks, "processes to start, on all machines together")
      ->check(whole_number(1, 65536));
  auto* emit = launch
                   ->add_option("--emit", options.emit,
                                "slurm, jobset or pytorchjob: print the job for that scheduler, and start nothing")
                   ->check(one_of({"slurm", "jobset", "pytorchjob"}));
  launch->add_option("--node-count", options.node_count, "machines that each start `launch` for their share of -n")
      ->check(whole_number(1, 65536));
  const std::vector<CLI::Option*> of_a_start{
      launch
          ->add_option("--show", options.show,
                       "rank0: what rank 0 prints (the default); all: every line behind its rank; none")
          ->check(one_of({"rank0", "all", "none"})),
      launch->add_option("--logs", options.logs,
                         "folder for what ranks print (default: launch and time, among the runs)"),
      launch
          ->add_option("--bind", options.bind,
                       "gpu: each rank gets cores of its own, of its GPU's NUMA node; cores: by NUMA node; none; auto "
                       "(the default): gpu where there are as many GPUs as ranks here, else cores")
          ->check(one_of({"auto", "gpu", "cores", "none"})),
      launch->add_option("--nodes", options.nodes, "host:slots,host:slots: machines that ssh reaches, filled in order"),
      launch
          ->add_option("--listen", options.listen,
                       "address where ranks meet (default 127.0.0.1; to be told with --nodes)")
          ->check(not_empty()),
      launch->add_option("--port", options.port, "its port (default: a free one)")->check(whole_number(0, 65535)),
      launch->add_option("--ssh", options.ssh, "the remote shell and its flags (default: ssh -o BatchMode=yes)")
          ->check(not_empty()),
      launch->add_option("--node-rank", options.node_rank, "of --node-count machines which one this is, from 0")
          ->check(whole_number(0, 65535)),
      launch->add_option("--master", options.master, "HOST:PORT of the first of them, where all ranks meet")
          ->check(not_empty()),
      launch
          ->add_option("--restarts", options.restarts,
                       "start a job that failed again, at most so often; a training run goes on from its newest "
                       "checkpoint (default 0)")
          ->check(whole_number(0, 1'000'000)),
      launch
          ->add_option("--back-off", options.back_off,
                       "seconds before that (default 1), doubled up to 60 while the job gets no further")
          ->check(number(0, 1e6)),
      launch
          ->add_option(
              "--frozen-seconds", options.frozen_seconds,
              "a rank that is stopped or silent this long ends the job (default 30; 0: never); with --restarts "
              "one that is stopped after three of the run's slowest steps, and 2 s at least")
          ->check(number(0, 1e6))};
  for (auto* option : of_a_start) option->excludes(emit);
  launch->add_option("--name", options.name, "--emit: name of the job (default hyperion)")
      ->check(plain_name())
      ->needs(emit);
  launch->add_option("--image", options.image, "--emit: the container's image (default hyperion:latest)")
      ->check(image_name())
      ->needs(emit);
  launch->add_option("--gpus-per-node", options.gpus_per_node, "--emit: GPUs to ask for (default: one a rank; 0: none)")
      ->check(whole_number(0, 1024))
      ->needs(emit);
  launch->add_flag("--agent", options.agent, "start what stdin tells: how launch calls itself elsewhere")->group("");
  launch->footer(
      "\nAfter -- comes a command of hyperion, or any program. Ranks find RANK, WORLD_SIZE, LOCAL_RANK,\n"
      "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set, and OMP_NUM_THREADS to their share of the cores.\n"
      "The first rank that fails ends the others within 5 s; its code is the job's.\n"
      "Ctrl-C and SIGTERM go to all ranks: a training run saves its state.\n"
      "With --restarts a job that failed comes back by itself, and the same command goes on with its run:\n"
      "`train` has --or-resume then.\n"
      "A job that --emit printed goes on where it was when it is started again: `train --or-resume`.\n\n"
      "Examples:\n"
      "  hyperion launch -n 4 -- train recipes/quickstart.toml --run mine\n"
      "  hyperion launch -n 4 -- train recipes/quickstart.toml --parallel pp=2,tp=2 --train.accumulate=4\n"
      "  hyperion launch -n 4 --restarts 20 -- train recipes/quickstart.toml --run mine\n"
      "  hyperion launch -n 2 --show all -- sh -c 'echo I am $RANK of $WORLD_SIZE'\n"
      "  hyperion launch --nodes gpu07:4,gpu08:4 --listen gpu07 -- train recipes/quickstart.toml\n"
      "  hyperion launch --emit slurm -n 8 --node-count 2 -- train recipe.toml > job.sh && sbatch job.sh");
}

}  // namespace

void add_launch_command(Commands& commands, std::vector<std::string> launched) {
  LaunchOptions options;
  options.command = std::move(launched);
  commands.add(
      "launch", "run a command as several ranks that end as one", add_launch_flags,
      [&commands](const LaunchOptions& given) { return launch_command(given, commands.names()); }, options);
}

std::vector<std::string> take_launched_command(int& argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "launch") != 0) return {};
  char** const end = argv + argc;
  char** const mark = std::find_if(argv, end, [](const char* word) { return std::strcmp(word, "--") == 0; });
  if (mark == end) return {};
  argc = static_cast<int>(mark - argv);
  return {mark + 1, end};
}

namespace {

int emit(const LaunchOptions& options, bool foreign) {
  if (options.ranks == 0 || options.ranks % options.node_count != 0)
    throw base::ConfigError("--emit needs -n, the ranks of the whole job, as a multiple of --node-count", "add -n 8");
  resilience::JobTemplate job;
  job.name = options.name, job.image = options.image;
  job.command = options.command, job.foreign = foreign;
  job.nodes = static_cast<int>(options.node_count);
  job.ranks_per_node = static_cast<int>(options.ranks / options.node_count);
  job.gpus_per_node = options.gpus_per_node < 0 ? job.ranks_per_node : static_cast<int>(options.gpus_per_node);
  std::fputs((options.emit == "slurm"    ? resilience::slurm_script(job)
              : options.emit == "jobset" ? resilience::jobset_manifest(job)
                                         : resilience::pytorchjob_manifest(job))
                 .c_str(),
             stdout);
  return 0;
}

// --node-count, --node-rank and --master: all of them or none.
void read_share(const LaunchOptions& options, resilience::LaunchPlan& plan) {
  const bool shared = options.node_count > 1 || options.node_rank >= 0 || !options.master.empty();
  if (!shared) return;
  const auto master = host::parse_host_port(options.master);
  if (!master || options.node_rank < 0 || options.node_rank >= options.node_count)
    throw base::ConfigError("a launcher of several needs --node-count, a --node-rank below it, and --master HOST:PORT",
                            "hyperion launch -n 8 --node-count 2 --node-rank 0 --master gpu07:29500 -- ...");
  if (!options.nodes.empty())
    throw base::ConfigError("--nodes and --node-count contradict each other",
                            "--nodes starts ranks on other machines; with --node-count each starts its own");
  plan.node_count = static_cast<int>(options.node_count), plan.node = static_cast<int>(options.node_rank);
  plan.master = master->host, plan.port = master->port;
}

}  // namespace

namespace {

bool is_program(const std::string& word) {
  if (word.find('/') != word.npos) return true;  // who starts it will see
  const char* path = std::getenv("PATH");
  const auto folders = host::split(path != nullptr ? path : "", ':');
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return ::access((folder + "/" + word).c_str(), X_OK) == 0; });
}

void refuse_slip(const std::string& word, const std::vector<std::string>& commands) {
  const std::string near = base::nearest(word, commands.data(), commands.data() + commands.size());
  const std::string meant = base::command_hint(word);
  if ((!near.empty() || !meant.empty()) && !is_program(word))
    throw base::ConfigError(format("{} is neither a command of hyperion nor a program here", word),
                            meant.empty() ? format("did you mean {}?", near) : meant);
}

void allow_restarts(const LaunchOptions& options, resilience::LaunchPlan& plan) {
  plan.restarts.most = static_cast<int>(options.restarts);
  plan.restarts.first_wait = options.back_off;
  plan.restarts.longest_wait = std::max(plan.restarts.longest_wait, options.back_off);
  auto job = restartable(plan.command, base::real_clock().unix_seconds());
  if (plan.node_count > 1 && job.named_here)
    throw base::ConfigError("launchers on several machines cannot each think of a name for the run",
                            "name it: -- train recipe.toml --run mine");
  plan.command = std::move(job.command);
  if (job.run && options.frozen_seconds < 0) plan.slow_step = [run = *job.run] { return slow_step(run); };
  if (job.run) plan.standing = [run = *job.run] { return resilience::Standing{saved_step(run), reached_step(run)}; };
}

}  // namespace

int launch_command(const LaunchOptions& options, const std::vector<std::string>& commands) {
  if (options.agent) return resilience::run_node_agent(STDIN_FILENO, STDOUT_FILENO);
  if (options.command.empty())
    throw base::ConfigError("`hyperion launch` needs a command",
                            "write it after --: hyperion launch -n 4 -- train recipes/quickstart.toml");
  if (options.ranks == 0 && options.nodes.empty())
    throw base::ConfigError("`hyperion launch` needs to know how many ranks", "add -n 4");
  const bool ours = std::find(commands.begin(), commands.end(), options.command[0]) != commands.end();
  if (!ours) refuse_slip(options.command[0], commands);
  if (options.command[0] == "export")
    throw base::ConfigError("`hyperion export` is one process, and each rank of a launch would write the same folder",
                            "run it without launch, also of a run of many ranks");
  // A job finds the program on its own machines; what it runs must be known for it to go on after a restart.
  const bool whole = base::Path(options.command[0]).filename() == "hyperion" && options.command.size() > 1;
  if (!options.emit.empty() && whole)
    throw base::ConfigError(
        format("--emit puts hyperion before the command itself, and {} is it again", options.command[0]),
        format("write -- {} ...", options.command[1]));
  if (!options.emit.empty()) return emit(options, !ours);
  resilience::LaunchPlan plan;
  if (!options.nodes.empty()) plan.nodes = resilience::parse_nodes(options.nodes);
  plan.listen = options.listen;
  plan.port = static_cast<int>(options.port);
  plan.remote_shell = host::split(options.ssh, ' ');
  plan.ranks = static_cast<int>(options.ranks);
  read_share(options, plan);
  plan.command = options.command;
  if (ours) plan.command.insert(plan.command.begin(), host::own_program());
  plan.job = format("launch-{}-{}", base::file_stamp(base::real_clock().unix_seconds()), ::getpid());
  plan.logs = options.logs.empty() ? interop::runs_folder() / plan.job : base::Path(options.logs);
  plan.show = options.show == "all"    ? resilience::Show::all
              : options.show == "none" ? resilience::Show::none
                                       : resilience::Show::rank0;
  plan.bind = options.bind;
  if (options.frozen_seconds >= 0) plan.limits.frozen_seconds = options.frozen_seconds;
  plan.resumable = trains_a_run(plan.command);
  if (options.restarts > 0) allow_restarts(options, plan);
  return resilience::launch(plan);
}

void add_rank_flags(CLI::App* command, host::RankFlags& flags) {
  command->add_option("--rank", flags.rank, "this process's rank, without a launcher (beats its variables)")
      ->check(not_empty());
  command->add_option("--world-size", flags.world, "how many ranks there are")->check(not_empty());
  command->add_option("--local-rank", flags.local_rank, "this process's number on its machine (default: the rank)")
      ->check(not_empty());
  command->add_option("--master", flags.master, "HOST:PORT where rank 0 lets the others meet")->check(not_empty());
}

void add_rendezvous_command(Commands& commands) {
  const auto add_flags = [](CLI::App* rendezvous, RendezvousOptions& options) {
    rendezvous->add_option("--timeout", options.timeout, "seconds to wait for the others (default 60)")
        ->check(number(0.001, 1e6));
    rendezvous->add_option("--hold", options.hold, "seconds to stay after that (default 0)")->check(number(0, 1e6));
    rendezvous->add_flag("--json", options.json, "as JSON");
    add_rank_flags(rendezvous, options.rank);
    rendezvous->footer(
        "\nExamples:\n  hyperion launch -n 4 -- rendezvous\n  srun -N 2 -n 8 hyperion rendezvous\n  mpirun -n 4 "
        "hyperion "
        "rendezvous\n  torchrun --no-python --nproc-per-node 4 hyperion rendezvous");
  };
  commands.add<RendezvousOptions>("rendezvous", "meet all ranks of this job once, add up a number, say who came",
                                  add_flags, rendezvous_command);
}

namespace {

std::string meeting_json(const host::Launch& launch, const comm::Meeting& meeting) {
  base::Json json{{"launcher", launcher_name(launch.launcher)}, {"world", launch.world}, {"seconds", meeting.seconds}};
  for (const auto& member : meeting.members)
    json["members"].push_back({{"rank", member.rank},
                               {"local_rank", member.local_rank},
                               {"host", member.host},
                               {"process", member.process},
                               {"cores", member.cores}});
  return json.dump(2) + "\n";
}

std::string meeting_table(const host::Launch& launch, const comm::Meeting& meeting) {
  std::string text = format("started by {}; {} ranks met in {:.2f} s and their sum is right\n", launch.text(),
                            meeting.members.size(), meeting.seconds);
  for (const auto& member : meeting.members)
    text += format("rank {:<4} local rank {:<3} {}  process {}  cores {}\n", member.rank, member.local_rank,
                   member.host, member.process, host::cores_text(member.cores));
  return text;
}

}  // namespace

int rendezvous_command(const RendezvousOptions& options) {
  const auto launch = host::find_launch();
  base::configure_log({base::LogLevel::info, launch.rank});
  if (!launch.note.empty()) base::log_warn(launch.note);
  const auto meeting = comm::meet(launch, std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000)));
  if (launch.rank == 0)
    std::fputs((options.json ? meeting_json(launch, meeting) : meeting_table(launch, meeting)).c_str(), stdout);
  else
    std::printf("%s: met\n", launch.text().c_str());
  std::fflush(stdout);
  for (const double end = base::real_clock().seconds() + options.hold; base::real_clock().seconds() < end;) {
    base::throw_if_stopped("holding the meeting");
    ::usleep(20'000);
  }
  return 0;
}

}  // namespace hyperion::cli
