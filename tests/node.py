"""Node, which runs the page's JavaScript without a browser."""

import os
import shutil

import pytest


def node() -> str:
    """The path of Node. Without it, tests are skipped; in continuous integration they fail."""
    path = shutil.which("node")
    if path is not None:
        return path
    message = "needs Node: apt-get install nodejs"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
