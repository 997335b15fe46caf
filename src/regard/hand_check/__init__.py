"""Checking a hand calculation: which numbers are right, rounded, cut, carried on from shortened ones, or wrong."""

from regard.hand_check.report import Check, check_notes, worked_example
from regard.hand_check.verdicts import KINDS, Verdict

__all__ = ["KINDS", "Check", "Verdict", "check_notes", "worked_example"]
