"""The documentation is true: its code runs, its commands exist, its links lead somewhere."""

import ast
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from typer.core import TyperGroup
from typer.main import get_command

from regard.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@page
def test_python_runs(page, tmp_path, monkeypatch):
    """Blocks of one page run one after the other, as a reader would type them; `# → x` is what that line gives."""
    monkeypatch.chdir(tmp_path)  # where some write files
    names = {"__name__": "page"}
    np.random.seed(0)  # noqa: NPY002 - pages that make arrays up do so the short way
    for block in blocks(page.read_text(encoding="utf-8"), "python"):
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            code, _, promised = "\n".join(lines[statement.lineno - 1 : statement.end_lineno]).partition("# → ")
            if promised:
                assert str(eval(code, names)) == promised.strip()
            else:
                exec(code, names)


@page
def test_commands_exist(page):
    """Every `make x` is a target of the Makefile, every `regard x` a command."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    commands = set(group.commands)
    text = page.read_text(encoding="utf-8")
    shell = "\n".join([*blocks(text, "sh"), *re.findall(r"`([^`\n]+)`", text)])
    assert set(re.findall(r"^make ([a-z-]+)", shell, flags=re.MULTILINE)) <= targets
    assert set(re.findall(r"^regard ([a-z]+)", shell, flags=re.MULTILINE)) <= commands


@page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def test_readme_names_the_two_commands():
    install, commands = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "sh")
    assert install.startswith("pip install regard\nregard see ")
    assert [line.split("#")[0].strip() for line in commands.splitlines()] == ["make demo", "make test"]


def test_readme_keeps_the_place_of_the_benchmark_table():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("<!-- bench:start -->") < text.index("<!-- bench:end -->")


def test_picture_is_what_the_demo_prints():
    drawing = runpy.run_path(str(ROOT / "docs" / "draw_picture.py"), run_name="drawing")
    assert drawing["PICTURE"].read_text(encoding="utf-8") == drawing["draw"](), "run `make picture`"


def test_pictures_of_the_lessons_are_what_the_library_draws():
    drawing = runpy.run_path(str(ROOT / "docs" / "draw_lessons.py"), run_name="drawing")
    pictures = {name: str(picture) for name, picture in (drawing["draw"]() | drawing["draw_model"]()).items()}
    committed = {path.stem: path.read_text(encoding="utf-8") for path in drawing["FOLDER"].glob("*.svg")}
    assert committed == pictures, "run `make picture`"


def test_lessons_have_the_parts_of_a_lesson():
    lessons = sorted((ROOT / "docs" / "lessons").glob("*.md"))
    assert [int(path.name[:2]) for path in lessons] == list(range(1, 13))
    for path, following in zip(lessons, [*lessons[1:], None], strict=True):
        text = path.read_text(encoding="utf-8")
        assert len(re.findall(r"^!\[", text, flags=re.MULTILINE)) >= 3, path.name
        assert text.count("<details><summary>Answer</summary>\n\n") == text.count("\n\n</details>\n") >= 3, path.name
        assert "## What you can now explain" in text and (following is None or f"({following.name})" in text), path.name
