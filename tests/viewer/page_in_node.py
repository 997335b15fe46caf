"""One-file pages queried by Node, with the source that runs in the page itself."""

import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from ..node import node


class PageError(Exception):
    """What the page shows if it cannot answer."""


def ask_page(text, queries):
    """Answers of a page to (kind, parameters), each as (header, arrays)."""
    with tempfile.TemporaryDirectory() as folder:
        page, asked = Path(folder, "page.html"), Path(folder, "queries.json")
        page.write_text(text, encoding="utf-8", errors="replace")
        asked.write_text(json.dumps(queries), encoding="utf-8")
        script = Path(__file__).with_name("ask_page.js")
        ended = subprocess.run([node(), script, page, asked], capture_output=True, text=True, encoding="utf-8")
    assert ended.returncode == 0, ended.stderr
    return [_answer(answer) for answer in json.loads(ended.stdout)]


def _answer(answer):
    if "error" in answer:
        raise PageError(answer["error"])
    arrays = {
        name: np.array([float(number.replace("Infinity", "inf")) for number in found["data"]]).reshape(found["shape"])
        for name, found in answer["arrays"].items()
    }
    return answer["header"], arrays


def page_weights(text, layer, heads, count):
    """(head, query, key) of a page."""
    asked = [("row", {"layer": layer, "heads": list(heads), "query": query}) for query in range(count)]
    return np.stack([arrays["weight"] for _, arrays in ask_page(text, asked)], axis=1)
