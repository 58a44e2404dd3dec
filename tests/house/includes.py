"""Reads every #include and fails on one that breaks the house's rule (docs/architecture.md), on more knots of files that include each other
than the house has, on rooms and files that outgrow it, and where docs/architecture.md or CMakeLists.txt say another law."""
import pathlib
import re
import sys

ROWS = [  # a folder includes only folders of a lower row
    ["base", "gpu"],
    ["host", "profile", "strategy", "text", "images", "web", "device"],
    ["kernels", "comm", "tokenizers", "records", "report", "hub", "planner"],
    ["blocks", "data", "dash", "trace"],
    ["nn", "trace_formats", "analysis"],
    ["optim", "checkpoint"],
    ["models", "parallel", "resilience"],
    ["interop", "doctor"],
    ["train", "serve"],
    ["bench"],
    ["command"],
    ["cli"],
]
ROW = {folder: number for number, row in enumerate(ROWS) for folder in row}
MAY = {  # where the law says less than "every lower row"
    "device": "base gpu", "kernels": "base gpu profile device", "blocks": "base profile device kernels", "comm": "base gpu host profile strategy", "data": "base text images tokenizers records",
    "host": "base", "profile": "base gpu", "strategy": "base", "text": "base", "images": "base",
    "tokenizers": "base text", "records": "base text", "trace": "base profile text records", "trace_formats": "base text records trace", "analysis": "base trace",
    "report": "base profile strategy", "planner": "base profile strategy",
    "hub": "base host", "web": "base", "dash": "base web report",
    "nn": "base profile strategy device kernels blocks", "optim": "base profile strategy device kernels nn",
    "checkpoint": "base profile strategy comm nn",
    "models": "base strategy nn",
    "parallel": "base host profile strategy device kernels comm nn optim",
    "resilience": "base host profile strategy comm report planner checkpoint",
    "interop": "base strategy images tokenizers data hub nn checkpoint models", "doctor": "base host profile device comm",
    "serve": "base host profile strategy device kernels comm text data report nn checkpoint models parallel interop doctor",
}
TORCH_FREE = {"base", "host", "strategy", "text", "images", "tokenizers", "records", "data", "report", "hub", "web", "dash", "planner", "trace", "trace_formats", "analysis"}
TORCH_FREE_HEADERS = {"profile"}
MOST_KNOTS = 2  # files (.h and .cc as one) that include each other, directly or not: of base (log, files, fault) and optim (adamw, update)
MOST_FILES, MOST_LINES = 70, 450
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def breaches(root):
    for path in sorted((root / "hyperion").rglob("*")):
        if path.suffix not in (".h", ".cc", ".cu", ".cuh"):
            continue
        parts = path.relative_to(root / "hyperion").parts
        folder = parts[0]
        if len(parts) != 2 or folder not in ROW:
            yield f"{path}: files live at hyperion/<folder>/<file>, and {folder} must be a folder of the house"
            continue
        allowed = allowed_in(folder)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target, place = found.group(1), f"{path.relative_to(root)}:{number}"
            if target.startswith("hyperion/"):
                other = target.split("/")[1]
                if other != folder and other not in allowed:
                    yield f"{place}: {folder} may not include {other} ({target})"
            elif "/" not in target and line.count('"'):
                yield f"{place}: include our files as \"hyperion/<folder>/<file>\""
            torch = target.startswith(("torch/", "ATen/", "c10/"))
            if torch and (folder in TORCH_FREE or (folder in TORCH_FREE_HEADERS and path.suffix == ".h")):
                yield f"{place}: {folder} stays free of torch ({target})"
            if target == "torch/torch.h":
                yield f"{place}: torch/torch.h costs 22 seconds a file; include the operations you call"
            if "c10d" in target and folder != "comm":
                yield f"{place}: only comm includes c10d"
            if path.suffix == ".cu" and torch:
                yield f"{place}: kernels take raw pointers; no torch in a .cu"


def knots(root):
    graph = {}
    for path in (root / "hyperion").rglob("*"):
        if path.suffix in (".h", ".cc", ".cu"):
            name = str(path.relative_to(root / "hyperion").with_suffix(""))
            graph.setdefault(name, set()).update(set(re.findall(r'#include "hyperion/([^"]+)\.h"', path.read_text())) - {name})

    def reached(start):
        seen, todo = set(), list(graph[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph.get(name, ())
        return seen

    below = {name: reached(name) for name in graph}
    return {tuple(sorted(other for other in below[name] if name in below.get(other, ()))) for name in graph if name in below[name]}


def sizes(root):
    for folder in sorted(ROW):
        files = [path for path in (root / "hyperion" / folder).glob("*") if path.is_file()]
        if len(files) > MOST_FILES:
            yield f"hyperion/{folder} has {len(files)} files: a room has at most {MOST_FILES}"
        for path in files:
            name, lines = f"{folder}/{path.name}", len(path.read_text().splitlines())
            if lines > MOST_LINES:
                yield f"hyperion/{name} has {lines} lines: a file has at most {MOST_LINES}"


def allowed_in(folder):
    return set(MAY[folder].split()) if folder in MAY else {f for f in ROW if ROW[f] < ROW[folder]}


def other_laws(root):
    """docs/architecture.md says the same, and no target of CMake uses more."""
    told = {}
    for row, folder, may in re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| ?([^|]*?) ?\|$", (root / "docs/architecture.md").read_text(), re.M):
        rows = re.match(r"rows 0-(\d+)(?: but (.*))?", may)
        told[folder] = {f for f in ROW if ROW[f] <= int(rows.group(1))} - set((rows.group(2) or "").split(", ")) if rows else set(filter(None, may.split(", ")))
        if folder not in ROW or ROW[folder] != int(row):
            yield f"docs/architecture.md: {folder} stands in row {row}"
    for folder in ROW:
        if folder not in told:
            yield f"docs/architecture.md: no row for {folder}"
        elif told[folder] != allowed_in(folder):
            yield f"docs/architecture.md: {folder} may include {sorted(allowed_in(folder))}, not {sorted(told[folder])}"
    for folder, uses in re.findall(r"^hyperion_(?:folder\(|program\(\w+ FOLDER )(\w+) USES ([a-z ]+)", (root / "CMakeLists.txt").read_text(), re.M):
        for other in set(uses.split()) - allowed_in(folder):
            yield f"CMakeLists.txt: {folder} uses {other}, which it may not include"


ROOT = pathlib.Path(sys.argv[1])
found = [*breaches(ROOT), *sizes(ROOT), *other_laws(ROOT)]
if len(tied := knots(ROOT)) > MOST_KNOTS:
    found += [f"{len(tied)} knots of files that include each other, and {MOST_KNOTS} are allowed:", *(" " + ", ".join(knot) for knot in sorted(tied, key=len))]
print("\n".join(found) if found else f"every include points down; {len(tied)} knots of files")
sys.exit(1 if found else 0)
