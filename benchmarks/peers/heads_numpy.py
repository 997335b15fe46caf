"""The statistics and relations of `regard.heads` in NumPy, from the weights that transformers returns.

Written from the definitions in docs/how-to/heads.md, vectorised over a batch of texts of equal length, all layers and
heads at once. `heads_transformers.py` feeds it in three ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

WINDOW, LONG_ENOUGH, FEWEST = 4, 16, 4
Ratio = tuple[Any, Any]  # amount and count, (text, head)


def of_texts(weights: Any, norms: Any, outputs: Any, documents: Sequence[Any]) -> dict[str, Ratio]:
    """Amounts and counts of every statistic.

    weights   (text, head, query, key), the heads of all layers one after the other
    norms     (text, head, key): ‖v · W_O‖
    outputs   (text, head, query): ‖output · W_O‖, divided by the sum over the heads of the layer
    """
    content, special, signs, ids, words = (
        np.stack([getattr(document, name) for document in documents])
        for name in ("content", "special", "punctuation", "ids", "word")
    )
    n = content.shape[1]
    place = np.arange(n)
    apart = np.abs(place[:, None] - place)
    asks = content[:, None, :].astype(np.float32)  # (text, 1, query)
    sinks = ~content[:, None, None, :]  # (text, 1, 1, key)
    queries = asks.sum(axis=2)

    def total(values: Any, who: Any = asks) -> Any:
        return (values * who).sum(axis=2, dtype=np.float64)

    rest = 1 - (weights * sinks).sum(axis=3)
    logs = np.log(np.maximum(weights, 1e-38))
    distance = (weights * apart).sum(axis=3)
    of_content = np.where(sinks, 0, weights)
    shares = of_content / np.maximum(rest, 1e-12)[..., None]
    choices = content.sum(axis=1)[:, None, None]
    evenness = -(shares * np.log(np.maximum(shares, 1e-38))).sum(axis=3) / np.log(np.maximum(choices, 2))
    several = asks * (choices >= FEWEST)
    separators = special.copy()
    separators[:, 0] = False
    received = (weights * asks[..., None]).sum(axis=2, dtype=np.float64)
    found: dict[str, Ratio] = {
        "entropy": (total(-(weights * logs).sum(axis=3)), queries),
        "distance": (total(distance), queries),
        "distance of the rest": (total((of_content * apart).sum(axis=3)), total(rest)),
        "evenness": (total(evenness * rest, several), total(rest, several)),
        "first": (total(weights[..., 0]), queries),
        "separators": (total((weights * separators[:, None, None]).sum(axis=3)), queries),
        "punctuation": (total((weights * signs[:, None, None]).sum(axis=3)), queries),
        "received": (np.where(content[:, None], received, 0).max(axis=2), queries),
        "sinks by norm": (
            total((weights * norms[:, :, None] * sinks).sum(axis=3)), total((weights * norms[:, :, None]).sum(axis=3))
        ),
        "contribution": (total(outputs), queries),
    }  # fmt: skip
    for name, offset in (("itself", 0), ("previous", -1), ("next", 1)):
        rows = place[(place + offset >= 0) & (place + offset < n)]
        who = asks[..., rows] * content[:, None, rows + offset]
        found |= _with_rest(name, weights[:, :, rows, rows + offset], rest[..., rows], who)
    others = content[:, None, :] & (apart > 0)
    same_token, same_word = (of[:, :, None] == of[:, None, :] for of in (ids, words))
    near = np.broadcast_to(apart <= WINDOW, same_token.shape)
    enough = np.broadcast_to(choices[:, 0, 0] >= LONG_ENOUGH, (len(documents),))[:, None]
    for name, keys in (("repeated", same_token), ("same word", same_word), ("window", near)):
        chosen = keys & others
        who = asks * (enough if name == "window" else chosen.any(axis=2))[:, None]
        found |= _with_rest(name, (weights * chosen[:, None]).sum(axis=3), rest, who)
    return found


def _with_rest(name: str, amount: Any, rest: Any, who: Any) -> dict[str, Ratio]:
    summed = (amount * who).sum(axis=2, dtype=np.float64)
    return {
        name: (summed, who.sum(axis=2)),
        f"{name} of the rest": (summed, (rest * who).sum(axis=2, dtype=np.float64)),
    }


def added(sums: dict[str, Any], found: dict[str, Ratio], heads: int) -> None:
    """Add texts to the six sums of every statistic, (6, head)."""
    for name, (amount, count) in found.items():
        count = np.broadcast_to(count, amount.shape).astype(np.float64)
        of_texts = (count > 0, count, count**2, amount, amount**2, amount * count)
        sums[name] = sums.get(name, np.zeros((6, heads))) + np.stack([one.sum(axis=0) for one in of_texts])


def choices(weights: Any, one: Any) -> Iterator[Any]:
    """Of every word of one sentence the word with the largest weight, per head: (word, head). Weights: (head, n, n)."""
    starts = one.edges[:-1]
    to_words = np.add.reduceat(weights, starts, axis=2)
    between = np.add.reduceat(to_words, starts, axis=1) / np.diff(one.edges)[:, None]
    between[:, :, one.document.sinks[starts]] = -1
    cells = np.arange(len(starts))
    between[:, cells, cells] = -1
    word_of = np.full(len(starts), -1)
    placed = np.flatnonzero(one.cell >= 0)
    word_of[one.cell[placed]] = placed
    best = between.argmax(axis=2)
    chosen = np.where(between.max(axis=2) > 0, word_of[best], -1)
    return np.where(one.cell >= 0, chosen[:, one.cell], -1).T
