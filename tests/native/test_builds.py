"""The kernel by itself, without Python, built the ways that find what a normal run hides."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..modules import module_of
from ..patterns import search

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def program(name: str) -> str:
    """The path of a program, looked for beside this Python first: `make` installs CMake and Ninja there."""
    path = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if path is None:
        pytest.skip(f"needs {name}: `make test-all` installs it")
    return path


def run(*command: str | Path, **environment: str) -> str:
    """Run to the end and give back all it said; the test fails with that if it failed."""
    finished = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env=os.environ | environment, timeout=1800,
    )  # fmt: skip
    assert finished.returncode == 0, f"{' '.join(map(str, command))}\n{finished.stdout}"
    return finished.stdout


def build(folder: Path, *options: str, compiler: str | None = "c++") -> Path:
    """Build the kernel and its self-test in `folder`, and give back the path of the self-test."""
    cmake, ninja = program("cmake"), program("ninja")
    if compiler is not None:
        options = (f"-DCMAKE_CXX_COMPILER={program(compiler)}", *options)
    run(cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", *options)
    run(cmake, "--build", folder, "--target", "regard_selftest", "--parallel", "2")
    return folder / "regard_selftest"


def test_kernel_is_clean_under_sanitizers(tmp_path):
    selftest = build(tmp_path, "-DREGARD_SANITIZE=address,undefined")
    # Without detect_stack_use_after_return: GCC 12 misaligns vectors of 64 bytes on the stack that it uses then.
    run(selftest, ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")


def test_neon_is_right_under_an_emulator(tmp_path):
    emulator = program("qemu-aarch64")
    selftest = build(
        tmp_path, "-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64", compiler="aarch64-linux-gnu-g++"
    )
    assert "neon" in run(emulator, "-L", "/usr/aarch64-linux-gnu", selftest)


@pytest.mark.parametrize(
    ("target", "system", "magic"),
    [
        ("aarch64-macos", "Darwin", b"\xcf\xfa\xed\xfe\x0c"),
        ("x86_64-macos", "Darwin", b"\xcf\xfa\xed\xfe\x07"),
        ("x86_64-windows-gnu", "Windows", b"MZ"),
    ],
)
def test_kernel_compiles_for_other_systems(target, system, magic, tmp_path):
    """Compiled and linked with Zig, which is not the compiler of the wheels; what it makes cannot run here."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs ziglang: `make test-all` installs it")
    wheels = module_of(ROOT / "native/build_wheels.py")
    selftest = build(
        tmp_path, f"-DCMAKE_SYSTEM_NAME={system}", "-DREGARD_OPTIMISE=-O1",
        *wheels.compiler(target, tmp_path / "zig"), compiler=None,
    )  # fmt: skip
    program = selftest.with_suffix(".exe") if system == "Windows" else selftest
    assert program.read_bytes().startswith(magic)


def test_instruction_sets_share_no_inline_function(tmp_path):
    """The linker keeps one copy of an inline function: were it that of AVX-512, older machines would crash."""
    build(tmp_path)
    objects = sorted(tmp_path.rglob("engine.cpp.o"))
    assert objects
    for compiled in objects:
        instruction_set = search(r"regard_engine_(\w+)\.dir", str(compiled))[1]
        symbols = run(program("nm"), "--demangle", "--defined-only", compiled).splitlines()
        shared = [symbol for symbol in symbols if " W " in symbol]
        if instruction_set != "plain":
            assert not [symbol for symbol in shared if f"{instruction_set}::" not in symbol]
