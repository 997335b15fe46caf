"""Lessons: from a dictionary to attention, why √d_k, positional encodings, transformer blocks, hand calculations."""

from typing import TYPE_CHECKING

from regard.lazy_names import lazy_names

if TYPE_CHECKING:
    from regard.teaching import exercises, grading, hand_check, lookup
    from regard.teaching.block import block_lesson
    from regard.teaching.hand_check import check_notes
    from regard.teaching.lookup import lookup_lesson
    from regard.teaching.positions import position_lesson
    from regard.teaching.scaled_scores import scaling_lesson
    from regard.teaching.traced_attention import step_tables, traced

__all__ = [
    "block_lesson", "check_notes", "exercises", "grading", "hand_check", "lookup", "lookup_lesson", "position_lesson",
    "scaling_lesson", "step_tables", "traced",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "block": ("block_lesson",), "hand_check": ("check_notes",), "lookup": ("lookup_lesson",),
            "positions": ("position_lesson",), "scaled_scores": ("scaling_lesson",),
            "traced_attention": ("step_tables", "traced"),
        },
        ("exercises", "grading", "hand_check", "lookup"),
    )  # fmt: skip
