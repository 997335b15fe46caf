"""What an install without a compiler gives: everything but the native engine."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("scikit_build_core", reason="builds a wheel with the build backend at hand")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with what `REGARD_NATIVE=off pip install .` puts into site-packages; no compiler is on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    finished = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, ROOT],
        env={"REGARD_NATIVE": "off", "PATH": str(folder), **home()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    (wheel,) = folder.glob("regard-*-py3-none-any.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def home() -> dict[str, str]:
    """The few variables that Windows needs to run anything at all."""
    return {name: os.environ[name] for name in ("HOME", "SYSTEMROOT", "TEMP", "USERPROFILE") if name in os.environ}


def test_package_is_complete(installed):
    names = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "regard").rglob("*.py*")}
    wanted = {name for name in names if name.endswith((".py", ".pyi", "py.typed"))}
    assert not {name for name in wanted if not (installed / name).is_file()}
    assert (installed / "regard" / "py.typed").is_file()
    assert (installed / "regard" / "web" / "engine" / "regard.wasm").read_bytes().startswith(b"\0asm")
    assert not [path for path in installed.rglob("_core.*") if path.suffix != ".pyi"]


def test_reference_engine_computes_where_nothing_was_compiled(installed):
    """-S leaves out the installed Regard; the rest of site-packages is looked up by path."""
    numpy_home = Path(__import__("numpy").__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-S", "-m", "regard", "engine"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(numpy_home)]), "PYTHONUTF8": "1"},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert "reference" in finished.stdout
