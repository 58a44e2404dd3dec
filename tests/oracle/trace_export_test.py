"""What `hyperion trace export` writes: JSON with the same events as Python's json reads and that Holistic Trace Analysis loads; packets that
Perfetto's own classes parse, with the same slices, arguments, instants, counters and arrows; and how small our own file is.
Usage: trace_export_test.py [COUNT] [SEED] [FILE...]: so many made-up traces, and these recorded ones"""
import gzip
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto  # noqa: E402

import kineto_traces  # noqa: E402

PROGRAM = os.environ["HYPERION_TRACE_EXPORTS"]
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 12
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def export(to, source, target):
    """Returns how many events were left out."""
    return int(subprocess.run([PROGRAM, to, str(source), str(target)], check=True, stdout=subprocess.PIPE).stdout)


def load(path):
    with (gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")) as file:
        return json.load(file)


def ns(microseconds):
    return round(microseconds * 1000)


def same_json(source, folder):
    """Through our own file too."""
    original = load(source)
    export("own", source, folder / "x.htrace")
    export("own", folder / "x.htrace", folder / "y.htrace")
    assert (folder / "x.htrace").read_bytes() == (folder / "y.htrace").read_bytes()
    export("gzip", folder / "x.htrace", folder / "x.json.gz")
    export("chrome", source, folder / "x.json")
    assert (folder / "x.json").read_bytes() == gzip.decompress((folder / "x.json.gz").read_bytes())
    again = load(folder / "x.json")
    assert list(again) == list(original) or sorted(again) == sorted(original), (list(again), list(original))
    for mine, theirs in zip(again["traceEvents"], original["traceEvents"], strict=True):
        assert mine == theirs, (mine, theirs)
    assert again == original
    return original


def sizes(source, folder):
    text = source.read_bytes()
    packed, own = len(gzip.compress(text, 6)), (folder / "x.htrace").stat().st_size
    return len(text), packed, own


class Packets:
    """What a reader of Perfetto's makes of a file: tracks, and slices as (track, begin, end, category, name, arguments, flows)."""

    def __init__(self, path):
        trace = perfetto.Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks, self.slices, self.instants, self.counters = {}, [], [], []
        names, categories, keys, strings, stacks = {}, {}, {}, {}, defaultdict(list)
        last = {}
        for number, packet in enumerate(trace.packet):
            assert packet.trusted_packet_sequence_id == 1
            assert bool(packet.sequence_flags & 1) == (number == 0)
            for table, entries in ((names, packet.interned_data.event_names), (categories, packet.interned_data.event_categories),
                                   (keys, packet.interned_data.debug_annotation_names)):
                for entry in entries:
                    assert entry.iid not in table
                    table[entry.iid] = entry.name
            for entry in packet.interned_data.debug_annotation_string_values:
                strings[entry.iid] = entry.str.decode()
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
                continue
            event, time = packet.track_event, packet.timestamp
            assert event.track_uuid in self.tracks and last.get(event.track_uuid, 0) <= time or event.type == event.TYPE_INSTANT
            if event.type == event.TYPE_SLICE_END:
                begin, category, name, args, flows = stacks[event.track_uuid].pop()
                self.slices.append((event.track_uuid, begin, time, category, name, args, flows))
                last[event.track_uuid] = time
                continue
            if event.type == event.TYPE_COUNTER:
                self.counters.append((self.tracks[event.track_uuid].name, time, event.double_counter_value))
                continue
            assert packet.sequence_flags & 2
            args = {}
            for argument in event.debug_annotations:
                kind = argument.WhichOneof("value")
                value = getattr(argument, kind)
                args[keys[argument.name_iid]] = strings[value] if kind == "string_value_iid" else json.loads(value) if kind == "legacy_json_value" else value
            category = categories[event.category_iids[0]] if event.category_iids else ""
            if event.type == event.TYPE_INSTANT:
                self.instants.append((event.track_uuid, time, names[event.name_iid]))
            else:
                last[event.track_uuid] = time
                stacks[event.track_uuid].append((time, category, names[event.name_iid], args, (list(event.flow_ids), list(event.terminating_flow_ids))))
        assert not any(stacks.values())


def same_packets(source, original, folder):
    left_out = export("perfetto", source, folder / "x.pftrace")
    packets = Packets(folder / "x.pftrace")
    events = [event for event in original["traceEvents"] if event["ph"] != "M"]
    base = original.get("baseTimeNanoseconds", 0)
    if base + min(ns(event["ts"]) for event in events) < 0:
        base = -min(ns(event["ts"]) for event in events)

    def key(begin, end, category, name, args):
        return begin, end, category, name, json.dumps(args, sort_keys=True)

    wanted = Counter(key(base + ns(event["ts"]), base + ns(event["ts"]) + ns(event.get("dur", 0)), event.get("cat", ""), event["name"], event.get("args", {}))
                     for event in events if event["ph"] == "X")
    found = Counter(key(*each[1:6]) for each in packets.slices)
    assert wanted == found, (list((wanted - found).items())[:3], list((found - wanted).items())[:3])
    assert sorted(base + ns(event["ts"]) for event in events if event["ph"] in "iI") == sorted(time for _, time, _ in packets.instants)

    # And so does our own reader.
    export("chrome", folder / "x.pftrace", folder / "back.json")
    back = load(folder / "back.json")
    origin = back["baseTimeNanoseconds"]
    again = Counter(key(origin + ns(event["ts"]), origin + ns(event["ts"]) + ns(event["dur"]), event.get("cat", ""), event["name"], event.get("args", {}))
                    for event in back["traceEvents"] if event["ph"] == "X")
    assert wanted == again, (list((wanted - again).items())[:3], list((again - wanted).items())[:3])

    # An arrow joins the slices that begin where its ends say.
    ends = defaultdict(lambda: (set(), set()))
    for _, begin, _, _, _, _, (starting, ending) in packets.slices:
        for flow in starting:
            ends[flow][0].add(begin)
        for flow in ending:
            ends[flow][1].add(begin)
    arrows = defaultdict(lambda: (set(), set()))
    for event in events:
        if event["ph"] in "stf":
            arrows[(event["cat"], event["id"])][event["ph"] == "f"].add(base + ns(event["ts"]))
    if left_out == 0:
        assert Counter(map(repr, map(lambda each: (sorted(each[0]), sorted(each[1])), ends.values()))) == \
            Counter(map(repr, map(lambda each: (sorted(each[0]), sorted(each[1])), arrows.values())))
    tracks = packets.tracks.values()
    for track in tracks:
        assert track.name or track.HasField("process") or track.HasField("thread")
        assert not track.parent_uuid or track.parent_uuid in packets.tracks
    return len(packets.slices), left_out


def loads_in_hta(source, folder):
    """HTA finds in the exported file what it finds in the original."""
    export("gzip", source, folder / "rank-0.json.gz")
    tables = [TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(folder)).get_temporal_breakdown(visualize=False) for path in (source, folder / "rank-0.json.gz")]
    assert tables[0].equals(tables[1]), tables


