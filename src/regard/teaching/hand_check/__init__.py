"""Checking a hand calculation: which numbers are right, rounded, truncated, carried on from rounded ones, or wrong."""

from regard.teaching.hand_check.check import KINDS, Check, Verdict, check_notes, worked_example

__all__ = ["KINDS", "Check", "Verdict", "check_notes", "worked_example"]
