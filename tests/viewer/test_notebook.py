"""A real JupyterLab: a reading is the last line of a cell, and the viewer draws it from what the kernel answers."""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE = 60_000  # milliseconds
CELL = """
import numpy as np
from regard.attention import Attention
from regard.reading import Reading
rng = np.random.default_rng(0)
q, k, v = rng.normal(size=(3, 2, 5, 4))
Reading.of(Attention(q, k), v, words=["Keys", "belong", "to", "</script>", "Sarah"])
"""
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def notebook() -> str:
    cell = {"cell_type": "code", "id": "one", "source": CELL, "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]})


@pytest.fixture
def lab(tmp_path):
    """The address of a separate JupyterLab with one notebook in it."""
    missing = [name for name in ("jupyterlab", "ipykernel", "anywidget", "playwright") if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    work = tmp_path / "work"
    work.mkdir()
    (work / "reading.ipynb").write_text(notebook(), encoding="utf-8")
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")
    environment = {**os.environ, **{name: str(tmp_path / name) for name in places}, "PYTHONPATH": str(SOURCE)}
    environment |= {"JUPYTER_PLATFORM_DIRS": "1", "HOME": str(tmp_path)}
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
        f"--ServerApp.root_dir={work}", "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    ]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=work)
    said: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=pass_on, args=(running.stderr, said), daemon=True)
    reader.start()
    try:
        yield address_in(said), said
    finally:
        running.terminate()
        running.wait(60)
        reader.join(60)
        running.stderr.close()


def pass_on(lines, said):
    """Keep reading, so that the writer never blocks; an empty line is the end."""
    for line in lines:
        said.put(line)
    said.put("")


def address_in(said):
    """The address that JupyterLab prints when it is ready."""
    lines = []
    while line := said.get(timeout=PATIENCE / 1000):
        lines.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\S+", line):
            return found[0]
    pytest.fail("JupyterLab did not start:\n" + "".join(lines))


@pytest.mark.slow
def test_an_exported_notebook_shows_a_still_picture(tmp_path):
    """`nbconvert --execute` stores the widget's state, and the page then shows nothing in the widget's place."""
    if missing := [name for name in ("nbconvert", "ipykernel", "anywidget", "playwright") if find_spec(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed")
    from playwright.sync_api import sync_playwright

    (tmp_path / "reading.ipynb").write_text(notebook(), encoding="utf-8")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "reading.ipynb"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "IPYTHONDIR": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)
    system = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", system), args=FLAGS)
        page = browser.new_context(offline=True).new_page()
        page.goto((tmp_path / "reading.html").as_uri())
        assert page.locator("[data-regard-still] figure svg").is_visible()
        assert "Sarah" in page.inner_text("[data-regard-still]")
        browser.close()


@pytest.mark.slow
def test_a_reading_draws_itself_in_jupyterlab(lab):
    from playwright.sync_api import Error, sync_playwright

    first_address, said = lab
    address, token = first_address.split("/lab?")
    system = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", system), args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{address}/lab/tree/reading.ipynb?{token}")
        page.wait_for_selector(".jp-Notebook .jp-CodeCell .cm-content")
        page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()  # run before that, it asks for a kernel
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        try:
            page.wait_for_selector('.jp-OutputArea .regard[aria-busy="false"]')
        except Error:
            lines = [said.get() for _ in range(said.qsize())]
            pytest.fail("There is no viewer:\n" + page.inner_text("body") + "".join(lines)[-5000:])
        shown = page.inner_text(".jp-OutputArea .regard")
        browser.close()
    assert "Sarah" in shown and "</script>" in shown
    assert not [problem for problem in problems if "regard" in problem.lower()]
