"""What a plain PyTorch script reaches in matrix products and copies, to hold `hyperion bench hardware` against.

  bench_peer.py measure [--sizes 8192] [--elements 500000000] [--seconds 1]   prints JSON
  bench_peer.py compare FOLDER [--bar 0.97]   reads ours-N.json and peer-N.json there; exit 1 under the bar
"""
import argparse
import json
import pathlib
import statistics
import sys

PRODUCTS = ["bf16", "fp16", "tf32", "fp32"]


def seconds_a_call(torch, work, budget):
    """The median over blocks of calls between two CUDA events, after a warm-up."""
    def block(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    block(1)
    calls = max(1, round(0.01 / block(1)))
    warm = 0
    while warm < budget / 4:
        warm += block(calls)
    samples, spent = [], 0
    while spent < budget or len(samples) < 3:
        seconds = block(calls)
        spent += seconds
        samples.append(seconds / calls)
    return statistics.median(samples)


def row(kind, name, size, unit, value):
    return {"kind": kind, "name": name, "size": size, "unit": unit, "value": value}


def measure(sizes, elements, budget):
    import torch
    rows = []
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "fp32": torch.float32}
    for name in PRODUCTS:
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        for n in sizes:
            a, b = (torch.randn(n, n, device="cuda").to(types[name]) for _ in range(2))
            seconds = seconds_a_call(torch, lambda: torch.matmul(a, b), budget)
            rows.append(row("matmul", name, n, "TFLOP/s", 2 * n**3 / seconds / 1e12))
    for count in elements:
        source = torch.rand(count, device="cuda")
        target = torch.empty_like(source)
        seconds = seconds_a_call(torch, lambda: target.copy_(source), budget)
        rows.append(row("bandwidth", "copy", count, "GB/s", 8 * count / seconds / 1e9))
    return {"device_name": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}


def read_rounds(folder, who):
    """{(kind, name, size): (unit, [value of each round])}"""
    values = {}
    for path in sorted(pathlib.Path(folder).glob(f"{who}-*.json")):
        for found in json.loads(path.read_text())["rows"]:
            key = (found["kind"], found["name"], found["size"])
            values.setdefault(key, (found["unit"], []))[1].append(found["value"])
    return values


def compare(folder, bar):
    ours, peers = read_rounds(folder, "ours"), read_rounds(folder, "peer")
    if not peers:
        print(f"error: no peer-N.json in {folder}", file=sys.stderr)
        return False
    rounds = len(next(iter(peers.values()))[1])
    print(f"{'case':<28}{'ours':>12}{'torch':>12}  {'':<8}{'ratio':>7}   (medians of {rounds} rounds)")
    good = True
    for key, (unit, theirs) in peers.items():
        case = f"{key[1]} {key[2]:,}"
        if key not in ours:
            print(f"{case:<28}{'missing':>12}")
            good = False
            continue
        mine, other = statistics.median(ours[key][1]), statistics.median(theirs)
        ratio = mine / other
        good = good and ratio >= bar
        verdict = "" if ratio >= bar else f"   under {bar}"
        print(f"{case:<28}{mine:>12.1f}{other:>12.1f}  {unit:<8}{ratio:>7.3f}{verdict}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure")
    measuring.add_argument("--sizes", default="8192")
    measuring.add_argument("--elements", default="500000000")
    measuring.add_argument("--seconds", type=float, default=1)
    comparing = commands.add_parser("compare")
    comparing.add_argument("folder")
    comparing.add_argument("--bar", type=float, default=0.97)
    arguments = parser.parse_args()
    if arguments.command == "compare":
        sys.exit(0 if compare(arguments.folder, arguments.bar) else 1)
    numbers = [[int(n) for n in text.split(",")] for text in (arguments.sizes, arguments.elements)]
    print(json.dumps(measure(*numbers, arguments.seconds), indent=2))


if __name__ == "__main__":
    main()
