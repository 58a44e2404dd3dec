"""What `hyperion trace analyze` finds against Holistic Trace Analysis, on made-up traces: totals and percentages within 0.1 point, kernels'
sums and spreads; and that each difference of docs/traces.md is one. Usage: trace_test.py [COUNT] [SEED]"""
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HTA_DISABLE_NS_ROUNDING", "1")  # else HTA rounds begins up and ends down to whole microseconds
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import pandas  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402

import kineto_traces  # noqa: E402

PROGRAM = os.environ["HYPERION_TRACE_ANALYSIS"]
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 50
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
checked = 0


def ours(files, *flags):
    return {rank["rank"]: rank for rank in json.loads(subprocess.run([PROGRAM, *flags, *map(str, files)], check=True, stdout=subprocess.PIPE).stdout)["ranks"]}


def near(what, mine, theirs, point=0.1):
    global checked
    checked += 1
    if pandas.isna(theirs):
        assert mine is None or mine == 0, f"{what}: {mine}, and HTA has none"
    else:
        assert mine is not None and abs(mine - theirs) <= point, f"{what}: {mine} and HTA's {theirs}"


def share(part, whole):
    return 100 * part / whole if whole else 0


def compare_times(hta, mine):
    for row in hta.get_temporal_breakdown(visualize=False).to_dict("records"):
        times = mine[row["rank"]]["times"]
        for kind in ("idle", "compute", "non_compute"):
            near(f"{kind} of rank {row['rank']}", times[f"{kind}_percent"], row[f"{kind}_time_pctg"])
            near(f"{kind} of rank {row['rank']}, time", share(times[f"{kind}_us"], row["kernel_time(us)"]), share(row[f"{kind}_time(us)"], row["kernel_time(us)"]), 0.001)
        near("all time", times["total_us"], row["kernel_time(us)"], 0.01)
    if any(rank["times"]["communication_us"] for rank in mine.values()):
        for row in hta.get_comm_comp_overlap(visualize=False).to_dict("records"):
            near(f"overlap of rank {row['rank']}", mine[row["rank"]]["times"]["overlap_percent"], row["comp_comm_overlap_pctg"])


def compare_idle(hta, mine):
    for rank, found in mine.items():
        table = hta.get_idle_time_breakdown(ranks=[rank], visualize=False)[0]
        streams = {row["stream"]: row for row in found["idle"]}
        assert set(table["stream"]) == set(streams), (set(table["stream"]), set(streams))
        for stream, rows in table.groupby("stream"):
            whole = rows["idle_time"].sum()
            theirs = dict(zip(rows["idle_category"], rows["idle_time"]))
            for cause in ("host_wait", "kernel_wait", "other"):
                near(f"{cause} of stream {stream}, rank {rank}", share(streams[stream][f"{cause}_us"], whole), share(theirs.get(cause, 0), whole),
                     0.1 + share(0.02, whole))  # HTA rounds them to hundredths of microseconds


def compare_kernels(hta, mine, whole_us):
    kinds, kernels = hta.get_gpu_kernel_breakdown(visualize=False, num_kernels=1 << 30, include_memory_kernels=True)
    words = {"COMPUTATION": "computation", "COMMUNICATION": "communication", "MEMORY": "memory", "COMPUTATION overlapping COMMUNICATION": "computation and communication",
             "COMPUTATION overlapping MEMORY": "computation and memory", "COMMUNICATION overlapping MEMORY": "communication and memory",
             "COMPUTATION overlapping COMMUNICATION overlapping MEMORY": "all three"}
    sums = {word: sum(rank["times"]["by_kinds_us"][word] for rank in mine.values()) for word in words.values()}
    for row in kinds.to_dict("records"):
        if whole_us:  # else HTA cuts each stretch to whole microseconds
            near(row["kernel_type"], share(sums[words[row["kernel_type"]]], sum(sums.values())), row["percentage"])
            near(row["kernel_type"] + ", time", sums[words[row["kernel_type"]]], row["sum"], 0.01)
        else:
            assert sums[words[row["kernel_type"]]] >= row["sum"] - 0.01
    for row in kernels.to_dict("records"):
        found = next(each for each in mine[row["rank"]]["kernels"] if each["name"] == row["name"])
        assert found["kind"].upper() == row["kernel_type"]
        for ours_key, theirs_key in (("sum_us", "sum (us)"), ("max_us", "max (us)"), ("min_us", "min (us)"), ("mean_us", "mean (us)"), ("stddev_us", "stddev")):
            near(f"{ours_key} of {row['name'][:40]}", found[ours_key], row[theirs_key], 1e-6 * abs(row[theirs_key]) + 0.001)
    for rank, found in mine.items():
        assert sum(kernels["rank"] == rank) == sum(each["kind"] != "other" for each in found["kernels"])


