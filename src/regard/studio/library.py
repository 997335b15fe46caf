"""The available models: the catalogue, and one named on the command line; loaded on first use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from regard.models import store
from regard.models.model import model
from regard.reading.reader import Reader
from regard.studio.auth import Refused
from regard.viewer.similar import models_here

LOADED = 2  # models in memory at once
QUICK = 1_500  # characters that a small model reads between two keystrokes


class Library:
    """Models by name. A page can only ask for names known beforehand, never for files."""

    def __init__(
        self,
        chosen: str | None = None,
        load: Callable[[str], Reader] | None = None,
        fetch: Callable[[str], Any] | None = None,
    ) -> None:
        self._load = model if load is None else load
        self._fetch = store.get if fetch is None else fetch
        self._names = {name: entry.what for name, entry in store.CATALOGUE.items()}
        self.usual = chosen or "minilm"
        if self.usual not in self._names:
            self._names[self.usual] = "named on the command line"
        self._loaded: OrderedDict[str, Reader] = OrderedDict()
        self._lock = threading.Lock()
        self._loading = threading.Lock()

    def list_models(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "about": about,
                "here": self.is_here(name),
                "default": name == self.usual,
                **{part: getattr(store.CATALOGUE.get(name), part, None) for part in ("size", "licence")},
            }
            for name, about in self._names.items()
        ]

    def is_here(self, name: str) -> bool:
        """Whether it needs no download."""
        return name in self._loaded or name not in store.CATALOGUE or name in models_here()

    def check_name(self, name: Any) -> str:
        """A known name; the default for None."""
        if name is None:
            return self.usual
        if not isinstance(name, str) or name not in self._names:
            raise Refused(400, f"Unknown model; available: {', '.join(self._names)}.")
        return name

    def check_here(self, name: str) -> None:
        """Refuse a model that would have to be downloaded first."""
        if not self.is_here(name):
            size = f"{store.CATALOGUE[name].size / 1e6:,.0f} MB"
            raise Refused(409, f"{name} is not on this machine: it has to be downloaded first ({size}).", download=name)

    def fetch(self, name: str, report: Callable[[str, int, int], None]) -> None:
        """Download a model; `report(what, bytes so far, bytes of the whole)` may raise to cancel."""
        from regard.models.progress import observed

        with observed(report):
            self._fetch(name)

    def longer(self, name: str, tokens: int) -> list[str]:
        """Other models that read this many tokens."""
        return [other for other, entry in store.CATALOGUE.items() if other != name and entry.longest >= tokens]

    def is_quick(self, name: str, text: str) -> bool:
        """Whether a text is read quickly enough to answer within the request."""
        return name in self._loaded and len(text) <= QUICK

    def model(self, name: str) -> Reader:
        """A model, loaded on first use."""
        with self._loading:
            with self._lock:
                if name in self._loaded:
                    self._loaded.move_to_end(name)
                    return self._loaded[name]
            model = self._load(name)
            with self._lock:
                self._loaded[name] = model
                while len(self._loaded) > LOADED:
                    self._loaded.popitem(last=False)
            return model
