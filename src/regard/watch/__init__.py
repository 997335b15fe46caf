"""Any Hugging Face or PyTorch model, observed while it runs: `with regard.watch(model) as seen`.

This package is callable: `regard.watch(model)` is `regard.watch.watch(model)`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from regard.errors import missing_package

try:
    import torch  # noqa: F401
except ImportError:
    raise missing_package("Watching a model", "torch") from None

from regard.watch import patch_source, regard_layers  # noqa: F401 - where `regard.edits.patch` finds `Seen`, and where `regard.training.Module` hands its attention over
from regard.watch.certificate import RecordingCertificate
from regard.watch.layer import Layers, WatchedLayer
from regard.watch.seen import Seen
from regard.watch.session import Watch, watch

__all__ = ["Layers", "RecordingCertificate", "Seen", "Watch", "WatchedLayer", "watch"]


class _Callable(ModuleType):
    """Importing a module of this package binds the package to the name `regard.watch`: so it must be callable."""

    __call__ = staticmethod(watch)

    @property
    def __signature__(self) -> Any:
        from inspect import signature

        return signature(watch)


sys.modules[__name__].__class__ = _Callable
