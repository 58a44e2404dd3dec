#include "hyperion/resilience/job_templates.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "hyperion/base/format.h"
#include "hyperion/resilience/container_argument.h"
#include "hyperion/resilience/remote_ranks.h"

namespace hyperion::resilience {
namespace {

using base::format;

bool is_plain(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + (is_plain(word) ? word : shell_quoted(word));
  return line;
}

bool has_flag(const std::vector<std::string>& words, const std::string& flag) {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
}

// Whether the job, started again, goes on where it was.
bool goes_on(const JobTemplate& job) {
  return !job.foreign && !job.command.empty() && (job.command[0] == "train" || job.command[0] == "resume");
}

// The command in the shell's words; a training run has a name, and is gone on with where it is there.
std::string restartable(const JobTemplate& job, const std::string& run) {
  std::string line = shell_line(job.command);
  if (!goes_on(job) || job.command[0] == "resume") return line;
  if (!has_flag(job.command, "--run")) line += " --run " + run;
  if (!has_flag(job.command, "--or-resume")) line += " --or-resume";
  return line;
}

using Fills = std::map<std::string, std::string>;  // mark -> what stands in its place

// What is filled in is not looked at again: it may hold a user's own words.
std::string filled(std::string_view text, const Fills& fills) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto mark = std::find_if(fills.begin(), fills.end(),
                                   [&](const auto& fill) { return text.substr(at).starts_with(fill.first); });
    out += mark == fills.end() ? std::string(1, text[at]) : mark->second;
    at += mark == fills.end() ? 1 : mark->first.size();
  }
  return out;
}

Fills facts(const JobTemplate& job) {
  return {{"@NAME@", job.name},
          {"@IMAGE@", job.image},
          {"@NODES@", std::to_string(job.nodes)},
          {"@RANKS_PER_NODE@", std::to_string(job.ranks_per_node)},
          {"@GPU_LIMIT@", job.gpus_per_node > 0 ? format("    nvidia.com/gpu: {}\n", job.gpus_per_node) : ""}};
}

const char* const kSlurm = R"(#!/bin/bash
# Submit with sbatch. Made by `hyperion launch --emit slurm`, whose flags change it.
#SBATCH --job-name=@NAME@
#SBATCH --nodes=@NODES@
#SBATCH --ntasks-per-node=@RANKS_PER_NODE@
@GPU_LINE@#SBATCH --time=24:00:00
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
@SIGNAL_LINES@set -uo pipefail

# Only ranks that know it can join; srun hands it to them.
HYPERION_JOB_SECRET=$(head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \n')
export HYPERION_JOB_SECRET

srun --kill-on-bad-exit=1 @WORDS@
@REQUEUE@)";

const char* const kSlurmRequeue = R"(code=$?

# 75: stopped after a good checkpoint, by preemption or because the time was up. Back into the queue.
if [ $code = 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $code
)";

const char* const kPodParts = R"(resources:
  limits:
@GPU_LIMIT@    memory: 64Gi
volumeMounts:
- {name: runs, mountPath: /runs}
- {name: shm, mountPath: /dev/shm}
)";

const char* const kVolumes = R"(volumes:
- name: runs  # shared by all pods: runs, their checkpoints, the recipe and the data
  persistentVolumeClaim: {claimName: @NAME@-runs}
- name: shm
  emptyDir: {medium: Memory}
)";

const char* const kSecretNote = R"note(# Only pods that know the job's secret can join. Make it once, before the job:
#   kubectl create secret generic @NAME@-secret --from-literal=secret="$(head -c 32 /dev/urandom | base64)"
)note";

const char* const kEnvironment = R"(- {name: HYPERION_RUNS, value: /runs}
- name: HYPERION_JOB_SECRET
  valueFrom: {secretKeyRef: {name: @NAME@-secret, key: secret}}
)";

const char* const kJobSet =
    R"(# Apply with kubectl. Made by `hyperion launch --emit jobset`, whose flags change it. Needs jobset.sigs.k8s.io.
@SECRET_NOTE@apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: @NAME@
spec:
  failurePolicy: {maxRestarts: 3}
  replicatedJobs:
  - name: node
    replicas: 1
    template:
      spec:
        completionMode: Indexed
        parallelism: @NODES@
        completions: @NODES@
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 120  # to write a checkpoint
            containers:
            - name: hyperion
              image: @IMAGE@
              workingDir: /runs
              command: ["sh", "-c"]
              args:
              - @SCRIPT@
              env:
