"""Where exported numbers come from, in one sentence. web/provenance.js says the same; fixtures check that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TYPED, LOOK_UP, SYNTHETIC, GIVEN = "typed by hand", "look-up", "synthetic", "given vectors"
LONGEST_TEXT = 80  # characters that are quoted


@dataclass(frozen=True, slots=True)
class Source:
    """Where the numbers of a trace come from."""

    name: str = GIVEN  # a model with its layer, or how the numbers were made
    text: str = ""  # what the model read; the words of the trace if empty
    heads: tuple[int, ...] = ()  # the model's numbers of the heads; their positions if empty


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
