// The secret that the processes of one job share. It travels by environment, never on a command line.
#pragma once
#include <string>

namespace hyperion::comm {

constexpr const char* kSecretVariable = "HYPERION_JOB_SECRET";

std::string new_job_secret();  // 64 hexadecimal digits

// What the ends of a connection prove to know: the secret mixed with the job's name, so that two jobs with one secret
// do not take each other's ranks for their own.
std::string job_key(const std::string& secret, const std::string& job);

// HYPERION_JOB_SECRET; else, for jobs that another launcher started without one,
// this user's own, made at first need:
// ~/.config/hyperion/job_secret (or under XDG_CONFIG_HOME), readable by nobody else, and known on every machine that
// shares the home folder. Throws ConfigError where it is too short or can be read by others.
std::string find_job_secret();

// The key of a job with that secret.
inline std::string find_job_key(const std::string& job) { return job_key(find_job_secret(), job); }

}  // namespace hyperion::comm