@ENVIRONMENT@
@POD_PARTS@
@VOLUMES@)";

const char* const kPyTorchJob =
    R"(# Apply with kubectl. Made by `hyperion launch --emit pytorchjob`, whose flags change it. Needs Kubeflow's training operator.
@SECRET_NOTE@apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: @NAME@
spec:
  runPolicy: {backoffLimit: 3, cleanPodPolicy: None}
  pytorchReplicaSpecs:
@REPLICAS@)";

const char* const kReplica = R"(@ROLE@:
  replicas: @COUNT@
  restartPolicy: OnFailure
  template:
    spec:
      terminationGracePeriodSeconds: 120  # to write a checkpoint
      containers:
      - name: pytorch  # the operator knows it by this name
        image: @IMAGE@
        workingDir: /runs
        command: ["sh", "-c"]
        args:
        - @SCRIPT@
        env:
@ENVIRONMENT@
@POD_PARTS@
@VOLUMES@)";

// Without the newline at its end.
std::string indented(const std::string& text, size_t columns) {
  std::string out;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) out += std::string(columns, ' ');
    out += text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// The launcher of one pod, and what it starts.
std::string pod_script(const JobTemplate& job, const std::string& node, const std::string& master) {
  return container_argument(
      format("exec hyperion launch -n {} --node-count {} --node-rank {} --master {} --listen 0.0.0.0 -- {}",
             job.nodes * job.ranks_per_node, job.nodes, node, master, restartable(job, job.name)));
}

}  // namespace

std::string slurm_script(const JobTemplate& job) {
  const std::string signals =
      "# Two minutes before the end: the run writes a checkpoint and leaves with 75. Started again, it goes on from "
      "there.\n#SBATCH --signal=USR1@120\n#SBATCH --requeue\n";
  auto fills = facts(job);
  fills["@GPU_LINE@"] = job.gpus_per_node > 0 ? format("#SBATCH --gpus-per-node={}\n", job.gpus_per_node) : "";
  fills["@SIGNAL_LINES@"] = goes_on(job) ? signals : "";
  fills["@REQUEUE@"] = goes_on(job) ? kSlurmRequeue : "";
  fills["@WORDS@"] = (job.foreign ? "" : "hyperion ") + restartable(job, format("\"{}-$SLURM_JOB_ID\"", job.name));
  return filled(kSlurm, fills);
}

std::string jobset_manifest(const JobTemplate& job) {
  auto fills = facts(job);
  const auto part = [&](const char* text, size_t columns) { return indented(filled(text, fills), columns); };
  fills["@SECRET_NOTE@"] = filled(kSecretNote, fills);
  fills["@ENVIRONMENT@"] = part(kEnvironment, 14);
  fills["@POD_PARTS@"] = part(kPodParts, 14);
  fills["@VOLUMES@"] = part(kVolumes, 12) + "\n";
  fills["@SCRIPT@"] = pod_script(job, "$JOB_COMPLETION_INDEX", format("{}-node-0-0.{}:29500", job.name, job.name));
  return filled(kJobSet, fills);
}

std::string pytorchjob_manifest(const JobTemplate& job) {
  auto fills = facts(job);
  const auto part = [&](const char* text, size_t columns) { return indented(filled(text, fills), columns); };
  fills["@SECRET_NOTE@"] = filled(kSecretNote, fills);
  fills["@ENVIRONMENT@"] = part(kEnvironment, 8);
  fills["@POD_PARTS@"] = part(kPodParts, 8);
  fills["@VOLUMES@"] = part(kVolumes, 6) + "\n";
  // The operator tells each pod which one it is, in torchrun's names.
  fills["@SCRIPT@"] = pod_script(job, "$RANK", "$MASTER_ADDR:$MASTER_PORT");
  const auto replica = [&](const char* role, int count) {
    fills["@ROLE@"] = role, fills["@COUNT@"] = std::to_string(count);
    return part(kReplica, 4) + "\n";
  };
  fills["@REPLICAS@"] = replica("Master", 1) + (job.nodes > 1 ? replica("Worker", job.nodes - 1) : "");
  return filled(kPyTorchJob, fills);
}

}  // namespace hyperion::resilience
