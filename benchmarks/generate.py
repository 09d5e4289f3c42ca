"""Writes large traces as torch.profiler writes them: for benchmarks, not for tests of meaning.

    python benchmarks/generate.py FILE.json[.gz] [--megabytes 200] [--stacks]

A step is a forward pass on the main thread (regions, nested operators, launches through both
interfaces), a backward pass on the autograd thread and an optimizer, with the kernels, flow arrows
and template names that go with them; whitespace, key order and three decimals are Kineto's. The
same arguments give the same file.
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MAIN, AUTOGRAD, STREAM = 4242, 4311, 7
LAYERS = 24
BASE_US = 5_095_883_000_000.0
_HEAD = """
{
  "schemaVersion": 1,
  "deviceProperties": [
  {
    "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320,
    "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 132
  }
  ],
  "cuda_driver_version": 13000,
  "cuda_runtime_version": 13000,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1790857026000000000,
  "traceEvents": [
"""
_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::{0}(at::TensorIteratorBase&)::{{lambda()#2}}"
    "::operator()() const::{{lambda()#4}}::operator()() const::{{lambda(c10::BFloat16)#1}}, std::array<char*, 2ul> >"
    "(int, at::native::{0}(at::TensorIteratorBase&)::{{lambda()#2}}::operator()() const::{{lambda(c10::BFloat16)#1}}, "
    "std::array<char*, 2ul>)"
)
_KERNELS = {
    "aten::addmm": "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_bias_TNT",
    "aten::gelu": _ELEMENTWISE.format("GeluCUDAKernelImpl"),
    "aten::add": _ELEMENTWISE.format("CUDAFunctor_add"),
    "aten::mul": _ELEMENTWISE.format("AUnaryFunctor"),
    "aten::native_layer_norm": "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
    "float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, "
    "c10::BFloat16*)",
    "aten::_scaled_dot_product_flash_attention": "void pytorch_flash::flash_fwd_kernel<pytorch_flash::"
    "Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t, pytorch_flash::Flash_kernel_traits<64, "
    "128, 128, 4, cutlass::bfloat16_t> >, false, false, false, false, true, true, false, false>"
    "(pytorch_flash::Flash_fwd_params)",
    "aten::mm": "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopB_NNT",
    "aten::_fused_adamw_": "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool, bool, float*, float*>"
    "(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>)",
}
_FORWARD = (
    ("aten::layer_norm", "aten::native_layer_norm"),
    ("aten::linear", "aten::addmm"),
    ("aten::scaled_dot_product_attention", "aten::_scaled_dot_product_flash_attention"),
    ("aten::linear", "aten::addmm"),
    ("aten::add", "aten::add"),
    ("aten::gelu", "aten::gelu"),
)
_BACKWARD = (("AddmmBackward0", "aten::mm"), ("GeluBackward0", "aten::mul"), ("AddBackward0", "aten::add"))


class Writer:
    """Rows in Kineto's spelling, with ids and times that go on."""

    def __init__(self, seed: int) -> None:
        """Start at the beginning of a recording."""
        self.random = random.Random(seed)
        self.now_us = BASE_US
        self.gpu_us = BASE_US
        self.id = 20_000
        self.sequence = 0
        self.python_id = 0

    def step(self, number: int, *, stacks: bool) -> Iterator[str]:
        """Yield the rows of one training step: 217 kernels, 627 operators, 434 arrows."""
        begun = self.now_us
        inside: list[str] = []
        forward = self.now_us
        for layer in range(LAYERS):
            inside += self._frames(layer) if stacks else []
            for outer, inner in _FORWARD:
                inside += self._op(outer, inner, MAIN)
        inside.append(_range("user_annotation", "forward", MAIN, forward, self.now_us - forward))
        backward = self.now_us
        for _ in range(LAYERS):
            for node, inner in _BACKWARD:
                inside += self._op(f"autograd::engine::evaluate_function: {node}", inner, AUTOGRAD, through=node)
        inside.append(_range("user_annotation", "backward", MAIN, backward, self.now_us - backward))
        inside += self._op("Optimizer.step#AdamW.step", "aten::_fused_adamw_", MAIN)
        self.now_us += 40
        yield _range("user_annotation", f"ProfilerStep#{number}", MAIN, begun, self.now_us - begun)
        yield from inside

    def _op(self, outer: str, inner: str, thread: int, through: str | None = None) -> list[str]:
        names = [outer, *([through] if through else []), "aten::t", inner] if outer != inner else [inner]
        start, depth = self.now_us, len(names)
        self.sequence += 1
        rows = []
        for level, name in enumerate(names):
            self.id += 1
            leaf = name == "aten::t"
            length = 1.5 if leaf else 14.25 - 2 * level
            rows.append(self._cpu_op(name, thread, start + 2 * level, length))
        launch_us = start + 2 * depth - 1 + self.random.randrange(1000) / 1000
        rows += self._launch(inner, thread, launch_us)
        self.now_us = start + 15.5
        return rows

    def _cpu_op(self, name: str, thread: int, ts: float, dur: float) -> str:
        return (
            f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": {MAIN}, "tid": {thread},\n'
            f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      "External id": {self.id},'
            f'"Record function id": 0, "Sequence number": {self.sequence}, "Fwd thread id": 0, "Ev Idx": {self.id}\n'
            f"    }}\n  }}"
        )

    def _launch(self, op: str, thread: int, ts: float) -> list[str]:
        self.id += 1
        correlation, length = self.id, 2 + self.random.randrange(9000) / 1000
        matrix = op in ("aten::addmm", "aten::mm")
        cat, call, cbid = (
            ("cuda_driver", "cuLaunchKernelEx", 652) if matrix else ("cuda_runtime", "cudaLaunchKernel", 211)
        )
        self.gpu_us = max(self.gpu_us, ts + 6) + 0.832
        began = self.gpu_us
        self.gpu_us += length
        shared = 213188 if matrix else 0
        return [
            f'  {{\n    "ph": "X", "cat": "{cat}", "name": "{call}", "pid": {MAIN}, "tid": {thread},\n'
            f'    "ts": {ts:.3f}, "dur": 4.137,\n    "args": {{\n      "External id": {correlation - 1},      '
            f'"cbid": {cbid}, "correlation": {correlation}\n    }}\n  }}',
            _flow("s", correlation, MAIN, thread, ts),
            f'  {{\n    "ph": "X", "cat": "kernel", "name": "{_KERNELS[op]}", "pid": 0, "tid": {STREAM},\n'
            f'    "ts": {began:.3f}, "dur": {length:.3f},\n    "args": {{\n      "External id": {correlation - 1},      '
            f'"queued": 0, "device": 0, "context": 1,      "stream": {STREAM}, "correlation": {correlation},      '
            f'"registers per thread": {168 if matrix else 32},      "shared memory": {shared},      "blocks per SM": '
            f'1.939394,      "warps per SM": 12.000000,      "grid": [{2 if matrix else 256}, 66, 1],      "block": '
            f'[{384 if matrix else 128}, 1, 1],      "est. achieved occupancy %": {0 if matrix else 12}\n    }}\n  }}',
            _flow("f", correlation, 0, STREAM, began),
        ]

    def _frames(self, layer: int) -> list[str]:
        rows = []
        for depth, place in enumerate(("nn/modules/module.py(1775): _call_impl", f"model.py({layer}): forward") * 6):
            self.python_id += 1
            rows.append(
                f'  {{\n    "ph": "X", "cat": "python_function", "name": "torch/{place}", "pid": {MAIN}, "tid": {MAIN},'
                f'\n    "ts": {self.now_us + depth * 0.1:.3f}, "dur": 90.125,\n    "args": {{\n      "Python parent '
                f'id": {self.python_id - 1}, "Python id": {self.python_id}, "Ev Idx": {self.python_id}\n    }}\n  }}'
            )
        return rows


def _range(category: str, name: str, thread: int, ts: float, dur: float) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {MAIN}, "tid": {thread},\n'
        f'    "ts": {ts:.3f}, "dur": {dur:.3f},\n    "args": {{\n      "Ev Idx": 0\n    }}\n  }}'
    )


def _flow(phase: str, number: int, process: int, thread: int, ts: float) -> str:
    end = ', "bp": "e"' if phase == "f" else ""
    return (
        f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {process}, "tid": {thread}, "ts": {ts:.3f},\n'
        f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}'
    )


