"""ARCHITECTURE.md and CONTRIBUTING.md name files that exist; the map of packages is that of the import test."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = (ROOT, ROOT / "src" / "regard", ROOT / "src" / "regard" / "web" / "views" / "sentence",
          ROOT / "src" / "regard" / "web", ROOT / "native")  # fmt: skip


@pytest.mark.parametrize(("page", "least"), [("ARCHITECTURE.md", 30), ("CONTRIBUTING.md", 20)])
def test_every_file_it_names_exists(page, least):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+\.(?:py|js|h|cpp|md|txt|wasm))`", text))
    assert len(named) > least
    everywhere = {path.name for folder in ("src", "native") for path in (ROOT / folder).rglob("*") if path.is_file()}
    everywhere |= {path.name for path in ROOT.iterdir() if path.is_file()}
    missing = [
        name
        for name in named
        if not (name in everywhere if "/" not in name else any((place / name).is_file() for place in PLACES))
    ]
    assert missing == []


def test_the_map_of_packages_is_current():
    drawn = runpy.run_path(str(ROOT / "docs" / "draw_packages.py"))["draw"]()
    assert (ROOT / "docs" / "packages.svg").read_text(encoding="utf-8") == drawn, "run `make picture`"


def test_every_package_is_on_the_map():
    about = runpy.run_path(str(ROOT / "docs" / "draw_packages.py"))["ABOUT"]
    packages = {path.parent.name for path in (ROOT / "src" / "regard").glob("*/__init__.py")}
    assert packages <= set(about)
