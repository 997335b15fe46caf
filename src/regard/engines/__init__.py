"""Engines: one interface, several ways to compute behind it, and one place that chooses."""
