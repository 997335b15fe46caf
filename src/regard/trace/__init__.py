"""Every step of attention as a named array, as the table of the slides, and as a written-out calculation."""

from regard.trace.trace import NAMES, Step, Trace
from regard.trace.why import Why

__all__ = ["NAMES", "Step", "Trace", "Why"]
