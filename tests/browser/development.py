"""A small server for people who work on the viewer: `python tests/browser/development.py`, then open its address.

It serves the modules as they are, under the studio's policy, and answers what they ask; nothing is guarded, so it
listens on this machine alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, cast

import numpy as np

from regard.attention import Attention
from regard.masks import causal
from regard.reading import Reading
from regard.studio.auth import POLICY
from regard.viewer import bundle

WEB = Path(__file__).parents[2] / "src" / "regard" / "web"
KINDS = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".wasm": "application/wasm"}
SMALL = "the kids were scared of the lions, so they left"
KIDS = "The kids were scared of the lions, so they left right away."
NASTY = [
    "</script>",
    "<img src=x onerror=alert(1)>",
    "שלום",
    "مرحبا",
    "👩‍👩‍👧‍👦",
    "a\x00b",
    "w" * 10_000,
    "new\nline",
    "&amp;",
    "ﷺ",
]
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Regard</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/web/start.css">
<script type="module" src="/web/start/{subject}.js"></script></head>
<body class="regard-page"><main id="regard"></main></body></html>
"""
START = """import {{ makeViewer }} from "./page/mount.js";
import {{ servedSource }} from "./sources/served.js";
const el = document.getElementById("regard");
const [model, wasm] = [servedSource("/ask/{subject}"), "/web/engine/regard.wasm"];
window.mountAgain = () => {{
  const viewer = makeViewer({{ el, wasm, address: true }});
  viewer.show(model);
  return viewer.cleanUp;
}};
window.cleanUp = window.mountAgain();
"""


def synthetic(words: list[str], *, layers: int = 3, heads: int = 4, size: int = 16, seeing: Any = None) -> Reading:
    """A reading with random heads, some of which attend to neighbours or to the first word."""
    rng = np.random.default_rng(7)
    count = len(words)
    attentions, values = [], []
    for layer in range(layers):
        queries, keys = rng.normal(size=(2, heads, count, size)).astype(np.float32)
        places = np.arange(count)[:, None] / 3.0
        turns = np.concatenate([np.cos(places * f) for f in (1, 0.5)] + [np.sin(places * f) for f in (1, 0.5)], axis=1)
        queries[layer % heads, :, :4] = keys[layer % heads, :, :4] = 3 * turns
        keys[:, 0, 4], queries[:, :, 4] = 4, 2
        attentions.append(Attention(queries, keys, mask=seeing))
        values.append(rng.normal(size=(heads, count, size)).astype(np.float32))
    reading = Reading.of(attentions, values, words=words, model="synthetic")
    tokens = tuple(replace(token, special=token.text in ("[CLS]", "[SEP]")) for token in reading.tokens)
    return replace(reading, tokens=tokens)


def worked() -> Any:
    """The cat sat, whose numbers the lecture notes print."""
    embeddings = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], np.float64)
    return Attention(embeddings, embeddings).explain(embeddings, words=["The", "cat", "sat"])


def look_up() -> Any:
    from regard import examples
    from regard.teaching.lookup import lookup

    return lookup(examples.named("jane").content)


@cache
def subject(name: str) -> Any:
    """What is shown under this name."""
    words = KIDS.replace(",", " ,").replace(".", " .").split()
    return {
        "kids": lambda: synthetic(["[CLS]", *words, "[SEP]"]),
        "meaning": lambda: subject("kids"),
        "causal": lambda: synthetic(words, seeing=causal()),
        "nasty": lambda: synthetic(NASTY + words, layers=1),
        "long": lambda: synthetic([f"{word}{place}" for place in range(100) for word in words], layers=2),
        "huge": lambda: synthetic([f"w{place}" for place in range(20_000)], layers=1, heads=2),
        "worked": worked,
        "lookup": look_up,
        "minilm": minilm,
        "writer": lambda: small_models().writer().read(SMALL),
        "encoder": lambda: small_models().encoder().read(SMALL),
    }[name]()


@cache
def small_models() -> Any:
    """The module tests/small_models.py."""
    spec = spec_from_file_location("small_models", Path(__file__).parents[1] / "small_models.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def minilm() -> Any:
    import regard

    return regard.model("minilm").read(KIDS)


MEANINGS = (("birth", "born"), ("date", "when"), ("place", "where"), ("name", "who", "called"), ("address", "live"))


class Meaning:
    """Stands for minilm: words of one group have the same vector."""

    name = "minilm"

    def embed(self, texts: list[str]) -> Any:
        found = np.array([[sum(word in text.lower() for word in group) for group in MEANINGS] for text in texts])
        vectors = np.hstack((found, np.full((len(texts), 1), 0.2)))
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@cache
def answers(name: str) -> Any:
    """What answers the questions about a subject; under "meaning", texts can be embedded, on any machine."""
    from regard.viewer.queries import answers_for
    from regard.viewer.similar import Embedder

    return answers_for(subject(name), Embedder(lambda: name == "meaning", cast(Any, Meaning)))


class Handler(BaseHTTPRequestHandler):
    """Files by GET, answers by POST."""

    is_edited = False  # then each load reads the modules again
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # header and body leave together

    def do_GET(self) -> None:
        path = self.path.split("?")[0].split("#")[0]
        if self.is_edited and path.count("/") == 1:
            start_script.cache_clear()
            bundle.style.cache_clear()
        if path == "/web/start.css":
            return self._send(bundle.style().encode(), "text/css")
        if path.startswith("/web/start/"):
            return self._send(start_script(path.removeprefix("/web/start/").removesuffix(".js")), "text/javascript")
        if path.startswith("/web/"):
            file = (WEB / path.removeprefix("/web/")).resolve()
            if file.is_file() and WEB in file.parents:
                return self._send(file.read_bytes(), KINDS.get(file.suffix, "application/octet-stream"))
        elif path.count("/") == 1:
            return self._send(PAGE.format(subject=path[1:] or "kids").encode(), "text/html")
        return self._send(b"{}", "application/json", 404)

    def do_POST(self) -> None:
        _, _, name, kind = self.path.split("/")
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self._send(answers(name).answer(kind, asked), "application/octet-stream")
        except Exception as error:  # noqa: BLE001 - whatever went wrong is what the page should say
            self._send(json.dumps({"error": str(error)}).encode(), "application/json", 400)

    def _send(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text") else kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@cache
def start_script(subject: str) -> bytes:
    """The page's modules as one script, as the studio has them: 170 requests take a second."""
    start = START.format(subject=subject)
    return bundle.join_modules("start.js", lambda path: start if path == "start.js" else bundle.web_file(path)).encode()


class Server(ThreadingHTTPServer):
    """A page that is closed while it loads is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def serve(port: int = 0) -> Server:
    return Server(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8765)
    server = serve(parser.parse_args().port)
    Handler.is_edited = True
    print(f"http://127.0.0.1:{server.server_port}/kids  (also: causal, nasty, long, huge, worked, lookup)")  # noqa: T201
    server.serve_forever()
