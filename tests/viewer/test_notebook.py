"""Real notebooks: a reading is the last line of a cell, and the viewer draws it from what the kernel answers."""

import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = int(os.environ.get("PATIENCE", 60_000))  # milliseconds
CELL = """
import numpy as np
from regard.attention import Attention
from regard.reading import Reading
rng = np.random.default_rng(0)
q, k, v = rng.normal(size=(3, 2, 5, 4))
Reading.of(Attention(q, k), v, words=["Keys", "belong", "to", "</script>", "Sarah"])
"""
KERNEL_READY = """() => {
  const context = globalThis.jupyterapp?.shell.currentWidget?.context?.sessionContext;
  return Boolean(context?.isReady && context.session?.kernel?.status === "idle");
}"""


def notebook() -> str:
    cell: dict[str, object] = {
        "cell_type": "code",
        "id": "one",
        "source": CELL,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]})


def needs(*packages: str) -> None:
    if missing := [name for name in packages if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed: `make test-all` installs them")


@contextmanager
def serving(tmp_path, pattern, *command):
    """The address that a server prints, by the pattern, and all its later lines."""
    folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    environment = {**os.environ, **{name: str(tmp_path / name) for name in folders}, "PYTHONPATH": str(SOURCE)}
    environment |= {"JUPYTER_PLATFORM_DIRS": "1", "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(
        [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        cwd=tmp_path / "work",
    )  # fmt: skip
    assert running.stdout is not None
    said: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=pass_on, args=(running.stdout, said), daemon=True)
    reader.start()
    try:
        yield address_in(said, pattern), said
    finally:
        running.terminate()
        running.wait(60)
        reader.join(60)
        running.stdout.close()


@pytest.fixture(params=["lab", "notebook"])
def jupyter(request, tmp_path):
    """The address of a notebook in a separate JupyterLab or Notebook 7."""
    kind = request.param
    needs("jupyterlab", "notebook", "ipykernel", "anywidget", "playwright")
    work = tmp_path / "work"
    work.mkdir()
    (work / "reading.ipynb").write_text(notebook(), encoding="utf-8")
    command = [
        {"lab": "jupyterlab", "notebook": "notebook"}[kind], "--no-browser", "--allow-root", "--ip=127.0.0.1",
        "--port=0", "--expose-app-in-browser", f"--ServerApp.root_dir={work}", "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    ]  # fmt: skip
    with serving(
        tmp_path, rf"(http://127\.0\.0\.1:\d+)/{'lab' if kind == 'lab' else 'tree'}\?(token=\S+)", *command
    ) as (found, said):
        page = "lab/tree" if kind == "lab" else "notebooks"
        yield f"{found[1]}/{page}/reading.ipynb?{found[2]}", said


def pass_on(lines, said):
    """Keep reading, so that the writer never blocks; an empty line is the end."""
    for line in lines:
        said.put(line)
    said.put("")


def address_in(said, pattern):
    """The match of the address that a server prints when it is ready."""
    lines = []
    while line := said.get(timeout=PATIENCE / 1000):
        lines.append(line)
        if found := re.search(pattern, line):
            return found
    pytest.fail("The server did not start:\n" + "".join(lines))


@contextmanager
def page_of(chromium, **context):
    """A page of the browser, and the errors that its scripts raise."""
    opened = chromium.new_context(**context)
    page = opened.new_page()
    page.set_default_timeout(PATIENCE)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    try:
        yield page, problems
    finally:
        opened.close()


def shown_in(page, selector, said):
    """The text of the viewer at a selector, when it has drawn itself."""
    from playwright.sync_api import Error

    try:
        page.wait_for_selector(f'{selector} .regard[aria-busy="false"]')
    except Error:
        lines = [said.get() for _ in range(said.qsize())]
        pytest.fail("There is no viewer:\n" + page.inner_text("body") + "".join(lines)[-5000:])
    return page.locator(f"{selector} .regard").first.inner_text()


@pytest.mark.slow
def test_an_exported_notebook_shows_a_still_picture(tmp_path, chromium):
    """`nbconvert --execute` stores the widget's state, and the page then shows nothing in the widget's place."""
    needs("nbconvert", "ipykernel", "anywidget", "playwright")
    (tmp_path / "reading.ipynb").write_text(notebook(), encoding="utf-8")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "reading.ipynb"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    with page_of(chromium, offline=True) as (page, _):
        page.goto((tmp_path / "reading.html").as_uri())
        assert page.locator("[data-regard-still] figure svg").is_visible()
        assert "Sarah" in page.inner_text("[data-regard-still]")


@pytest.mark.slow
def test_a_reading_draws_itself_in_jupyter(jupyter, chromium):
    address, said = jupyter
    with page_of(chromium, viewport={"width": 1400, "height": 1000}) as (page, problems):
        page.goto(address)
        page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
        page.wait_for_function(KERNEL_READY)  # run before that, it asks for a kernel or runs nothing
        page.locator(".jp-Notebook .jp-CodeCell .cm-content").click()
        page.keyboard.press("Shift+Enter")
        shown = shown_in(page, ".jp-OutputArea", said)
    assert "Sarah" in shown and "</script>" in shown
    assert not [problem for problem in problems if "regard" in problem.lower()]


@pytest.mark.slow
def test_a_reading_draws_itself_in_marimo(tmp_path, chromium):
    needs("marimo", "anywidget", "playwright")
    work = tmp_path / "work"
    work.mkdir()
    cell = "".join(f"    {line}\n" for line in CELL.strip().splitlines())
    (work / "reading.py").write_text(f"import marimo\napp = marimo.App()\n\n\n@app.cell\ndef _():\n{cell}    return\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ("marimo", "run", "reading.py", "--headless", "--no-token", "--host=127.0.0.1", f"--port={port}")
    with (
        serving(tmp_path, r"http://(127\.0\.0\.1|localhost):\d+", *command) as (_, said),
        page_of(chromium, viewport={"width": 1400, "height": 1000}) as (page, problems),
    ):
        page.goto(f"http://127.0.0.1:{port}/")
        shown = shown_in(page, "marimo-anywidget", said)
    assert "Sarah" in shown and "</script>" in shown
    assert not [problem for problem in problems if "regard" in problem.lower()]
