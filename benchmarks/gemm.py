"""GFLOP/s of the micro-kernels against onnxruntime, for contractions that the models contain.

Both sides run interleaved with the same number of threads; onnxruntime stops spinning after each
run. It reads NCHW where ours reads channels-last, as in our compiled models; its figure is the
better of its two highest optimisation levels. Usage: `python benchmarks/gemm.py [NAME_PART ...]`.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from egraph_fusion.codegen import microkernels, tiling

HERE = Path(__file__).parent
RUNTIME = HERE.parent / "codegen" / "runtime.c"
L1, L2 = 48 << 10, 1280 << 10
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
MERGED_BELOW = 8
"""Channels below which a convolution copies its input into a padded image and merges taps."""
ROUNDS, REPEATS = 7, 3
Array = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A convolution of an image, or (height 1, kernel 1) a matmul of `width` rows."""

    name: str
    channels: int
    filters: int
    height: int
    width: int
    kernel: int = 1
    stride: int = 1
    depthwise: bool = False

    @property
    def pad(self) -> int:
        """Rows and columns of zeros around the image."""
        return self.kernel // 2

    @property
    def out_shape(self) -> tuple[int, int]:
        """Height and width of the result."""
        return (self.height - 1) // self.stride + 1, (self.width - 1) // self.stride + 1

    @property
    def flops(self) -> int:
        """Two per multiply-add."""
        height, width = self.out_shape
        reduced = self.kernel**2 * (1 if self.depthwise else self.channels)
        return 2 * height * width * self.filters * reduced


CASES = (
    Case("conv 7x7 3->64 s2 224", 3, 64, 224, 224, 7, 2),
    Case("conv 3x3 3->64 s2 224", 3, 64, 224, 224, 3, 2),
    Case("conv 3x3 64->64 56", 64, 64, 56, 56, 3),
    Case("conv 3x3 128->128 28", 128, 128, 28, 28, 3),
    Case("conv 3x3 256->256 14", 256, 256, 14, 14, 3),
    Case("conv 3x3 512->512 7", 512, 512, 7, 7, 3),
    Case("conv 1x1 32->16 112", 32, 16, 112, 112),
    Case("conv 1x1 96->24 112", 96, 24, 112, 112),
    Case("conv 1x1 24->144 56", 24, 144, 56, 56),
    Case("conv 1x1 384->64 14", 384, 64, 14, 14),
    Case("conv 1x1 1280->320 7", 1280, 320, 7, 7),
    Case("depthwise 3x3 s1 144 56", 144, 144, 56, 56, 3, 1, True),
    Case("depthwise 3x3 s2 96 112", 96, 96, 112, 112, 3, 2, True),
    Case("depthwise 3x3 s1 960 7", 960, 960, 7, 7, 3, 1, True),
    Case("depthwise 5x5 s1 240 28", 240, 240, 28, 28, 5, 1, True),
    Case("gemm 128x768x768", 768, 768, 1, 128),
    Case("gemm 128x768x3072", 768, 3072, 1, 128),
    Case("gemm 128x3072x768", 3072, 768, 1, 128),
    Case("gemm 128x312x1200", 312, 1200, 1, 128),
    Case("gemm 128x64x128", 64, 128, 1, 128),
    Case("gemv 1x1280x1000", 1280, 1000, 1, 1),
    Case("gemv 1x768x50257", 768, 50257, 1, 1),
    Case("gemm 128x768x50257", 768, 50257, 1, 128),
)


