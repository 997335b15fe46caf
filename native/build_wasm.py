"""Compiles the kernels for the page: python native/build_wasm.py regard.wasm. Needs the package ziglang.

The same sources and the same ziglang give the same bytes, wherever and whenever they are compiled.
"""

import subprocess
import sys
from pathlib import Path

NATIVE = Path(__file__).parent
# What every browser with SIMD has: Chrome 91, Firefox 89, Safari 16.4. Relaxed SIMD (fused multiply-adds) changed the
# time by 6% less to 5% more (Zen 4, Node 20).
FEATURES = "mvp+simd128+bulk_memory+sign_ext+nontrapping_fptoint+mutable_globals"
FLAGS = (
    "-target", "wasm32-wasi", f"-mcpu={FEATURES}", "-O3", "-DNDEBUG", "-std=c++17", "-fno-exceptions", "-fno-rtti",
    "-fno-threadsafe-statics", "-DREGARD_ISA=wasm", "-Wall", "-Wextra",
    "-Wno-for-loop-analysis", "-Wno-bitwise-conditional-parentheses",  # Clang's own, about what GCC accepts
)  # fmt: skip
MODULE = ("-mexec-model=reactor", "-Wl,--no-entry", "-Wl,-z,stack-size=524288", "-s", "wasm.cpp", "wasm_runtime.cpp")
SELFTEST = ("engine.cpp", "selftest.cpp", "wasm_runtime.cpp", "wasm_selftest.cpp")  # a program for Node's WASI


def build(path: Path, what: tuple[str, ...] = MODULE) -> None:
    """Compile into `path`, which is replaced only by a whole file."""
    partial = path.with_suffix(".partial")
    command = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *what, "-o", str(partial.resolve())]
    subprocess.run(command, cwd=NATIVE, check=True)
    partial.chmod(0o644)
    partial.replace(path)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
