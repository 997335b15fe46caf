"""The kernels of the page: compiled again, and checked as every instruction set is."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from ..modules import module_of

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "src/regard/web/engine/regard.wasm"
RUN = """
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";
const wasi = new WASI({ version: "preview1" });
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[1]), wasi.getImportObject());
process.exitCode = wasi.start(instance);
"""


@pytest.fixture
def builder():
    """native/build_wasm.py, where its compiler is installed."""
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("needs ziglang: `make test-all` installs it")
    return module_of(ROOT / "native/build_wasm.py")


@pytest.mark.slow
def test_the_committed_module_is_what_the_sources_give(builder, tmp_path, monkeypatch):
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))
    builder.build(tmp_path / "regard.wasm")
    same = (tmp_path / "regard.wasm").read_bytes() == MODULE.read_bytes()
    assert same, "native/ and web/engine/regard.wasm differ: run `make wasm` and commit the file"


@pytest.mark.slow
def test_webassembly_is_right_in_node(builder, tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs Node")
    builder.build(tmp_path / "selftest.wasm", builder.SELFTEST)
    # With threads of its own Node 20 sometimes crashes at its end, after all was right.
    command = [node, "--single-threaded", "--input-type=module", "--eval", RUN, tmp_path / "selftest.wasm"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "wasm: all right" in ended.stdout


def test_the_module_imports_nothing_and_is_small():
    """A page instantiates it without a shim, and loads it before the first picture."""
    data = MODULE.read_bytes()
    assert data[:8] == b"\0asm\1\0\0\0"
    sections, at = [], 8
    while at < len(data):
        kind, at, size, shift = data[at], at + 1, 0, 0
        while True:
            byte, at = data[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        sections.append(kind)
        at += size
    assert 2 not in sections  # imports
    assert 0 not in sections  # names, producers: what could hold a path
    assert len(data) < 256_000
