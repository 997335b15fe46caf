"""What a page holds: the description, the attention of each layer, and what else fits: states, weights, next tokens.

Each part is one frame; what would be too large is left out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, cast

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.engines.interface import Scores
from regard.reading import Reading
from regard.reading.layer_numbers import are_counted, in_words, position
from regard.viewer import block_weights, frames, model_answers, similar
from regard.viewer.architecture import architecture
from regard.viewer.describe import describe, measures_of, query_kinds, start_of
from regard.viewer.description import Start
from regard.viewer.frames import Floats
from regard.viewer.model_answers import reader_of
from regard.viewer.queries import OVER_LAYERS, Answers, embedding_steps, grams, over_layers, steps_after

LONGEST = 16_384  # tokens
LARGEST = 1 << 28  # bytes of queries, keys and values in 16 bits
ROOMY = 24 << 20  # bytes of queries, keys and values up to which states and weights are added
THUMBNAIL = 48  # cells along each side
MEASURED = 384  # tokens of a text whose mean and rollout are stored, in 16 bits
LARGEST_HALF = 60_000.0  # the largest float16 is 65,504
MOST_STATES = 2 << 20  # numbers
MOST_WEIGHTS = 5 << 18  # numbers of blocks: the attention of two layers of width 384
MOST_POSITIONS = 600  # whose next token is held
HEAD, BUCKET = 256, 64  # logits one by one, then buckets of so many
NAMED = 40  # tokens whose texts are held, at each position
ACCURATE = 1.5e-3  # largest error of a weight from rounded vectors; a page promises 2e-3
TRIED = 512  # rows compared; all of them in shorter texts
TRIED_WEIGHTS = 1 << 21  # at once
MOST_STEPS = 2 << 20  # bytes of the steps after attention, for all queries and layers


def block(name: str, frame: bytes) -> str:
    """A frame as an element that no text can break out of."""
    return f'<script type="application/x-regard" id="regard-{name}">{b64encode(frame).decode()}</script>\n'


def check_size(reading: Reading, kept: PageContents) -> None:
    """Refuse what is too long or too large for a page."""
    count = max(len(reading.queries), len(reading.tokens))
    if count > LONGEST:
        raise errors.OptionError(
            f"The text has {count:,} tokens; a page holds at most {LONGEST:,}.\n`regard studio` shows longer texts."
        )
    size = size_of(reading, kept)
    if size > LARGEST:
        raise errors.OptionError(
            f"Queries, keys and values take {size >> 20:,} MiB in 16 bits; a page holds at most {LARGEST >> 20}.\n"
            "Keep fewer layers or heads: layers=[3, 5], heads=[1], or --keep 3,5/1."
        )


def blocks(
    reading: Reading, kept: PageContents, steps: bool, start: Mapping[str, int] | None, *, prefix: str = "",
    weights: bool = True,
) -> tuple[Iterator[str], Iterator[str]]:  # fmt: skip
    """What is needed to begin, with the layer that is shown first; and all the rest.

    prefix    of the ids
    weights   include those of blocks while they fit; not where the page has the model
    """

    def part(name: str, frame: bytes) -> str:
        return block(prefix + name, frame)

    after = steps_frames(reading, kept) if steps else {}
    layers = kept.layers_of(reading)
    first_layer = int((start or start_of(reading) or {}).get("layer", 0))
    shown = first_layer if first_layer in layers else layers[0]
    room = (ROOMY - size_of(reading, kept)) // 2
    more = extra_parts(reading, shown, room, weights) if kept.layers is None else {}
    left_out = {*([] if steps else ["norm"]), *(OVER_LAYERS if len(reading.tokens) > MEASURED else [])}
    shown_as = [measure for measure in measures_of(reading) if measure not in left_out]
    has = ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for", *(["vectors"] if steps else [])]
    has += [*(["steps"] if after else []), *sorted({name.partition("-")[0] for name in more})]
    has += ["value_grams"] if "norm" in shown_as else []
    description = describe(reading, has=has, measures=shown_as, kept={"layers": kept.layers, "heads": kept.heads})
    if start is not None:
        description["start"] = cast(Start, {**start, "view": "sentence"})
    if "embed" in more:
        description["compared"] = similar.COMPARED

    def of_layers(layers: Iterable[int]) -> Iterator[tuple[str, bytes]]:
        for layer in layers:
            heads = kept.heads_of(reading, layer)
            attention = reading.seen[layer].attention.select(head=list(heads))
            shape = (min(THUMBNAIL, attention.shape[1]), min(THUMBNAIL, attention.shape[2]))
            maps = numpy_of(attention.pooled(shape).array).astype(np.float16)
            yield f"thumbnails-{layer}", frames.pack({"sampled": None, "heads": heads}, {"weight": maps})
            yield f"layer-{layer}", layer_frame(reading, layer, steps, heads)

    def first() -> Iterator[tuple[str, bytes]]:
        yield "describe", frames.pack(description)
        yield "statistics", Answers(reading).answer("statistics")
        yield from of_layers([shown])

    def rest() -> Iterator[tuple[str, bytes]]:
        yield from of_layers(layer for layer in layers if layer != shown)
        yield from ((f"steps-{layer}", frame) for layer, frame in after.items())
        yield from more.items()
        over = {str(name): over_layers(reading, name).astype(np.float16) for name in OVER_LAYERS if name in shown_as}
        if over:
            yield "over-layers", frames.pack({}, over)

    return starmap(part, first()), starmap(part, rest())


@dataclass(frozen=True)
class PageContents:
    """The layers and heads that a page holds; None is all of them."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def layers_of(self, reading: Reading) -> tuple[int, ...]:
        """Positions of the kept layers."""
        return tuple(range(reading.layers)) if self.layers is None else self.layers

    def heads_of(self, reading: Reading, place: int) -> tuple[int, ...]:
        """Positions of the kept heads of one layer."""
        count = reading.seen[place].attention.shape[0]
        return tuple(range(count)) if self.heads is None else tuple(head for head in self.heads if head < count)


