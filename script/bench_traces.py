"""The work of script/bench-traces."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("HYPERION_PROGRAM", ROOT / "build/cpu/bin/hyperion")
REPEATS = 3

HTA = """
import logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/tmp", include_last_profiler_step=False)
print(f"loaded after {time.perf_counter() - begin:.1f} s")
trace.get_temporal_breakdown(visualize=False)
trace.get_comm_comp_overlap(visualize=False)
trace.get_idle_time_breakdown(ranks=[0], visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False)
print(f"all four analyses after {time.perf_counter() - begin:.1f} s")
"""


def measured(command):
    """Seconds, seconds of all cores, and the most MiB resident of one process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"error: {' '.join(map(str, command))} failed\nhint: run it alone to see why")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def made(path, megabytes):
    subprocess.run([sys.executable, ROOT / "tests/oracle/kineto_traces.py", path, str(megabytes)], check=True)
    size = path.stat().st_size
    with open(path, "rb") as file:  # into the page cache
        while file.read(1 << 24):
            pass
    return size / 2**20


def bench(path, megabytes):
    size = made(path, megabytes)
    for threads in (1, 2):
        runs = [measured([PROGRAM, "trace", "analyze", path, "--json", "--threads", str(threads)]) for _ in range(REPEATS)]
        seconds = sorted(run[0] for run in runs)
        peak = max(run[2] for run in runs)
        print(f"hyperion, {size:.0f} MiB, {threads} thread{'s' * (threads > 1)} that read: {seconds[REPEATS // 2]:.2f} s ({seconds[0]:.2f} to {seconds[-1]:.2f}), "
              f"{min(run[1] for run in runs):.2f} s of cores, "
              f"peak {peak:.0f} MiB ({100 * peak / size:.0f}% of the file)", flush=True)


def main():
    words = [word for word in sys.argv[1:] if word != "--own"]
    megabytes = int(words[0]) if words else 1000
    peer = int(words[1]) if len(words) > 1 else 100
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; the median of {REPEATS}")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rank-0.json"
        bench(path, megabytes)
        if "--own" in sys.argv or importlib.util.find_spec("hta") is None:
            print("HTA is left out" if "--own" in sys.argv else "HTA is not here: script/oracles fetches it")
            return
        bench(path, peer)
        begin = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", HTA, path], stdout=subprocess.PIPE, text=True)
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        print(f"HTA, {path.stat().st_size / 2**20:.0f} MiB: {time.perf_counter() - begin:.1f} s with its start, peak {usage.ru_maxrss / 1024:.0f} MiB; {'; '.join(told.split(chr(10))).strip('; ')}"
              if status == 0 else "HTA failed")


main()
