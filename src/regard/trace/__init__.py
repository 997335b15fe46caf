"""Every step of attention as named numbers, as the table on the slides, and as calculations to follow by hand."""

from regard.trace.steps import NAMES, Step, Trace
from regard.trace.why import Why

__all__ = ["NAMES", "Step", "Trace", "Why"]
