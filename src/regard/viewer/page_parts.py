"""What a page holds besides the attention of its layers: states, weights of blocks, the next token, similar texts.

Each part is one frame, left out where it would be too large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.arrays import Array, numpy_of
from regard.viewer import block_weights, frames, next_token, similar
from regard.viewer.architecture import architecture
from regard.viewer.queries import embedding_steps
from regard.viewer.subject import Subject, answered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

LARGEST_HALF = 60_000.0  # the largest float16 is 65,504
MOST_STATES = 2 << 20  # numbers
MOST_WEIGHTS = 5 << 18  # numbers of blocks: the attention of two layers of width 384
MOST_POSITIONS = 600  # whose next token is held
HEAD, BUCKET = 256, 64  # logits one by one, then buckets of so many
NAMED = 40  # tokens whose texts are held, at each position


def short(array: Array) -> Floats:
    """As float16, or float32 if the numbers exceed its range."""
    kind = np.float32 if np.abs(array).max(initial=0) > LARGEST_HALF else np.float16
    found: Floats = numpy_of(array).astype(kind)
    return found


def parts(subject: Subject, shown: int, room: int) -> dict[str, bytes]:
    """The frames by name.

    shown   the layer that the page opens with, whose weights come first
    room    numbers of states, and of weights, that the page may hold besides its layers
    """
    has = answered(subject)
    found: dict[str, bytes] = {}
    if "architecture" in has:
        found["architecture"] = frames.pack(architecture(subject))
    if "states" in has and sum(np.size(state) for state in subject.states) <= min(MOST_STATES, room):
        found["states"] = frames.pack({}, {"state": short(np.stack([numpy_of(state) for state in subject.states]))})
        if "embedding" in has:
            header, arrays = embedding_steps(subject, range(subject.keys))
            found["embedding"] = frames.pack(header, {name: short(array) for name, array in arrays.items()})
    if "block" in has:
        found |= dict(_blocks(subject, shown, min(MOST_WEIGHTS, room)))
    if "next" in has and subject.queries <= MOST_POSITIONS:
        found["next"] = _next_tokens(subject)
        header, arrays = next_token.likelihood(subject, lambda: None)
        found["likelihood"] = frames.pack(header, arrays)
    if "embed" in has:
        texts = [subject.text, *similar.COMPARED]
        header, arrays = similar.embedded(subject.require_reader(), [text[: similar.LONGEST] for text in texts])
        found["embed"] = frames.pack({**header, "texts": texts}, {"vector": short(arrays["vector"])})
    return found


def _blocks(subject: Subject, shown: int, left: int) -> Iterator[tuple[str, bytes]]:
    """Weights of blocks while they fit, the shown layer first; its attention alone where the rest is too large."""
    layers = sorted(range(len(subject.blocks)), key=lambda layer: (layer != shown, layer))
    for layer in layers:
        for feed_forward in (True, False):
            header, arrays = block_weights.block_weights(subject.blocks[layer], feed_forward=feed_forward)
            size = block_weights.size_of(arrays)
            if size <= left:
                left -= size
                yield f"block-{layer}", frames.pack(header, {name: short(array) for name, array in arrays.items()})
                break


def _next_tokens(subject: Subject) -> bytes:
    """The logits after every position, largest first, relative to the largest: single ones, then means of buckets."""
    model, states = subject.require_reader(), numpy_of(subject.states[-1])
    texts: dict[int, tuple[str, bool]] = {}
    heads, tails, ids, ranks = [], [], [], []
    for query in range(subject.queries):
        logits = numpy_of(model.next_logits(states[query : query + 1]))[0].astype(np.float64)
        order = np.argsort(-logits, kind="stable")
        falling = logits[order] - logits[order[0]]
        named = order[:NAMED].tolist()
        follows = subject.ids[query + 1] if query + 1 < len(subject.ids) else None
        texts |= {number: model.tokeniser.piece(number) for number in (*named, follows) if number is not None}
        ranks.append(-1 if follows is None else int(np.nonzero(order == follows)[0][0]))
        ids.append([*named, -1 if follows is None else follows])
        heads.append(falling[:HEAD])
        tails.append([_log_mean(falling[start : start + BUCKET]) for start in range(HEAD, len(falling), BUCKET)])
    header = {
        "vocabulary": len(logits),
        "bucket": BUCKET,
        "texts": [[number, text, begins] for number, (text, begins) in texts.items()],
    }
    arrays = {"head": short(np.array(heads)), "tail": short(np.array(tails)), "ids": ids, "rank": ranks}
    return frames.pack(header, {name: np.asarray(array) for name, array in arrays.items()})


def _log_mean(falling: Floats) -> float:
    """The logit that all tokens of a bucket would have, with the same total."""
    top = falling.max()
    return float(top + np.log(np.exp(falling - top).mean()))
