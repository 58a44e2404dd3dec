"""clang-format and clang-tidy over this repository's sources; script/lint prepares what they need and calls this."""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path.cwd()
CACHE = ROOT / "build" / "lint" / "said"  # <key>: what clang-tidy said about one state of a file and its headers
INCLUDE = re.compile(rb'^\s*#\s*include\s*"((?:hyperion|tests)/[^"]+)"', re.MULTILINE)
# The analyzer's shallow mode takes a fifth of the time and still follows calls within a file.
TIDY = ["clang-tidy", "-p", "build/lint", "--quiet", "--extra-arg=-Xclang", "--extra-arg=-analyzer-config", "--extra-arg=-Xclang",
        "--extra-arg=mode=shallow"]


def usage_error(what, hint):
    print(f"error: {what}\nhint: {hint}", file=sys.stderr)
    sys.exit(2)


def sources():
    """All that git tracks or would take in."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.h", "*.cc", "*.cu"],
                            check=True, capture_output=True, text=True).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).exists())


def check_format(names):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], capture_output=True, text=True)
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "clang-format-violations" in line})
    if done.returncode and not wrong:
        sys.exit(f"error: clang-format failed\n{done.stderr}")
    print(f"lint: clang-format, {len(names)} files, {len(wrong)} to be formatted")
    for name in wrong:
        print(f"  {name}")
    if wrong:
        print("hint: script/lint --fix formats them")
    return not wrong


@functools.lru_cache(maxsize=None)
def content(name):
    path = ROOT / name
    return path.read_bytes() if path.exists() else b""


def with_headers(name):
    """The file and all headers of ours it reaches, so that a change in any of them counts."""
    seen, queue = set(), [name]
    while queue:
        current = queue.pop()
        if current not in seen:
            seen.add(current)
            queue += [found.decode() for found in INCLUDE.findall(content(current))]
    return sorted(seen)


def key_of(name, command, tool):
    key = hashlib.sha256()
    for part in (tool, content(".clang-tidy"), " ".join(TIDY).encode(), command.replace(str(ROOT), "").encode()):
        key.update(part + b"\0")
    for each in with_headers(name):
        key.update(each.encode() + b"\0" + hashlib.sha256(content(each)).digest())
    return key.hexdigest()[:32]


def tidy(name):
    done = subprocess.run([*TIDY, name], capture_output=True, text=True)
    if done.returncode not in (0, 1) or (done.returncode and not done.stdout.strip()):
        return None, f"{name}: clang-tidy failed\n{done.stderr}"
    return done.stdout.replace(f"{ROOT}/", "").strip(), ""


def changed(everything):
    """What differs from origin's main branch, where this is another; else from the commit before."""
    def git(*words):
        return subprocess.run(["git", *words], capture_output=True, text=True).stdout.strip()
    base = git("merge-base", "HEAD", "origin/main")
    if not base or base == git("rev-parse", "HEAD"):
        base = git("rev-parse", "HEAD~1")
    different = set(git("diff", "--name-only", base).splitlines()) if base else set()
    return [name for name in everything if name in different]


def check_tidy(names, seconds=None):
    tool = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True).stdout
    commands = {os.path.relpath(entry["file"], ROOT): entry["command"] for entry in json.loads(content("build/lint/compile_commands.json"))}
    keys = {name: key_of(name, commands[name], tool) for name in names if name in commands}
    CACHE.mkdir(parents=True, exist_ok=True)
    known = {name: (CACHE / key).read_text() for name, key in keys.items() if (CACHE / key).exists()}
    # Large first: the long ones must not be what everybody waits for at the end.
    todo = sorted(keys.keys() - known.keys(), key=lambda name: -len(with_headers(name)))
    cores = len(os.sched_getaffinity(0))
    print(f"lint: clang-tidy, {len(keys)} files, {len(known)} unchanged since they were checked, {len(todo)} to check on {cores} cores",
          flush=True)
    bad, end = 0, time.monotonic() + seconds if seconds else None
    left = 0
    for name in sorted(name for name, said in known.items() if said):
        print(known[name])
        bad += 1
    live = sys.stdout.isatty()
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        waiting = {pool.submit(lambda name: None if end and time.monotonic() > end else tidy(name), name): name for name in todo}
        for count, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            name = waiting[future]
            if future.result() is None:
                left += 1
                continue
            said, failure = future.result()
            if said is not None:
                (CACHE / keys[name]).write_text(said)
            if said or failure:
                print(("\r\033[K" if live else "") + (said or failure), flush=True)
                bad += 1
            print(f"\r\033[Klint: {count} of {len(todo)} {name}" if live else f"lint: {count} of {len(todo)} {name}",
                  end="" if live else "\n", flush=True)
    if live and todo:
        print("\r\033[K", end="")
    if left:
        print(f"lint: {left} of {len(todo)} were not checked for want of time; script/lint checks all")
    print(f"lint: clang-tidy found something in {bad} files" if bad else "lint: clang-tidy found nothing")
    return bad == 0


def main():
    flags = [word for word in sys.argv[1:] if word.startswith("-")]
    named = [os.path.relpath(word, ROOT) for word in sys.argv[1:] if not word.startswith("-")]
    for flag in flags:
        if flag not in ("--fix", "--changed"):
            usage_error(f"unknown flag {flag}", "script/lint [--fix] [--changed] [FILE...]")
    everything = sources()
    for name in named:
        if name not in everything:
            usage_error(f"{name} is not a .h, .cc or .cu file of this repository", "name it from the repository's root")
    names = changed(everything) if "--changed" in flags else named or everything
    if "--fix" in flags:
        subprocess.run(["clang-format", "-i", *names], check=True)
        print(f"lint: formatted {len(names)} files")
        return
    if not names:
        print("lint: nothing changed")
        return
    good = check_format(names)
    good = check_tidy(names, seconds=300 if "--changed" in flags else None) and good
    sys.exit(0 if good else 1)


main()
