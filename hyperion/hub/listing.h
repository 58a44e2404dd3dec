// What a repository holds, as the hub tells it, and what of it is of use here.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/hub/http.h"
#include "hyperion/hub/repo.h"

namespace hyperion::hub {

struct RemoteFile {
  std::string name;  // a path below the repository that is safe to write (is_safe_file_name)
  uint64_t size = 0;
  std::string hash;  // hub/blob_hash.h; empty until it is asked for
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};

// Throws ConfigError where the hub has no such repository or revision, or wants a token for it; CorruptError where what
// it tells cannot be.
Listing list_repo(const HttpClient& client, const Repo& repo);

// Size and hash from the file's own address, where the listing had none.
void ask_of_file(const HttpClient& client, const Repo& repo, const std::string& commit, RemoteFile& file);

std::string file_address(const HttpClient& client, const Repo& repo, const std::string& commit,
                         const std::string& name);

// Throws for an answer that is not 2xx; NetworkError where another try may help.
void expect_good(const Response& response, const HttpClient& client, const Repo& repo, const std::string& what);

// Of a model: safetensors, configuration, tokenizer and chat template, from its top folder. Of a set: files of records.
// Never a pickle: where a model has its weights in nothing else, a ConfigError. `only`: patterns of names (fnmatch), of
// which one must fit; empty: all.
std::vector<RemoteFile> wanted_files(const Repo& repo, const std::vector<RemoteFile>& files,
                                     const std::vector<std::string>& only);

}  // namespace hyperion::hub
