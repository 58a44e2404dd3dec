// A job written down for a scheduler: what `hyperion launch --emit` prints. script/slurm/ and deploy/kubernetes/ hold
// examples of each, which a test keeps equal to what is printed.
#pragma once
#include <string>
#include <vector>

namespace hyperion::resilience {

struct JobTemplate {
  std::string name = "hyperion";      // of the job, and of its run
  int nodes = 1, ranks_per_node = 1;  // one GPU a rank
  int gpus_per_node = 0;              // 0: none are asked for
  std::string image = "hyperion:latest";
  std::vector<std::string> command;  // of hyperion: train recipe.toml
  bool foreign = false;              // it is another program's
};

// A training run gets a name and --or-resume, so that a job that is started again goes on with it.
std::string slurm_script(const JobTemplate& job);
std::string jobset_manifest(const JobTemplate& job);      // Kubernetes, with jobset.sigs.k8s.io
std::string pytorchjob_manifest(const JobTemplate& job);  // Kubernetes, with Kubeflow's training operator

}  // namespace hyperion::resilience