def main() -> None:
    """Print a line per case and number of threads."""
    chosen = [c for c in CASES if not sys.argv[1:] or any(p in c.name for p in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder:
        ours = Kernels(Path(folder))
        print(f"{'case':26} threads {'ours':>8} {'peer':>8} GFLOP/s {'ratio':>6}  tiling")
        for case in chosen:
            for threads in (1, 2):
                print(compare(ours, case, threads), flush=True)


def compare(ours: "Kernels", case: Case, threads: int) -> str:
    """Measure both sides in turns, check that they agree, and return the printed line."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.height, case.width, case.channels), np.float32)
    inner = 1 if case.depthwise else case.channels
    shape = (case.filters, inner, case.kernel, case.kernel)
    weights = rng.standard_normal(shape, np.float32)
    bias = rng.standard_normal(case.filters, np.float32)
    mine, about = ours.prepare(case, x, weights, bias, threads)
    peers = [peer(case, x, weights, bias, threads, level) for level in (2, 99)]
    best, peer_best = 1e9, 1e9
    for _ in range(ROUNDS):
        seconds, result = mine()
        best = min(best, seconds)
        time.sleep(0.002)
        for run in peers:
            seconds, expected = run()
            peer_best = min(peer_best, seconds)
            time.sleep(0.002)
            scale = float(np.abs(expected).max())
            if float(np.abs(result - expected).max()) > 1e-4 * scale:
                raise SystemExit(f"{case.name}: the two sides disagree")
    rates = case.flops / best / 1e9, case.flops / peer_best / 1e9
    ratio = peer_best / best
    return f"{case.name:26} {threads:7} {rates[0]:8.1f} {rates[1]:8.1f} {ratio:14.2f}  {about}"


def peer(
    case: Case, x: Array, weights: Array, bias: Array, threads: int, level: int
) -> Callable[[], tuple[float, Array]]:
    """Return a function that runs onnxruntime a few times: best seconds, channels-last result."""
    constants = {"w": weights, "bias": bias}
    if case.height == 1:
        node = helper.make_node("Gemm", ["x", "w", "bias"], ["y"])
        constants["w"] = np.ascontiguousarray(weights.reshape(case.filters, -1).T)
        feed = x[0]
    else:
        node = helper.make_node("Conv", ["x", "w", "bias"], ["y"])
        group = case.channels if case.depthwise else 1
        node.attribute.extend(
            helper.make_attribute(name, value)
            for name, value in (
                ("pads", [case.pad] * 4),
                ("strides", [case.stride] * 2),
                ("group", group),
            )
        )
        feed = np.ascontiguousarray(x.transpose(2, 0, 1)[None])
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, feed.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = ort.GraphOptimizationLevel(level)
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model.SerializeToString(), options)

    def run() -> tuple[float, Array]:
        best, result = 1e9, np.zeros(0, np.float32)
        for _ in range(REPEATS):
            start = time.perf_counter()
            outputs: list[Any] = list(session.run(None, {"x": feed}))
            best = min(best, time.perf_counter() - start)
            result = outputs[0]
        if case.height > 1:
            result = result[0].transpose(1, 2, 0)
        return best, np.ascontiguousarray(result).reshape(-1, case.filters)

    return run


class Kernels:
    """The compiled micro-kernels, thread pool and driver."""

    def __init__(self, folder: Path) -> None:
        driver = (HERE / "gemm_driver.c").read_text()
        macros = subprocess.run(
            ["cc", "-march=native", "-dM", "-E", "-x", "c", "/dev/null"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.vl = 16 if "__AVX512F__" in macros else 8 if "__AVX__" in macros else 4
        text = [RUNTIME.read_text(), microkernels.prelude(self.vl)]
        text += [microkernels.igemm_source(m, v, "") for m, v in tiling.register_tiles(self.vl)]
        for kernel in (3, 5):
            text += [microkernels.dwconv_source(kernel**2, p, "") for p in (1, 4)]
            text += [microkernels.dwline_source(kernel, kernel, s, 1, 4, "") for s in (1, 2)]
        source, library_path = folder / "gemm.c", folder / "gemm.so"
        source.write_text("".join(text) + driver)
        subprocess.run(["cc", *FLAGS, str(source), "-o", str(library_path)], check=True)
        self.ffi: Any = cffi.FFI()
        struct = driver[driver.index("typedef struct {") : driver.index("} bench_job;")]
        for name in ("igemm_fn", "dwconv_fn", "dwline_fn"):
            struct = struct.replace(name, "void *")
        self.ffi.cdef(
            f"{struct}}} bench_job; void *ef_pool_create(int); void ef_pool_destroy(void *);"
            "double bench_run(void *, bench_job *, int, int);"
        )
        library: Any = self.ffi.dlopen(str(library_path))
        self.library = library
        self.kept: list[NDArray[np.int64]] = []
        self.pools = {threads: library.ef_pool_create(threads) for threads in (1, 2)}

    def symbol(self, name: str) -> Any:
        """Return the address of a kernel of the library."""
        self.ffi.cdef(f"void {name}(void);", override=True)
        return self.ffi.addressof(self.library, name)

    def prepare(
        self, case: Case, x: Array, weights: Array, bias: Array, threads: int
    ) -> tuple[Callable[[], tuple[float, Array]], str]:
        """Return a function that runs the case a few times, and what the schedule is."""
        height, width = case.out_shape
        m, n, taps, k = height * width, case.filters, case.kernel**2, case.channels
        merged = k < MERGED_BELOW and case.kernel > 1
        if merged:
            taps, k = case.kernel, case.kernel * k
        advice = tiling.schedule_contraction(m, n, k, taps, threads, L1, L2, self.vl)
        nr = advice.nv * self.vl
        matrix = weights.transpose(2, 3, 1, 0).reshape(-1, case.filters)
        packed = matrix.copy() if case.depthwise else microkernels.pack_panels(matrix, nr)
        tables = np.zeros(threads * 2 * (advice.mc + advice.mr) * taps, np.int64)
        padded = (case.height + 2 * case.pad) * (case.width + 2 * case.pad) * case.channels
        arrays = {
            "x": aligned(x),
            "b": aligned(packed),
            "bias": bias,
            "zeros": np.zeros(case.width * case.channels, np.float32),
            "copy": np.zeros(padded, np.float32),
            "out": aligned(np.zeros((m, n), np.float32)),
            "tiles": aligned(np.zeros(threads * advice.mc * nr, np.float32)),
        }
        job = self.ffi.new("bench_job *")
        self.kept.append(tables)
        for name, array in arrays.items():
            setattr(job, name, self.ffi.cast("float *", array.ctypes.data))
        job.tables = self.ffi.cast("const float **", tables.ctypes.data)
        job.table_size, job.tile_size = tables.size // threads, advice.mc * nr
        job.height, job.width, job.channels = x.shape
        job.out_height, job.out_width = height, width
        job.kh = job.kw = case.kernel
        job.stride, job.pad, job.n_outer = case.stride, case.pad, advice.order == "n_outer"
        job.m, job.n, job.k, job.taps, job.nr = m, n, k, taps, nr
        job.merged = merged
        job.mr, job.kc, job.tc, job.mc = advice.mr, advice.kc, advice.tc, advice.mc
        job.igemm = self.symbol(f"igemm_{advice.mr}x{advice.nv}")
        if case.depthwise:
            job.dwconv4 = self.symbol(f"dwconv_{taps}x4")
            job.dwconv1 = self.symbol(f"dwconv_{taps}x1")
            job.dwline = self.symbol(f"dwline_{case.kernel}x{case.kernel}x{case.stride}x1x4")

        def run() -> tuple[float, Array]:
            pool = self.pools[threads]
            seconds = self.library.bench_run(pool, job, case.depthwise, REPEATS)
            return seconds, arrays["out"]

        return run, "dwline" if case.depthwise else str(advice)


def aligned(array: Array) -> Array:
    """Return a copy that begins at a cache line, as arenas and packed weights do."""
    room = np.zeros(array.size + 16, np.float32)
    start = (-room.ctypes.data % 64) // 4
    copy = room[start : start + array.size].reshape(array.shape)
    copy[...] = array
    return copy


if __name__ == "__main__":
    main()
