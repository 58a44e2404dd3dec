// `hyperion launch --emit jobset|pytorchjob`: a user's words arrive in the pod as they are, and mean nothing on the
// way.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::read_file;
using testing::run;
using testing::Scratch;

const std::vector<std::string> kWords{
    "x\r              securityContext: {privileged: true}\r              #",
    "x\u0085            securityContext: {privileged: true}",
    "x\u2028            securityContext: {privileged: true}\u2029#",
    "two\nlines\n\n  and more",
    "\x01\x1b[2J\x7f\u009b tab\t",
    "@NAME@ @IMAGE@ @SCRIPT@ @COUNT@",
    "$(HYPERION_RUNS) $$(HYPERION_RUNS) $$ $HOME ${HOME} $ $(",
    "it's \"quoted\" \\ 'twice' \u00fc \u4e2d \U0001f600 \ufeff",
    " : - # & * ! | > % @ `",
};

Finished emit(const Scratch& scratch, const std::string& kind, const std::string& word) {
  return run(scratch, {"launch", "--emit", kind, "-n", "8", "--node-count", "2", "--", "train", word});
}

// All but the lines that hold the user's words.
std::string frame_of(const std::string& manifest) {
  std::string frame;
  for (size_t start = 0; start < manifest.size();) {
    const size_t end = manifest.find('\n', start) + 1;
    if (manifest.substr(start, end - start).find("exec hyperion") == std::string::npos)
      frame += manifest.substr(start, end - start);
    start = end;
  }
  return frame;
}

TEST(EmitWords, change_nothing_else_in_a_manifest_and_leave_it_printable) {
  Scratch scratch;
  for (const char* kind : {"jobset", "pytorchjob"}) {
    const std::string frame = frame_of(emit(scratch, kind, "plain").out);
    for (const auto& word : kWords) {
      const Finished done = emit(scratch, kind, word);
      EXPECT_EQ(done.code, 0) << done.err;
      EXPECT_EQ(frame_of(done.out), frame) << word;
      EXPECT_EQ(done.out.find_first_of(std::string("\r\t\x01\x1b\x7f")), std::string::npos) << word;
      for (const char* end_of_line : {"\u0085", "\u009b", "\u2028", "\u2029", "\ufeff"})
        EXPECT_EQ(done.out.find(end_of_line), std::string::npos) << word;
    }
  }
}

// As Kubernetes does: reads the YAML, puts variables' values in place of $(NAME), starts the shell.
constexpr const char* kPod = R"pod(
import subprocess, sys, yaml

def expand(text, values):
    out, i = "", 0
    while i < len(text):
        following = text[i + 1:i + 2]
        close = text.find(")", i)
        if text[i] == "$" and following == "$":
            out, i = out + "$", i + 2
        elif text[i] == "$" and following == "(" and close > 0:
            name = text[i + 2:close]
            out, i = out + values.get(name, "$(" + name + ")"), close + 1
        else:
            out, i = out + text[i], i + 1
    return out

def containers(node):
    if isinstance(node, dict):
        yield from node.get("containers", [])
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from containers(one)

found = list(containers(yaml.safe_load(open(sys.argv[1], encoding="utf-8", newline=""))))
assert found, "no container"
for container in found:
    assert "securityContext" not in container, container
    assert container["command"] == ["sh", "-c"] and len(container["args"]) == 1, container
    line = expand(container["args"][0], {"HYPERION_RUNS": "/runs"})
    subprocess.run(["sh", "-c", line.encode("utf-8")], check=True)
)pod";

TEST(EmitWords, arrive_in_the_pod_as_they_are) {
  std::string python = std::string(HYPERION_SOURCE) + "/.deps/oracles/bin/python";
  if (std::system((python + " -c 'import yaml' 2>/dev/null").c_str()) != 0) python = "python3";
  if (std::system((python + " -c 'import yaml' 2>/dev/null").c_str()) != 0) GTEST_SKIP() << "no Python with yaml here";
  Scratch scratch;
  const std::string folder = scratch.path().string();
  testing::write_file(scratch.path() / "pod.py", kPod);
  testing::write_file(scratch.path() / "hyperion",
                      "#!/bin/sh\nwhile [ \"$1\" != train ]; do shift; done\nprintf %s \"$2\" > word\n");
  std::filesystem::permissions(scratch.path() / "hyperion", std::filesystem::perms(0755));
  for (const char* kind : {"jobset", "pytorchjob"})
    for (const auto& word : kWords) {
      testing::write_file(scratch.path() / "job.yaml", emit(scratch, kind, word).out);
      std::filesystem::remove(scratch.path() / "word");
      const std::string pod =
          "cd " + folder + " && PATH=" + folder + ":$PATH JOB_COMPLETION_INDEX=0 RANK=0 " + python + " pod.py job.yaml";
      EXPECT_EQ(std::system(pod.c_str()), 0) << word;
      EXPECT_EQ(read_file(scratch.path() / "word"), word) << kind;
    }
}

TEST(EmitWords, that_no_manifest_can_hold_are_refused) {
  Scratch scratch;
  const Finished done = emit(scratch, "jobset", "caf\xe9.toml");
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("is not UTF-8"), std::string::npos) << done.err;
  EXPECT_EQ(emit(scratch, "slurm", "caf\xe9.toml").code, 0) << "a script of the shell holds any byte";
}

}  // namespace
}  // namespace hyperion
