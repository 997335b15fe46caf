"""Masks: for each query, the keys it may see.

A mask is a small value that combines with `&`, `|` and `~` and draws itself. `visible` evaluates it: as intervals of
keys where intervals can express it, tile by tile where they cannot. Query r is at position offset + r, key j at
position j.

>>> causal() & window(2)
causal() & window(2)
█·······
██······
███·····
·███····
··███···
···███··
····███·
·····███
"""

from regard.masks.expression import parse_mask
from regard.masks.kinds import allowed, causal, chunks, documents, first, padding, prefix, where, window
from regard.masks.mask import Mask
from regard.masks.visible import Rest, Visible

__all__ = [
    "Mask",
    "Rest",
    "Visible",
    "allowed",
    "causal",
    "chunks",
    "documents",
    "first",
    "padding",
    "parse_mask",
    "prefix",
    "where",
    "window",
]
