"""A hub on the loopback interface with configurable faults: what huggingface_hub asks of one, over plain HTTP."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 60.0  # seconds that the server waits for a test that went wrong


@dataclass
class Hub:
    """What it serves, with which faults, and the requests it received."""

    address: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # by path
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range of each GET
    breaks: list[int] = field(default_factory=list)  # bytes after which the next answers break off
    status: int = 0  # an error with which everything is answered
    token: str = ""  # which every request must have
    gated: bool = False  # files need a permission
    sizes: dict[str, int] = field(default_factory=dict)  # false sizes, by name
    etags: dict[str, str] = field(default_factory=dict)  # in place of hashes, by name
    gate: threading.Event | None = None  # files wait for it, behind their first bytes
    begun: threading.Event = field(default_factory=threading.Event)  # a file's first bytes were sent

    def model(self, name: str, files: dict[str, bytes], claimed: dict[str, bytes] | None = None) -> None:
        """Offer a model; the listing has the hashes of the files that are claimed, if they are others."""
        siblings = [
            {"rfilename": file, "size": len(content), "lfs": _lfs(content) if file.endswith(".safetensors") else None}
            for file, content in (files | (claimed or {})).items()
        ]
        self.files[f"/api/models/{name}"] = json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode()
        for file, content in files.items():
            for revision in ("main", COMMIT):
                self.files[f"/{name}/resolve/{revision}/{file}"] = content

    def downloads(self) -> list[tuple[str, str | None]]:
        """The files that were requested, without API requests."""
        return [(path.rsplit("/", 1)[1], span) for path, span in self.asked if "/resolve/" in path]


def _lfs(content: bytes) -> dict[str, object]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub that runs during the test."""
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if (content := self.content()) is not None:
                self.send_response(200)
                self.describe(content, len(content))

        def do_GET(self) -> None:
            path, span = self.path.split("?")[0], self.headers.get("Range")
            state.asked.append((path, span))
            content = self.content()
            if content is None:
                return
            first = int(span.removeprefix("bytes=").rstrip("-")) if span else 0
            self.send_response(206 if span else 200)
            if span:
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            self.describe(content, len(content) - first)
            self.send(content[first:], "/resolve/" in path)

        def content(self) -> bytes | None:
            """What the path names, or None after an error has been sent."""
            path = self.path.split("?")[0]
            is_file = "/resolve/" in path
            if state.status:
                self.fail(state.status)
            elif state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
                self.fail(401, "RepoNotFound")
            elif state.gated and is_file:
                self.fail(403, "GatedRepo")
            elif path not in state.files:
                self.fail(404, "EntryNotFound" if is_file else "RepoNotFound")
            else:
                return state.files[path]
            return None

        def describe(self, content: bytes, length: int) -> None:
            self.send_header("Content-Length", str(length))
            name = self.path.rsplit("/", 1)[1]
            self.send_header("ETag", f'"{state.etags.get(name) or hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            if claimed := state.sizes.get(name):
                self.send_header("X-Linked-Size", str(claimed))
            self.end_headers()

        def fail(self, status: int, code: str = "") -> None:
            self.send_response(status)
            if code:
                self.send_header("X-Error-Code", code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send(self, content: bytes, is_file: bool) -> None:
            if is_file and state.breaks:
                content = content[: state.breaks.pop(0)]
            if is_file and state.gate:
                self.wfile.write(content[:1000])
                state.begun.set()
                state.gate.wait(PATIENCE)
                content = content[1000:]
            self.wfile.write(content)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass  # a client that was killed in the middle

    with Server(("127.0.0.1", 0), Handler) as server:
        state.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            if state.gate:
                state.gate.set()
            server.shutdown()
            thread.join(PATIENCE)
