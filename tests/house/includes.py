"""Reads every #include and fails on one that breaks the house's rule (docs/architecture.md)."""
import pathlib
import re
import sys

ROWS = [  # a folder includes only folders of a lower row
    ["base"],
    ["host", "profile", "strategy", "text", "images"],
    ["kernels", "comm", "tokenizers", "records", "report", "hub", "planner"],
    ["nn", "data"],
    ["optim", "checkpoint"],
    ["models", "parallel", "resilience"],
    ["interop", "doctor"],
    ["train", "serve"],
    ["bench"],
    ["cli"],
]
ROW = {folder: number for number, row in enumerate(ROWS) for folder in row}
MAY = {  # where the law says less than "every lower row"
    "kernels": "base profile", "comm": "base host profile strategy", "data": "base text images tokenizers records",
    "tokenizers": "base text", "records": "base text",
    "report": "base profile strategy", "planner": "base profile strategy",
    "hub": "base host",
    "nn": "base profile strategy kernels", "optim": "base profile strategy kernels nn",
    "checkpoint": "base profile strategy comm nn",
    "models": "base strategy nn",
    "parallel": "base host profile strategy kernels comm nn optim",
    "resilience": "base host profile strategy comm report planner checkpoint",
    "interop": "base strategy images tokenizers data hub nn checkpoint models", "doctor": "base host profile comm",
    "serve": "base host profile strategy kernels comm text data report nn checkpoint models parallel interop doctor",
}
TORCH_FREE = {"base", "host", "strategy", "text", "images", "tokenizers", "records", "data", "report", "hub", "planner", "doctor"}
TORCH_FREE_HEADERS = {"profile"}
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
        allowed = set(MAY[folder].split()) if folder in MAY else {f for f in ROW if ROW[f] < ROW[folder]}
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


found = list(breaches(pathlib.Path(sys.argv[1])))
print("\n".join(found) if found else "every include points down")
sys.exit(1 if found else 0)
