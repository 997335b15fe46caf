"""Engines: one interface, several ways to compute behind it, and one place that chooses."""

from regard.engines.select import engine

__all__ = ["engine"]
