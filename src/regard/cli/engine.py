"""`regard engine`: the engine that computes attention."""

from __future__ import annotations

from regard.cli import terminal
from regard.engines import select


def engine() -> None:
    """Print which engine computes attention, and why it was chosen."""
    terminal.show([str(select.engine())])
