"""What an install without a compiler gives: everything but the native engine."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import regard

pytest.importorskip("scikit_build_core", reason="builds a wheel with the build backend at hand")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_package_has_the_licences_of_its_data(installed):
    (about,) = installed.glob("regard-*.dist-info")
    assert "CC BY-SA 4.0" in (about / "licenses" / "LICENSE-DATA.md").read_text(encoding="utf-8")
    assert "MIT License" in (about / "licenses" / "LICENSE").read_text(encoding="utf-8")
    assert "License-Expression: MIT AND CC-BY-SA-4.0" in (about / "METADATA").read_text(encoding="utf-8")


def test_pictures_are_those_that_the_documentation_shows(installed):
    """And no others: they are most of the wheel."""
    docs = ROOT / "docs"
    shown = {"pictures/vote.png"}  # in the README
    for page in docs.rglob("*.md"):
        for target in re.findall(r"!\[[^]]*\]\(([^)\s]+)", page.read_text(encoding="utf-8")):
            shown.add((page.parent / target).resolve().relative_to(docs).as_posix())
    pictures = {path.relative_to(installed / "regard" / "docs").as_posix() for path in installed.rglob("*.png")}
    assert {name for name in shown if name.endswith(".png")} == pictures
    assert not {name for name in shown if not (installed / "regard" / "docs" / name).is_file()}


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == regard.__version__
    assert re.search(rf"^version: {re.escape(regard.__version__)}$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert re.search(
        rf"^## {re.escape(regard.__version__)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )


def test_documented_extras_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `regard\[(\w+)\]`", page, re.MULTILINE)) == set(project["optional-dependencies"])


def test_reference_engine_computes_where_nothing_was_compiled(installed):
    """-S leaves out the installed Regard; the rest of site-packages is looked up by path."""
    import numpy

    numpy_home = Path(numpy.__file__).parents[1]
    finished = subprocess.run(
        [sys.executable, "-S", "-m", "regard", "engine"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(installed), str(numpy_home)]), "PYTHONUTF8": "1"},
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert "reference" in finished.stdout
