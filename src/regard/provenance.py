"""Where exported numbers come from, in one sentence. web/page/provenance.js says the same; fixtures check that."""

from __future__ import annotations

import re
from collections.abc import Sequence

TYPED, LOOK_UP, SYNTHETIC, GIVEN = "typed by hand", "look-up", "synthetic", "given vectors"
LONGEST_TEXT = 80  # characters that are quoted


def provenance(
    source: str, *, layer: int | None = None, heads: Sequence[int] = (), text: str = "", edited: str = ""
) -> str:
    """The model with layer, heads and text; or "typed by hand", "synthetic", "look-up"; and what was changed.

    >>> provenance("minilm", layer=3, heads=[1], text="The kids left.")
    'minilm, layer 3, head 1: “The kids left.”'
    >>> provenance("typed by hand", text="The cat sat", edited="divided by 1")
    'typed by hand: “The cat sat”; edited: divided by 1'
    """
    parts = [source or GIVEN]
    if layer is not None:
        parts.append(f"layer {layer}")
    if heads:
        parts.append(f"head{'s' if len(heads) > 1 else ''} {', '.join(map(str, heads))}")
    words = " ".join(text.split())
    quoted = words if len(words) <= LONGEST_TEXT else words[: LONGEST_TEXT - 1].rstrip() + "…"
    return ", ".join(parts) + (f": “{quoted}”" if quoted else "") + (f"; edited: {edited}" if edited else "")


def source_of_note(note: str | None) -> str:
    """The source that the note of a trace names: a model, random numbers; else the numbers were typed, or given.

    >>> source_of_note("minilm, layer 3."), source_of_note("W is random numbers from seed 7."), source_of_note(None)
    ('minilm', 'random numbers from seed 7', 'given vectors')
    """
    if note is None:
        return GIVEN
    if drawn := re.search(r"random numbers from seed \d+", note):
        return drawn[0]
    model = re.match(r"(.+?), layer \d+", note)
    return model[1] if model else TYPED
