"""The native engine, compiled from native/: what regard.kernels.native calls."""

from typing import Any

def __getattr__(name: str) -> Any: ...
