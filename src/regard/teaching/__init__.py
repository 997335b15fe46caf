"""Lessons: where attention comes from, and why its scores are divided by √d_k."""
