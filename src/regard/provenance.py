"""Where exported numbers come from, in one sentence. web/page/provenance.js says the same; fixtures check that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TYPED, LOOK_UP, GIVEN = "typed by hand", "look-up", "given vectors"
LONGEST_TEXT = 80  # characters that are quoted


@dataclass(frozen=True, slots=True)
class Source:
    """Where the numbers of a trace come from."""

    name: str = GIVEN  # a model with its layer, or how the numbers were made
    text: str = ""  # what the model read; the words of the trace if empty
    heads: tuple[int, ...] = ()  # the model's numbers of the heads; their positions if empty


def provenance(
    source: str,
    *,
    layer: int | None = None,
    heads: Sequence[int] = (),
    text: str = "",
    compared: str = "",
    edited: str = "",
) -> str:
    """The model with layer, heads and text; or "typed by hand", "synthetic", "look-up"; what was compared or changed.

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
    words = quoted(text)
    changes = [f"; {name}: {part}" for name, part in (("compared", compared), ("edited", edited)) if part]
    return ", ".join(parts) + (f": {words}" if words else "") + "".join(changes)


def quoted(text: str) -> str:
    """The beginning of a text in quotation marks."""
    words = " ".join(text.split())
    shown = words if len(words) <= LONGEST_TEXT else words[: LONGEST_TEXT - 1].rstrip() + "…"
    return f"“{shown}”" if shown else ""
