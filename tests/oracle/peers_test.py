"""The peers of `bench train --peers` build the models that the bench does: as many parameters, and a first loss of their size."""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

program = os.environ["HYPERION_PROGRAM"]
root = pathlib.Path(__file__).resolve().parents[2]
with tempfile.TemporaryDirectory() as folder:
    subprocess.run([program, "bench", "train", "tiny", "--device", "cpu", "--steps", "2", "--peers", "--peer-modes", "eager",
                    "--folder", folder], check=True, cwd=root, env=os.environ | {"HYPERION_PYTHON": sys.executable})
    result = json.loads(pathlib.Path(folder, "train.json").read_text())
rows = {(row["workload"], row["mode"].startswith("torch")): row for row in result["rows"]}
assert len(rows) == 8, rows.keys()
for (workload, theirs), row in rows.items():
    assert "failed" not in row, (workload, row["failed"])
    if theirs:
        ours = rows[workload, False]
        assert row["parameters"] == ours["parameters"], (workload, row["parameters"], ours["parameters"])
        if workload != "tiny-resnet":  # whose weights PyTorch draws otherwise
            assert math.isclose(row["first_loss"], ours["first_loss"], rel_tol=0.25), (workload, row["first_loss"], ours["first_loss"])

# The large ones are only counted: a model on the device "meta" holds no numbers.
sys.path.insert(0, str(root / "script" / "peers"))
import torch  # noqa: E402
import torch_peers  # noqa: E402
listed = subprocess.run([program, "bench", "workloads", "--json"], check=True, capture_output=True, text=True).stdout
for line in listed.splitlines():
    spec = json.loads(line)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in torch_peers.build(spec).parameters())
    assert count == spec["parameters"], (spec["name"], count, spec["parameters"])
print("the peers build the same models")