def other_kinds(folder):
    """Counters, instants, slices that overlap without nesting, times before 0."""
    events = [{"ph": "C", "name": "memory", "pid": 7, "tid": 7, "ts": 5, "args": {"bytes": 12.5, "count": 3, "unit": "B"}},
              {"ph": "i", "name": "here", "pid": 7, "tid": 7, "ts": 6.5, "s": "t"},
              {"ph": "X", "name": "a", "cat": "kernel", "pid": 0, "tid": 7, "ts": -2, "dur": 10, "args": {"x": [1, {"y": None}], "z": True, "big": 1 << 62, "r": -0.5}},
              {"ph": "X", "name": "b", "cat": "kernel", "pid": 0, "tid": 7, "ts": 3, "dur": 10, "args": {}},
              {"ph": "X", "name": "c", "cat": "kernel", "pid": 0, "tid": 7, "ts": 3, "dur": 0, "args": {}},
              {"ph": "b", "name": "open", "pid": 7, "tid": 7, "ts": 1, "id": 4},
              {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}]
    path = folder / "kinds.json"
    path.write_text(json.dumps({"traceEvents": events}))
    slices, left_out = same_packets(path, {"traceEvents": events}, folder)
    assert (slices, left_out) == (3, 1)
    packets = Packets(folder / "x.pftrace")
    assert sorted(packets.counters) == [("memory bytes", 7000, 12.5), ("memory count", 7000, 3)], packets.counters
    lanes = {each[4]: packets.tracks[each[0]].name for each in packets.slices}
    assert lanes["a"] == "7" and lanes["b"] == "7 (2)", lanes
    assert "GPU 0" in [track.name for track in packets.tracks.values()]


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    other_kinds(folder)
    slices = 0
    for number in range(SEED, SEED + COUNT):
        source = folder / "source.json"
        kineto_traces.write(source, number, number % 4, 4, steps=2 + number % 3, layers=2 + number % 5, communicate=number % 7 != 0, whole_us=number % 3 == 0, streams=1 + number % 3)
        original = same_json(source, folder)
        found, left_out = same_packets(source, original, folder)
        assert left_out == 0, left_out
        slices += found
        if number < SEED + 2:
            loads_in_hta(source, folder)
    source = folder / "long.json"
    kineto_traces.write(source, SEED, steps=12, layers=24)
    for path in [source, *map(pathlib.Path, sys.argv[3:])]:
        original = same_json(path, folder)
        slices += same_packets(path, original, folder)[0]
        text, packed, own = sizes(path, folder)
        print(f"{path.name}: {len(original['traceEvents'])} events, JSON {text}, gzip {packed}, own {own}: {text / own:.1f} times smaller than JSON, {packed / own:.2f} than gzip")
        assert own * 2 <= packed and own * 25 <= text
print(f"{COUNT} traces, {slices} slices as Perfetto's classes and Python's json read them")