def kept_of(reading: Reading, layers: Any, heads: Any) -> PageContents:
    """The `layers` and `heads` of a page, checked: each a number in the model or several; None keeps all."""
    most = min(attention.shape[0] for attention, _ in reading.seen)
    of_heads = _positions("heads", heads, reading.head_numbers[:most])
    return PageContents(_positions("layers", layers, reading.layer_numbers), of_heads)


def _positions(name: str, chosen: Any, numbers: Sequence[int]) -> tuple[int, ...] | None:
    if chosen is None:
        return None
    count = len(numbers)
    if not count:
        raise errors.option(name, chosen, "None: there are none to choose from")
    several = chosen if isinstance(chosen, Iterable) and not isinstance(chosen, str) else [chosen]
    if are_counted(numbers):
        positions = {validate.integer(name, number, 0, count - 1) for number in several}
    else:
        positions = {position(name.removesuffix("s"), validate.integer(name, number, 0), numbers) for number in several}
    if not positions:
        expected = f"integer from 0 to {count - 1}" if are_counted(numbers) else f"of {in_words(numbers)}"
        raise errors.option(name, [], f"at least one {expected}")
    return tuple(sorted(positions))


def size_of(reading: Reading, kept: PageContents) -> int:
    """Bytes of the kept queries, keys and values in 16 bits."""
    size = 0
    for layer in kept.layers_of(reading):
        attention, values = reading.seen[layer]
        share = len(kept.heads_of(reading, layer)) / attention.shape[0]
        size += sum(int(2 * share * np.prod(array.shape)) for array in (attention.queries, attention.keys, values))
    return size