def compare(folder, seed):
    ranks, whole_us = [1, 2, 1, 4][seed % 4], seed % 3 == 0
    files = {}
    for rank in range(ranks):
        files[rank] = str(folder / f"rank-{rank}.json{'.gz' if seed % 5 == 0 else ''}")
        kineto_traces.write(files[rank], seed, rank, ranks, steps=1 + seed % 4, layers=2 + seed % 5, communicate=seed % 7 != 0, whole_us=whole_us, streams=1 + seed % 3)
    last = seed % 6 == 1
    hta = TraceAnalysis(trace_files=files, trace_dir=str(folder), include_last_profiler_step=last)
    mine = ours(files.values(), *(["--last-step"] if last else []))
    assert sorted(mine) == sorted(files)
    compare_times(hta, mine)
    compare_idle(hta, mine)
    compare_kernels(hta, mine, whole_us)


def events_file(folder, events):
    path = folder / "rank-0.json"
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": events}))
    return {0: str(path)}


def work(name, begin, duration, stream=7, correlation=1, cat="kernel"):
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": begin, "dur": duration, "args": {"stream": stream, "correlation": correlation, "device": 0}}


def differences(folder):
    """Each is told in docs/traces.md."""
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0, "dur": 1, "args": {"correlation": 1}}
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 1000, "args": {}}

    # Waits of streams are no work of theirs: HTA counts them as busy, we as idle.
    files = events_file(folder, [step, launch, work("gemm", 0, 100), work("Stream Sync", 200, 500, cat="cuda_sync", correlation=2), work("gemm", 900, 100)])
    theirs = TraceAnalysis(trace_files=files, trace_dir=str(folder)).get_temporal_breakdown(visualize=False).to_dict("records")[0]
    mine = ours(files.values())[0]["times"]
    assert (theirs["idle_time(us)"], mine["idle_us"]) == (300, 800), (theirs, mine)

    # Kernels of one stream that overlap: HTA counts negative gaps, and gaps from the end of the one that began last.
    files = events_file(folder, [step, launch, work("gemm", 0, 100), work("gemm", 50, 20), work("gemm", 110, 10)])
    table = TraceAnalysis(trace_files=files, trace_dir=str(folder)).get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    row = ours(files.values())[0]["idle"][0]
    assert table["idle_time"].sum() == (50 - 100) + (110 - 70) and row["kernel_wait_us"] == 10, (table, row)

    # Nanoseconds: unless told otherwise, HTA rounds begins up and ends down to whole microseconds.
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "0"
    files = events_file(folder, [step, launch, work("gemm", 0.5, 2.4), work("gemm", 10.5, 2.4)])
    theirs = TraceAnalysis(trace_files=files, trace_dir=str(folder)).get_temporal_breakdown(visualize=False).to_dict("records")[0]
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    mine = ours(files.values())[0]["times"]
    assert (theirs["compute_time(us)"], mine["compute_us"]) == (2, 4.8), (theirs, mine)


with tempfile.TemporaryDirectory() as name:
    for number in range(SEED, SEED + COUNT):
        folder = pathlib.Path(name) / str(number)
        folder.mkdir()
        try:
            compare(folder, number)
        except AssertionError as error:
            sys.exit(f"seed {number}: {error}")
    differences(pathlib.Path(name))
print(f"{COUNT} traces, {checked} figures as HTA has them")
