"""unpack_torch.py WHEELS DEPS: takes LibTorch's headers and CPU libraries out of the wheels, whole or not at all."""
import pathlib
import shutil
import sys
import zipfile

wheels, deps = map(pathlib.Path, sys.argv[1:3])
partial = deps / "partial"
shutil.rmtree(partial, ignore_errors=True)
GPU_ONLY = ("libtorch_cuda", "libtorch_nvshmem", "libtorch_python", "libnvperf", "libpcsampling", "libcheckpoint", "libshm")
for wheel in wheels.glob("*.whl"):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            library = name.startswith(("torch/lib/", "nvidia/cu13/lib/")) and not name.split("/")[-1].startswith(GPU_ONLY)
            if library or name.startswith("torch/include/"):
                archive.extract(name, partial)
for part in ("nvidia", "torch"):  # torch last: its presence means that all is there
    shutil.rmtree(deps / part, ignore_errors=True)
    (partial / part).rename(deps / part)
partial.rmdir()
