"""A text as printed in a terminal; imports little, so that it can be shown while the model loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from regard.output.printable import printable

if TYPE_CHECKING:
    from regard.reading import Reading

LONGEST_TEXT = 640  # longer texts are shortened


def sentence(read: Reading | str) -> Text:
    """The text, shortened in the middle if it is long; generated tokens are in italics."""
    written = read if isinstance(read, str) else read.text
    safe = printable_lines(written)
    shown = Text(safe, "bold")
    if not isinstance(read, str) and read.given is not None and read.given < len(read.tokens):
        shown.stylize("not bold italic", read.tokens[read.given].start)
    if len(safe) <= LONGEST_TEXT:
        return shown
    kept = LONGEST_TEXT // 2
    left_out = f" … {len(safe) - 2 * kept:,} characters … "
    return Text.assemble(shown[:kept], (left_out, "dim"), shown[-kept:])


def printable_lines(written: str) -> str:
    """A text made safe to print, character by character, with its line breaks."""
    return "\n".join(
        "".join(printable(letter) or "�" for letter in line) for line in written.replace("\r", "\n").split("\n")
    )