def layer_frame(reading: Reading, place: int, values: bool, heads: Sequence[int]) -> bytes:
    """Queries, keys and what else decides the scores of some heads; values where they are wanted."""
    whole = reading.seen[place].attention
    attention = whole if len(heads) == whole.shape[0] else whole.select(head=list(heads))
    scores = attention.scores
    queries, keys = (numpy_of(array[0]) for array in (scores.queries, scores.keys))
    times: dict[str, float] = {}
    arrays: dict[str, Any] = {}
    if _is_accurate(attention, _rounded(attention, queries, keys)):
        arrays["q"], times["q_times"] = _half(queries)
        arrays["k"], times["k_times"] = _half(keys)
    else:
        arrays["q"], arrays["k"] = queries.astype(np.float32), keys.astype(np.float32)
    group = len(queries) // len(keys)
    header: dict[str, Any] = {"heads": heads, "key_heads": [slot // group for slot in range(len(heads))]}
    of_layer = reading.seen[place].values
    if values and reading.has_values:
        used = [head * len(of_layer) // whole.shape[0] for head in heads]
        stored = sorted(set(used))
        arrays["v"], times["v_times"] = _half(numpy_of(of_layer)[stored])
        if "norm" in measures_of(reading):
            arrays["gram"] = grams(reading, place)[list(heads)].astype(np.float32)
        header["value_heads"] = [stored.index(value_head) for value_head in used]
    offset = scores.offset if isinstance(scores.offset, int) else int(numpy_of(scores.offset)[0])
    header |= {"scale": float(scores.scale), "softcap": attention.softcap, "offset": offset, **times}
    visible, how = _visible(scores)
    header |= {"mask": how, "relative_zero": scores.relative_zero}
    arrays |= visible
    others = {"bias": scores.bias, "relative": scores.relative, "sinks": scores.sinks}
    for name, array in others.items():
        if array is not None:
            arrays[name] = numpy_of(array[0] if name == "bias" else array).astype(np.float32)
    return frames.pack(header, arrays)


def _half(array: Floats) -> tuple[Floats, float]:
    """As float16, and the factor to multiply by: above 1 if the numbers exceed the range of float16."""
    largest = float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
    times = max(1.0, largest / LARGEST_HALF)
    return (array / times).astype(np.float16), times


def _rounded(attention: Attention, queries: Floats, keys: Floats) -> Attention:
    """The attention of the vectors as rounded for a page."""
    back = []
    for array in (queries, keys):
        half, times = _half(array)
        back.append(half.astype(np.float32) * np.float32(times))
    bias: Any = attention.bias
    if bias is not None and hasattr(bias, "shape"):
        bias = numpy_of(bias).astype(np.float32)
    sinks = None if attention.sinks is None else numpy_of(attention.sinks)
    return replace(attention, queries=back[0], keys=back[1], bias=bias, sinks=sinks, similarity="dot")


def _is_accurate(attention: Attention, narrow: Attention) -> bool:
    heads, count, keys = attention.shape
    step = max(1, TRIED_WEIGHTS // max(1, heads * keys))
    apart = max(1, -(-count // TRIED))
    for start in range(0, count, step * apart):
        rows = slice(start, start + step * apart, apart)
        fault = np.abs(numpy_of(attention[:, rows, :]) - numpy_of(narrow[:, rows, :]))
        if not np.nanmax(fault, initial=0.0) < ACCURATE:
            return False
    return True


def _visible(scores: Scores) -> tuple[dict[str, Any], str]:
    """Visible keys of each query: all, one or two intervals, or a dense array."""
    visible = scores.visible
    if visible is None:
        return {}, "none"
    if visible.rest is not None:
        return {"visible": numpy_of(visible.tile(slice(None), slice(None)))[0]}, "dense"
    return {name: numpy_of(end)[0].astype(np.int32) for name, end in visible.ends()}, "intervals"


def steps_frames(reading: Reading, kept: PageContents) -> dict[int, bytes]:
    """The steps after attention of all queries, one frame per kept layer; empty where too large or not known."""
    if reading.trace is None and (not reading.blocks or not reading.states):
        return {}
    step_frames: dict[int, bytes] = {}
    left = MOST_STEPS
    for layer in kept.layers_of(reading):
        rows = []
        for query in range(len(reading.queries)):
            header, arrays = steps_after(reading, layer, query)
            rows.append(arrays)
            left -= 2 * sum(array.size for array in arrays.values())
            if left < 0:
                return {}
        stacked = {name: np.stack([row[name] for row in rows]) for name in header["names"]}
        step_frames[layer] = frames.pack(header, _short(stacked))
    return step_frames


# What a page holds besides the attention of its layers


def short(array: Array) -> Floats:
    """As float16, or float32 if the numbers exceed its range."""
    kind = np.float32 if np.abs(array).max(initial=0) > LARGEST_HALF else np.float16
    narrow: Floats = numpy_of(array).astype(kind)
    return narrow


def _short(arrays: Mapping[str, Any]) -> dict[str, Floats]:
    return {name: short(array) for name, array in arrays.items()}


def extra_parts(reading: Reading, shown: int, room: int, weights: bool = True) -> dict[str, bytes]:
    """The frames by name.

    shown     the layer that the page opens with, whose weights come first
    room      numbers of states, and of weights, that the page may hold besides its layers
    weights   include weights of blocks
    """
    has = query_kinds(reading)
    parts: dict[str, bytes] = {}
    if "architecture" in has:
        parts["architecture"] = frames.pack(architecture(reading))
    if "states" in has and sum(np.size(state) for state in reading.states) <= min(MOST_STATES, room):
        parts["states"] = frames.pack({}, {"state": short(np.stack([numpy_of(state) for state in reading.states]))})
        if "embedding" in has:
            header, arrays = embedding_steps(reading, range(len(reading.tokens)))
            parts["embedding"] = frames.pack(header, _short(arrays))
    if weights and "block" in has:
        left = min(MOST_WEIGHTS, room)  # of blocks while they fit, the shown layer first; or their attention alone
        for layer in sorted(range(len(reading.blocks)), key=lambda layer: (layer != shown, layer)):
            for feed_forward in (True, False):
                header, arrays = block_weights.block_weights(reading.blocks[layer], feed_forward=feed_forward)
                if (size := block_weights.size_of(arrays)) <= left:
                    left -= size
                    parts[f"block-{layer}"] = frames.pack(header, _short(arrays))
                    break
    if "next" in has and len(reading.queries) <= MOST_POSITIONS:
        parts["next"] = _next_tokens(reading)
        header, arrays = model_answers.likelihood(reading, lambda: None)
        parts["likelihood"] = frames.pack(header, arrays)
    if "embed" in has:
        texts = [reading.text, *similar.COMPARED]
        header, arrays = similar.embed(reader_of(reading), [text[: similar.LONGEST] for text in texts])
        parts["embed"] = frames.pack({**header, "texts": texts}, {"vector": short(arrays["vector"])})
    return parts


def _next_tokens(reading: Reading) -> bytes:
    """The logits after every position, largest first, relative to the largest: single ones, then means of buckets."""
    model, states = reader_of(reading), numpy_of(reading.states[-1])
    texts: dict[int, tuple[str, bool]] = {}
    heads, tails, ids, ranks = [], [], [], []
    for query in range(len(reading.queries)):
        logits = numpy_of(model.next_logits(states[query : query + 1]))[0].astype(np.float64)
        order = np.argsort(-logits, kind="stable")
        falling = logits[order] - logits[order[0]]
        named = order[:NAMED].tolist()
        follows = reading.tokens[query + 1].id if query + 1 < len(reading.tokens) else None
        texts |= {number: model.tokeniser.piece(number) for number in (*named, follows) if number is not None}
        ranks.append(-1 if follows is None else int(np.nonzero(order == follows)[0][0]))
        ids.append([*named, -1 if follows is None else follows])
        heads.append(falling[:HEAD])
        buckets = (falling[start : start + BUCKET] for start in range(HEAD, len(falling), BUCKET))
        # The logit that all tokens of a bucket would have, with the same total; the first one is the largest.
        tails.append([bucket[0] + np.log(np.exp(bucket - bucket[0]).mean()) for bucket in buckets])
    header = {
        "vocabulary": len(logits),
        "bucket": BUCKET,
        "texts": [[number, text, begins] for number, (text, begins) in texts.items()],
    }
    arrays = {"head": short(np.array(heads)), "tail": short(np.array(tails)), "ids": ids, "rank": ranks}
    return frames.pack(header, {name: np.asarray(array) for name, array in arrays.items()})
