"""Every step of attention as a named array, as the table of the slides, and as a written-out calculation."""

from regard.trace.named_steps import NAMES, Step
from regard.trace.trace import Trace
from regard.trace.why import Why

__all__ = ["NAMES", "Step", "Trace", "Why"]
