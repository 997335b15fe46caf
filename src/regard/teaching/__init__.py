"""Lessons: from a dictionary to attention, why √d_k, positional encodings, transformer blocks."""
