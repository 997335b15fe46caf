"""The open readings, each under an unguessable name; the least recently used are evicted."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Any

from regard.studio.auth import Refused
from regard.viewer.queries import Answers

MOST = 48
MOST_BYTES = 1 << 30


class Sessions:
    """Open subjects by name."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._answers: OrderedDict[str, Answers] = OrderedDict()
        self._kept: set[str] = set()
        self._lock = threading.Lock()
        self._most, self._most_bytes = most, most_bytes

    def put(self, subject: Any, keep: bool = False) -> tuple[str, Answers]:
        """Open a subject under a new name; with `keep` it is never evicted."""
        answers, name = Answers(subject), secrets.token_hex(8)
        with self._lock:
            self._answers[name] = answers
            if keep:
                self._kept.add(name)
            self._make_room(name)
        return name, answers

    def get(self, name: str) -> Answers:
        """The answers of an open subject."""
        with self._lock:
            if name not in self._answers:
                raise Refused(404, "This reading has been closed: read the text again.")
            self._answers.move_to_end(name)
            return self._answers[name]

    def remove(self, name: str) -> None:
        """Close a subject."""
        with self._lock:
            if name not in self._kept:
                self._answers.pop(name, None)

    def __len__(self) -> int:
        return len(self._answers)

    def _make_room(self, newest: str) -> None:
        def size(name: str) -> int:
            return self._answers[name].subject.bytes_of_arrays()

        for name in list(self._answers):
            others = [other for other in self._answers if other not in self._kept]
            if len(others) <= self._most and sum(map(size, others)) <= self._most_bytes:
                return
            if name != newest and name not in self._kept:
                del self._answers[name]
