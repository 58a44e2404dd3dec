"""Traces of made-up training steps on GPUs, laid out as Kineto writes them: operators, launches, kernels on several streams, NCCL's on
their own, copies, fills, waits, flows, names of processes. `write(path, seed, rank, ...)` writes one; as a program it repeats steps to a size:
    kineto_traces.py FILE MEGABYTES [RANK]"""
import gzip
import json
import random
import sys

GEMMS = ["sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
         "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_nn_align8>(cutlass_80_tensorop_bf16_s16816gemm::Params)",
         "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn"]
OTHERS = ["void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int, "
          "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
          "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, "
          "c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
          "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t> >(Flash_fwd_params)",
          "triton_poi_fused_gelu_3", "ampere_Sync_free_kernel", "void at::native::reduce_kernel<512, 1>(at::native::ReduceOp<float>)"]
NCCL = ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclKernel_SendRecv(ncclDevComm*, unsigned long, ncclWork*)"]
OPERATORS = ["aten::linear", "aten::addmm", "aten::layer_norm", "aten::native_layer_norm", "aten::gelu", "aten::scaled_dot_product_attention",
             "autograd::engine::evaluate_function: AddmmBackward0", "AddmmBackward0", "aten::mm", "aten::add", "aten::empty"]


class Maker:
    """Events of one rank, one after the other; times in nanoseconds from 0, written with three decimals."""

    def __init__(self, seed, rank=0, ranks=1, whole_us=False, streams=2):
        self.random = random.Random(seed * 1000003 + rank)
        self.rank, self.ranks, self.whole_us, self.streams = rank, ranks, whole_us, streams
        self.pid, self.thread, self.backward = 71000 + rank, 71000 + rank, 71900 + rank
        self.correlation, self.external, self.flow = self.random.randrange(1, 5000), 1, 1
        self.base = 5_000_000_000 + self.random.randrange(10**9)
        self.now = self.base
        self.free = {}  # when each stream can take the next kernel

    def time(self, ns):
        return str(ns // 1000) if self.whole_us else f"{ns // 1000}.{ns % 1000:03d}"

    def event(self, cat, name, pid, tid, begin, duration, args, phase="X", more=""):
        if self.whole_us:
            begin, duration = begin // 1000 * 1000, duration and max(duration // 1000, 1) * 1000
        head = f'  {{\n    "ph": "{phase}", "cat": "{cat}", "name": {json.dumps(name)}, "pid": {pid}, "tid": {tid},\n    "ts": {self.time(begin)}'
        if duration is not None and phase == "X":
            head += f', "dur": {self.time(duration)}'
        if more:
            head += ", " + more
        if args:
            head += ",\n    \"args\": {\n      " + args + "\n    }"
        return head + "\n  }"

    def operator(self, name, begin, duration, thread):
        r, self.external = self.random, self.external + 1
        args = f'"External id": {self.external},"Record function id": 0, "Ev Idx": {self.external - 1}'
        if r.random() < 0.5:
            dims = [[r.choice([8, 16]), 1024, r.choice([768, 1600, 3072])], [r.choice([768, 1600]), 768], []]
            args += f', "Input Dims": {json.dumps(dims)}, "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], "Concrete Inputs": ["", "", "0.1"]'
        return self.event("cpu_op", name, self.pid, thread, begin, duration, args)

    def launch(self, out, call, kernel_cat, kernel, stream, busy, collective=None, wait=0):
        """A call on the host at self.now and its work on the stream, not before `wait` and not before what the stream has."""
        r = self.random
        self.correlation += r.randrange(1, 4)
        cost = r.randrange(2500, 9000)
        begin = max(self.now + cost + r.randrange(500, 4000), self.free.get(stream, 0) + r.choice([0, 1000, 1500, 64, 40000]), wait)
        out.append(self.event("cuda_runtime", call, self.pid, self.thread, self.now, cost,
                              f'"External id": {self.external},"cbid": 211,"correlation": {self.correlation}'))
        common = f'"External id": {self.external},"queued": 0, "device": {self.rank % 8}, "context": 1,\n      "stream": {stream}, "correlation": {self.correlation}'
        if kernel_cat == "kernel":
            args = (f'{common},\n      "registers per thread": {r.choice([32, 40, 168])}, "shared memory": {r.choice([0, 99328])}, "blocks per SM": {r.random() * 40:.6f},\n'
                    f'      "warps per SM": {r.random() * 64:.6f},\n      "grid": [{r.choice([108, 132, 4096])}, {r.randrange(1, 5)}, 1],\n      "block": [{r.choice([128, 256, 384])}, 1, 1],\n'
                    f'      "est. achieved occupancy %": {r.randrange(101)}')
            if collective:
                args += (f',\n      "Collective name": "{collective}", "In msg nelems": {r.randrange(1 << 20)}, "Out msg nelems": {r.randrange(1 << 20)}, "Group size": {self.ranks}, '
                         f'"dtype": "BFloat16", "In split size": "[]", "Out split size": "[]",\n      "Process Group Name": "{r.choice("01")}", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]"')
        else:
            size = r.randrange(1 << 22)
            args = f'{common},\n      "bytes": {size}, "memory bandwidth (GB/s)": {size / busy:.6f}'
        out.append(self.event(kernel_cat, kernel, self.rank % 8, stream, begin, busy, args))
        self.flow += 1
        out.append(self.event("ac2g", "ac2g", self.rank % 8, stream, begin, None, "", "f", f'"id": {self.correlation}, "bp": "e"'))
        out.append(self.event("ac2g", "ac2g", self.pid, self.thread, self.now, None, "", "s", f'"id": {self.correlation}'))
        self.free[stream] = begin + busy
        self.now += cost + r.randrange(300, 6000)

    def step(self, number, layers=6, communicate=True):
        r, out, start = self.random, [], self.now
        for layer in range(layers):
            for part in range(3):
                outer, at = self.external, self.now
                self.now += r.randrange(1000, 5000)
                inner = r.choice(OPERATORS)
                begin = self.now
                for _ in range(r.randrange(1, 4)):
                    busy = int(r.lognormvariate(10, 1.2))
                    stream = 7 if r.random() < 0.8 or self.streams == 1 else 13 + r.randrange(self.streams - 1)
                    self.launch(out, "cudaLaunchKernel", "kernel", r.choice(GEMMS if r.random() < 0.5 else OTHERS), stream, max(busy, 1000))
                out.append(self.operator(inner, begin, self.now - begin, self.thread))
                self.now += r.randrange(500, 9000)
                out.append(self.operator(OPERATORS[outer % len(OPERATORS)], at, self.now - at, self.thread))
            if r.random() < 0.4:
                self.launch(out, "cudaMemcpyAsync", "gpu_memcpy", r.choice(["Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pageable -> Device)"]), 7, r.randrange(1000, 90000))
            if r.random() < 0.3:
                self.launch(out, "cudaMemsetAsync", "gpu_memset", "Memset (Device)", 7, r.randrange(1000, 3000))
            if communicate:
                name = r.choice(NCCL)
                self.launch(out, "cudaLaunchKernelExC", "kernel", name, 20, r.randrange(20000, 400000), "allreduce", self.free.get(7, 0) - r.randrange(0, 60000))
            if r.random() < 0.2:
                self.now += r.randrange(50_000, 500_000)  # the host is late
        wait = max(max(self.free.values()) - self.now, 1000)
        self.correlation += 1
        out.append(self.event("cuda_runtime", "cudaDeviceSynchronize", self.pid, self.thread, self.now, wait, f'"cbid": 165,"correlation": {self.correlation}'))
        out.append(self.event("cuda_sync", "Context Sync", self.rank % 8, -1, self.now, wait, f'"cuda_sync_kind": "Context Sync", "stream": -1, "correlation": {self.correlation}, "device": {self.rank % 8}, "context": 1'))
        self.now += wait + r.randrange(1000, 20000)
        self.external += 1
        out.append(self.event("user_annotation", f"ProfilerStep#{number}", self.pid, self.thread, start, self.now - start, f'"External id": {self.external},"Record function id": 0, "Ev Idx": {self.external}'))
        first = min(self.free.values())
        out.append(self.event("gpu_user_annotation", f"ProfilerStep#{number}", self.rank % 8, 7, start, max(self.now - start - 500, first - first), f'"External id": {self.external}'))
        self.now += r.randrange(500, 3000)
        return out

    def head(self):
        return ('{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {\n      "id": %d, "name": "NVIDIA H200", "totalGlobalMem": 150121873408,\n      "computeMajor": 9, "computeMinor": 0,\n'
                '      "maxThreadsPerBlock": 1024, "numSms": 132\n    }\n  ],\n  "cupti_version": 130000,\n  "distributedInfo": {"backend": "nccl", "rank": %d, "world_size": %d, "pg_count": 1, '
                '"pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": %d, "ranks": [0, 1]}], "nccl_version": "2.27.5"},\n'
                '  "with_flops": 0,\n  "record_shapes": 1,\n  "trace_id": "6E0A4BBA80E14E8A8D8A8F9A4C1B5C55",\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1759968000000000000,\n  "traceEvents": [\n'
                % (self.rank % 8, self.rank, self.ranks, self.ranks))

    def names(self):
        rows = []
        for pid, label in ((self.pid, "CPU"), (self.rank % 8, f"GPU {self.rank % 8}")):
            rows.append(f'  {{\n    "name": "process_name", "ph": "M", "ts": {self.time(self.base)}, "pid": {pid}, "tid": 0,\n    "args": {{\n      "name": "python"\n    }}\n  }}')
            rows.append(f'  {{\n    "name": "process_labels", "ph": "M", "ts": {self.time(self.base)}, "pid": {pid}, "tid": 0,\n    "args": {{\n      "labels": "{label}"\n    }}\n  }}')
        rows.append(f'  {{\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {self.time(self.base)}\n  }}')
        return rows

    def tail(self):
        end = self.time(self.now + 1000)
        return (f',\n  {{\n    "ph": "X", "cat": "Trace", "ts": {self.time(self.base)}, "dur": {self.time(self.now - self.base)}, "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)",\n'
                f'    "args": {{\n      "Op count": 0\n    }}\n  }},\n  {{\n    "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": {end}\n  }}\n  ],\n  "traceName": "rank{self.rank}.json"\n}}\n')


def write(path, seed, rank=0, ranks=1, steps=4, layers=6, communicate=True, whole_us=False, streams=2, first_step=10):
    maker = Maker(seed, rank, ranks, whole_us, streams)
    events = maker.names()
    for step in range(steps):
        events += maker.step(first_step + step, layers, communicate)
    text = maker.head() + ",\n".join(events) + maker.tail()
    with (gzip.open(path, "wt") if str(path).endswith(".gz") else open(path, "w")) as file:
        file.write(text)


if __name__ == "__main__":
    size = int(sys.argv[2]) << 20
    maker = Maker(1, int(sys.argv[3]) if len(sys.argv) > 3 else 0, 8)
    with open(sys.argv[1], "w") as file:
        file.write(maker.head() + ",\n".join(maker.names()))
        step = 0
        while file.tell() < size:
            step += 1
            file.write(",\n" + ",\n".join(maker.step(step, 24)))
        file.write(maker.tail())
