"""The peers of `bench train --peers` build the models that the bench does: as many parameters, as many of them trained, and a first loss
of their size. Documents give one loss in rows of their own and packed, whole or in micro-batches, and adapters alone have gradients."""
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
assert not result["notes"], result["notes"]
ours = {row["workload"]: row for row in result["rows"] if not row["mode"].startswith("torch")}
theirs = [row for row in result["rows"] if row["mode"].startswith("torch")]
assert len(ours) == 8 and len(theirs) == 10, result["rows"]  # two workloads have documents, which have two forms
for row in [*ours.values(), *theirs]:
    assert "failed" not in row, row
for row in theirs:
    own = ours[row["workload"]]
    for count in ("parameters", "trained"):
        assert row[count] == own[count], (row["workload"], count, row[count], own[count])
    if own["tokens_per_s"]:
        assert math.isclose(row["tokens_per_s"] * row["step_ms"], own["tokens_per_s"] * own["step_ms"]), row["workload"]
    if row["workload"] != "tiny-resnet":  # whose weights PyTorch draws otherwise
        assert math.isclose(row["first_loss"], own["first_loss"], rel_tol=0.25), (row["workload"], row["first_loss"], own["first_loss"])

# The large ones are only counted: a model on the device "meta" holds no numbers.
sys.path.insert(0, str(root / "script" / "peers"))
import torch  # noqa: E402
import adapters  # noqa: E402
import documents  # noqa: E402
import torch_peers  # noqa: E402
listed = subprocess.run([program, "bench", "workloads", "--json"], check=True, capture_output=True, text=True).stdout
specs = {spec["name"]: spec for spec in map(json.loads, listed.splitlines())}
for name, spec in specs.items():
    model, count = torch_peers.adapted(spec, "meta", torch.bfloat16)
    assert count == spec["parameters"], (name, count, spec["parameters"])
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert trained == spec["trained"], (name, trained, spec["trained"])

# One loss and one gradient for the same documents in every form.
spec = specs["tiny-llama-lora-packed"]
assert any(sum(row) < spec["length"] for batch in spec["documents"] for row in batch), "no row has padding"
rows = documents.tokens_of(spec, "cpu")[0]
for quantize in ("none", "nf4"):
    torch.manual_seed(2)
    model, _ = torch_peers.adapted(spec | {"lora": spec["lora"] | {"quantize": quantize}}, "cpu", None)
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad == (name.endswith(".down") or ".up." in name), name
        if ".up." in name:  # they begin as zeros, and A then gets no gradient
            torch.nn.init.normal_(parameter, std=0.02)
    found = {}
    for form, parts in (("packed", 1), ("padded", 1), ("padded", 4)):
        data = [(documents.packed(rows, spec["length"], "cpu", False), 1.0)] if form == "packed" else \
            documents.micro_batches(*documents.padded(rows, "cpu"), parts)
        assert len(data) == parts, (form, len(data))
        model.zero_grad()
        loss = sum(model(*batch) * share for batch, share in data)
        loss.backward()
        found[form, parts] = [loss.detach()] + [parameter.grad for parameter in model.parameters() if parameter.requires_grad]
        assert all(parameter.grad is None for parameter in model.parameters() if not parameter.requires_grad)
    for other in found.values():
        for a, b in zip(found["packed", 1], other):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-6)

# Padded batches have the documents of the rows, dealt out: padding costs what it costs of documents drawn at random, 2.9 times the tokens in the mean.
lengths = [[[range(count) for count in row] for row in batch] for batch in specs["qwen2.5-3b-packed"]["documents"]]
batches = [[len(tokens) for row in batch for tokens in row] for batch in documents.dealt(lengths)]
assert sorted(sum(batches, [])) == sorted(len(tokens) for batch in lengths for row in batch for tokens in row)
assert len(batches) == len(lengths) == 16 and max(map(len, batches)) - min(map(len, batches)) <= 1, list(map(len, batches))
padding = [len(batch) * max(batch) / sum(batch) for batch in batches]
assert 2.5 < sum(padding) / len(padding) < 3, padding
assert documents.padded(rows, "cpu")[0].shape[1] % documents.MULTIPLE == 0

# 4 bits are near the weight: half of the widest step between two of the 16 values, by the largest of 64.
linear = torch.nn.Linear(128, 64, bias=False)
packed = adapters.Nf4Linear(linear)
error = (packed(torch.eye(128)) - linear.weight.t()).abs().t().reshape(-1, adapters.BLOCK)
assert (error <= 0.16 * linear.weight.detach().view(-1, adapters.BLOCK).abs().amax(dim=1, keepdim=True)).all(), error.max()
print("the peers build the same models")