def write(path: Path, megabytes: float, *, stacks: bool = False, seed: int = 0) -> int:
    """Write a trace of about *megabytes* of JSON and return the number of its events."""
    steps = _steps_for(megabytes * 1e6, stacks=stacks, seed=seed)
    events = 0
    with _opened(path) as file:
        file.write(_HEAD)
        # Kineto writes what the CPU profiler saw first, then runtime calls, GPU events and arrows.
        for of_cpu in (True, False):
            writer = Writer(seed)
            for number in range(steps):
                rows = [row for row in writer.step(number, stacks=stacks) if _is_of_cpu(row) is of_cpu]
                file.write(("" if events == 0 else ",\n") + ",\n".join(rows))
                events += len(rows)
        file.write('\n  ],\n  "traceName": "generated.json"\n}\n')
    return events


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "wt", compresslevel=6) if path.suffix == ".gz" else path.open("w")


def _steps_for(size: float, *, stacks: bool, seed: int) -> int:
    writer, written, number = Writer(seed), 0, 0
    sample = 3
    for number in range(sample):
        written += sum(len(row) + 2 for row in writer.step(number, stacks=stacks))
    return max(1, round(size / (written / sample)))


def _is_of_cpu(row: str) -> bool:
    return row.startswith(
        ('  {\n    "ph": "X", "cat": "cpu_op"', '  {\n    "ph": "X", "cat": "user', '  {\n    "ph": "X", "cat": "py')
    )


def main() -> None:
    """Write the file that the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--stacks", action="store_true", help="add Python frames, as with_stack=True does")
    options = parser.parse_args()
    print(f"{write(options.path, options.megabytes, stacks=options.stacks)} events in {options.path}")


if __name__ == "__main__":
    main()
