"""A hub on the loopback interface with configurable faults."""

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
    asked: list[tuple[str, str | None]] = field(default_factory=list)  # path and Range
    breaks: list[int] = field(default_factory=list)  # bytes after which the next answers break off
    ranges: bool = True  # whether it honours Range
    gate: threading.Event | None = None  # files wait for it, behind their first bytes
    begun: threading.Event = field(default_factory=threading.Event)  # a file's first bytes were sent

    def model(self, name: str, files: dict[str, bytes], licence: str = "mit", **lies: int) -> None:
        """Offer a model; `lies` are false sizes."""
        siblings = [
            {
                "rfilename": file,
                "size": lies.get(file.split(".")[0], len(content)),
                "lfs": {"sha256": hashlib.sha256(content).hexdigest()} if file.endswith(".safetensors") else None,
            }
            for file, content in files.items()
        ]
        answer = {"id": name, "sha": COMMIT, "cardData": {"license": licence}, "siblings": siblings}
        self.files[f"/api/models/{name}"] = json.dumps(answer).encode()
        for file, content in files.items():
            for revision in ("main", COMMIT):
                self.files[f"/{name}/resolve/{revision}/{file}"] = content

    def downloads(self) -> list[tuple[str, str | None]]:
        """The files that were requested, without API requests."""
        return [(path.rsplit("/", 1)[1], span) for path, span in self.asked if "/resolve/" in path]


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub that runs during the test."""
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, span = self.path.split("?")[0], self.headers.get("Range")
            state.asked.append((path, span))
            if path not in state.files:
                self.send_error(404)
                return
            content, first = state.files[path], 0
            if span and state.ranges:
                first = int(span.removeprefix("bytes=").rstrip("-"))
                if first >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            self.send(content[first:], "/resolve/" in path)

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
