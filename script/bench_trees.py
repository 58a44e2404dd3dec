"""script/bench-trees: two programs in turns over workloads, so that clock and heat fall on both alike; then `hyperion compare`."""
import json, os, pathlib, statistics, subprocess, sys, time

before, after, folder, blocks, steps, mode, seconds = *sys.argv[1:3], pathlib.Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5], sys.argv[6], float(sys.argv[7])
workloads = sys.argv[8:]
programs = {"before": before, "after": after}
times = {name: {workload: [] for workload in workloads} for name in programs}
results, began = {}, time.time()


def block(name, workload, number):
    place = folder / f"{name}-{workload}-{number}"
    subprocess.run([programs[name], "bench", "train", workload, "--optimize", mode, "--steps", steps, "--folder", place], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "XDG_CACHE_HOME": str(folder / f"{name}-cache")})  # neither reads what the other tuned
    result = json.loads((place / "train.json").read_text())
    results.setdefault(name, result)
    times[name][workload].append((result["figures"][0]["name"], result["rows"][0]["step_ms"]))


for number in range(blocks):
    for workload in workloads:
        if time.time() - began > seconds:
            continue
        for name in sorted(programs, reverse=number % 2 == 0):  # the one that begins changes with the round
            block(name, workload, number)
    print(f"round {number + 1} of {blocks} after {time.time() - began:.0f} s", flush=True)

for name, of_workload in times.items():
    figures = []
    for rows in of_workload.values():
        if rows:
            ms = [value for _, value in rows]
            figures.append({"name": rows[0][0], "unit": "ms", "better": "lower", "value": statistics.median(ms), "low": min(ms), "high": max(ms)})
    (folder / f"{name}.json").write_text(json.dumps({**results[name], "figures": figures, "rows": []}))
for workload in workloads:
    print(workload, *(f"{name}: " + " ".join(f"{ms:.2f}" for _, ms in times[name][workload]) for name in programs), sep="  ")
sys.exit(subprocess.run([after, "compare", folder / "before.json", folder / "after.json", "--fail-over", "1%"]).returncode)
