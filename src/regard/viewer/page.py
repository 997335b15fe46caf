"""The viewer and a subject in one HTML file, which opens from disk with the network off.

The page holds the bundled script, the style sheet, the kernels it computes with, and frames in base64, so that no text
can be parsed as markup: one per layer, with queries, keys and values, in 16 bits where that is accurate enough. A
Content-Security-Policy allows this script and this style sheet, by their hashes, WebAssembly, and nothing else.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from regard import atomic_file, errors, validate
from regard.arrays import numpy_of
from regard.attention import Attention
from regard.engines.interface import Scores
from regard.reading.numbering import are_counted, in_words, position
from regard.viewer import bundle, frames, web_model
from regard.viewer.description import Start
from regard.viewer.measures import grams, over_layers
from regard.viewer.page_parts import LARGEST_HALF, parts, short
from regard.viewer.queries import Answers, steps_after
from regard.viewer.similar import COMPARED
from regard.viewer.subject import Subject, describe, measures_of, start_of, subject_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

LONGEST = 16_384  # tokens
LARGEST = 1 << 28  # bytes of queries, keys and values in 16 bits
ENTRY = "hosts/page.js"
MODEL_ENTRY = "hosts/model_page.js"  # of pages with a model
WORKER = "models/worker.js"  # runs the model
SAME_ORIGIN = "connect-src 'self'; "
FILE_PART = 24 << 20  # bytes of a model's file in one block, a multiple of 3
ROOMY = 24 << 20  # bytes of queries, keys and values up to which states and weights are added
THUMBNAIL = 48  # cells along each side
OVER_LAYERS = ("mean", "rollout")
MEASURED = 384  # tokens of a text whose mean and rollout are stored, in 16 bits


def page(subject: Any, **options: Any) -> str:
    """The page as one string; options as of `pieces`."""
    return "".join(pieces(subject, **options))


def save(subject: Any, path: str | os.PathLike[str], **options: Any) -> Path:
    """Write the page to a file, one layer at a time; an existing file is replaced only when all is written."""
    return atomic_file.write(path, pieces(subject, **options))


def pieces(
    subject: Any,
    *,
    layers: Any = None,
    heads: Any = None,
    steps: bool = True,
    start: Mapping[str, int] | None = None,
    beside: Any = None,
    links: Mapping[str, str] | None = None,
    with_model: bool = False,
    model_at: str | None = None,
) -> Iterator[str]:
    """The page in pieces.

    layers, heads  keep only these, by their numbers in the model: a smaller page, as exact as a full one
    steps          include the values, so that every step can be followed; a third smaller without
    start          where it opens: layer and head by their numbers in the model, query (a token)
    beside         another reading, to compare with
    links          other pages of a site: their labels and addresses
    with_model     put the model into the page, where it reads other texts
    model_at       the address of a model.json beside the page on its web server: see `regard.viewer.web_model`
    """
    subject = subject_of(subject)
    kept = kept_of(subject, layers, heads)
    _check(subject, kept)
    if start is not None:
        numbers = {"layer": subject.layer_numbers, "head": subject.head_numbers}
        places = {axis: position(axis, start[axis], numbers[axis]) for axis in numbers if axis in start}
        start = {**start, **places}
    first, rest = _blocks(subject, kept, steps, start)
    first = chain([block("wasm", bundle.wasm())], first)
    if beside is not None:
        other = subject_of(beside)
        _check(other, PageContents())
        begins, ends = _blocks(other, PageContents(), steps, None, "2-")
        first, rest = chain(first, [next(begins)]), chain(rest, begins, ends)
    certificate = "" if subject.certificate is None else f" Certificate: {subject.certificate()}."
    fallback = f"{certificate} {subject.unverified}".rstrip()
    title = subject.title or "Attention"
    if model_at is not None:
        first = chain(first, _model_blocks({"address": model_at}))
        yield from document(title, MODEL_ENTRY, first, rest, fallback=fallback, links=links, loads=True)
    elif with_model:
        reader = subject.require_reader()
        with TemporaryDirectory() as folder:
            manifest = json.loads(web_model.write(reader, folder).read_bytes())
            first = chain(first, _model_blocks({"manifest": manifest}))
            stored = [name for name in ("tokenizer", "weights") if manifest[name] is not None]
            rest = chain(rest, *(_file_blocks(name, Path(folder, manifest[name]["file"])) for name in stored))
            yield from document(title, MODEL_ENTRY, first, rest, fallback=fallback, links=links)
    else:
        yield from document(title, ENTRY, first, rest, fallback=fallback, links=links)


def document(
    title: str,
    entry: str,
    first: Iterable[str],
    rest: Iterable[str] = (),
    *,
    fallback: str = "",
    loads: bool = False,
    links: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """A page of one script: the blocks it needs to begin, the script, and blocks that may arrive while it works.

    entry     the module that is run
    fallback  what to say besides where JavaScript is disabled
    loads     whether it may load files from its own web server
    links     other pages of a site: their labels and addresses
    """
    script, style = _script(entry), _style()
    yield _head(title, fallback, script, style, loads, links or {})
    yield from first
    yield f"<script>{script}</script>\n"
    yield from rest
    yield "</body>\n</html>\n"


def _check(subject: Subject, kept: PageContents) -> None:
    count = max(subject.queries, subject.keys)
    if count > LONGEST:
        raise errors.OptionError(
            f"The text has {count:,} tokens; a page holds at most {LONGEST:,}.\n`regard studio` shows longer texts."
        )
    size = size_of(subject, kept)
    if size > LARGEST:
        raise errors.OptionError(
            f"Queries, keys and values take {size >> 20:,} MiB in 16 bits; a page holds at most {LARGEST >> 20}.\n"
            "Keep fewer layers or heads: layers=[3, 5], heads=[1], or --layers 3,5 --heads 1."
        )


def _blocks(
    subject: Subject, kept: PageContents, steps: bool, start: Mapping[str, int] | None, prefix: str = ""
) -> tuple[Iterator[str], Iterator[str]]:
    """What is needed to begin, with the layer that is shown first; and all the rest. `prefix` is that of the ids."""

    def part(name: str, frame: bytes) -> str:
        return block(prefix + name, frame)

    after = steps_frames(subject, kept) if steps else {}
    has = (
        [] if subject.lookup is not None else ["tile", "row", "statistics", "thumbnails", "along", "links", "heads_for"]
    )
    has += ["vectors"] if steps and has else []
    has += ["steps"] if after else []
    layers = kept.layers_of(subject)
    wanted = int((start or start_of(subject) or {}).get("layer", 0))
    shown = wanted if wanted in layers else layers[0] if layers else 0
    room = (ROOMY - size_of(subject, kept)) // 2
    more = parts(subject, shown, room) if has and kept.layers is None else {}
    has += sorted({name.partition("-")[0] for name in more})
    shown_as = measures_of(subject)
    if not steps:
        shown_as = [measure for measure in shown_as if measure != "norm"]
    has += ["value_grams"] if "norm" in shown_as else []
    if subject.keys > MEASURED:
        shown_as = [measure for measure in shown_as if measure not in OVER_LAYERS]
    description = describe(subject, has=has, measures=shown_as, kept={"layers": kept.layers, "heads": kept.heads})
    if start is not None:
        description["start"] = cast(Start, dict(start))
    if "embed" in more:
        description["compared"] = COMPARED

    def of_layer(layer: int) -> Iterator[str]:
        heads = kept.heads_of(subject, layer)
        yield part(f"thumbnails-{layer}", thumbnails_frame(subject, layer, THUMBNAIL, heads))
        yield part(f"layer-{layer}", layer_frame(subject, layer, steps, heads))

    def first() -> Iterator[str]:
        yield part("describe", frames.pack(description))
        if subject.attentions:
            yield part("statistics", Answers(subject).answer("statistics"))
            yield from of_layer(shown)

    def rest() -> Iterator[str]:
        for layer in layers:
            if layer != shown:
                yield from of_layer(layer)
        for layer, frame in after.items():
            yield part(f"steps-{layer}", frame)
        for name, frame in more.items():
            yield part(name, frame)
        over = [name for name in OVER_LAYERS if name in shown_as]
        if over:
            matrices = {str(name): over_layers(subject, name).astype(np.float16) for name in over}
            yield part("over-layers", frames.pack({}, matrices))

    return first(), rest()


def block(name: str, frame: bytes) -> str:
    """A frame as an element that no text can break out of."""
    return f'<script type="application/x-regard" id="regard-{name}">{b64encode(frame).decode()}</script>\n'


def _model_blocks(about: Mapping[str, Any]) -> Iterator[str]:
    """What the page knows of its model, and the script that runs it."""
    yield block("worker", bundle.script(WORKER).encode())
    yield block("model", frames.pack(dict(about)))


def _file_blocks(name: str, path: Path) -> Iterator[str]:
    """A file in parts, which a browser holds as strings."""
    with path.open("rb") as file:
        for number, part in enumerate(iter(lambda: file.read(FILE_PART), b"")):
            yield block(f"{name}-{number}", part)


def _head(title: str, fallback: str, script: str, style: str, loads: bool, links: Mapping[str, str]) -> str:
    title = escape("".join(letter if letter.isprintable() else " " for letter in title))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' 'wasm-unsafe-eval'; style-src '{_hash(style)}'; "
        f"img-src data: blob:; worker-src blob:; {SAME_ORIGIN if loads else ''}base-uri 'none'; form-action 'none'"
    )
    anchors = "".join(f'<a href="{escape(address)}">{escape(label)}</a>' for label, address in links.items())
    navigation = f'<nav class="regard-site" aria-label="Site"><b>Regard</b>{anchors}</nav>\n' if anchors else ""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f'<title>{title}</title>\n<style>{style}</style>\n</head>\n<body class="regard-page">\n{navigation}'
        '<main id="regard"><noscript>This page needs JavaScript, which is disabled.'
        f"{escape(fallback)}</noscript></main>\n"
    )


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"


def _script(entry: str) -> str:
    """The script, escaped so that nothing in it closes the element."""
    found = '"use strict";\n' + bundle.script(entry)
    return found.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _style() -> str:
    found = bundle.style()
    if "</style" in found.lower():
        raise bundle.BundleError("The style sheet contains </style, which would close the element.")
    return found


# What the page stores of each layer

ACCURATE = 1.5e-3  # largest error of a weight from rounded vectors; a page promises 2e-3
TRIED = 512  # rows compared; all of them in shorter texts
TRIED_WEIGHTS = 1 << 21  # at once
MOST_STEPS = 2 << 20  # bytes of the steps after attention, for all queries and layers


@dataclass(frozen=True)
class PageContents:
    """The layers and heads that a page holds; None is all of them."""

    layers: tuple[int, ...] | None = None
    heads: tuple[int, ...] | None = None

    def layers_of(self, subject: Subject) -> tuple[int, ...]:
        """Positions of the kept layers."""
        return tuple(range(subject.layers)) if self.layers is None else self.layers

    def heads_of(self, subject: Subject, place: int) -> tuple[int, ...]:
        """Positions of the kept heads of one layer."""
        count = subject.attentions[place].shape[0]
        return tuple(range(count)) if self.heads is None else tuple(head for head in self.heads if head < count)


def kept_of(subject: Subject, layers: Any, heads: Any) -> PageContents:
    """The `layers` and `heads` of a page, checked: each a number in the model or several; None keeps all."""
    most = min((A.shape[0] for A in subject.attentions), default=0)
    of_heads = _positions("heads", heads, subject.head_numbers[:most])
    return PageContents(_positions("layers", layers, subject.layer_numbers), of_heads)


def _positions(name: str, given: Any, numbers: Sequence[int]) -> tuple[int, ...] | None:
    if given is None:
        return None
    count = len(numbers)
    if not count:
        raise errors.option(name, given, "None: there are none to choose from")
    several = given if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    if are_counted(numbers):
        found = {validate.integer(name, one, 0, count - 1) for one in several}
    else:
        found = {position(name.removesuffix("s"), validate.integer(name, one, 0), numbers) for one in several}
    if not found:
        expected = f"integer from 0 to {count - 1}" if are_counted(numbers) else f"of {in_words(numbers)}"
        raise errors.option(name, [], f"at least one {expected}")
    return tuple(sorted(found))


def size_of(subject: Subject, kept: PageContents) -> int:
    """Bytes of the kept queries, keys and values in 16 bits."""
    size = 0
    for place in kept.layers_of(subject):
        attention, values = subject.attentions[place], subject.values[place]
        share = len(kept.heads_of(subject, place)) / attention.shape[0]
        arrays = [attention.queries, attention.keys] + ([] if values is None else [values])
        size += sum(int(2 * share * np.prod(array.shape)) for array in arrays)
    return size


def thumbnails_frame(subject: Subject, layer: int, cells: int, heads: Sequence[int]) -> bytes:
    """Small maps of some heads, in 16 bits."""
    attention = subject.attentions[layer].select(head=list(heads))
    shape = (min(cells, attention.shape[1]), min(cells, attention.shape[2]))
    maps = numpy_of(attention.pooled(shape).array).astype(np.float16)
    return frames.pack({"sampled": None, "heads": heads}, {"weight": maps})


def layer_frame(subject: Subject, place: int, values: bool, heads: Sequence[int]) -> bytes:
    """Queries, keys and what else decides the scores of some heads; values where they are wanted."""
    whole = subject.attentions[place]
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
    of_layer = subject.values[place]
    if values and of_layer is not None:
        used = [head * len(of_layer) // whole.shape[0] for head in heads]
        stored = sorted(set(used))
        arrays["v"], times["v_times"] = _half(numpy_of(of_layer)[stored])
        if "norm" in measures_of(subject):
            arrays["gram"] = grams(subject, place)[list(heads)].astype(np.float32)
        header["value_heads"] = [stored.index(one) for one in used]
    offset = scores.offset if isinstance(scores.offset, int) else int(numpy_of(scores.offset)[0])
    header |= {"scale": float(scores.scale), "softcap": attention.softcap, "offset": offset, **times}
    visible, how = _visible(scores)
    header |= {"mask": how, "relative_zero": scores.relative_zero}
    arrays |= visible
    if scores.bias is not None:
        arrays["bias"] = numpy_of(scores.bias[0]).astype(np.float32)
    if scores.relative is not None:
        arrays["relative"] = numpy_of(scores.relative).astype(np.float32)
    if scores.sinks is not None:
        arrays["sinks"] = numpy_of(scores.sinks).astype(np.float32)
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
    names = ("first", "last", "second_first", "second_last")
    ends = {name: getattr(visible, name) for name in names}
    return {name: numpy_of(end)[0].astype(np.int32) for name, end in ends.items() if end is not None}, "intervals"


def steps_frames(subject: Subject, kept: PageContents) -> dict[int, bytes]:
    """The steps after attention of all queries, one frame per kept layer; empty where too large or not known."""
    if subject.trace is None and (not subject.blocks or not subject.states):
        return {}
    found: dict[int, bytes] = {}
    left = MOST_STEPS
    for place in kept.layers_of(subject):
        rows = []
        for query in range(subject.queries):
            header, arrays = steps_after(subject, place, query)
            rows.append(arrays)
            left -= 2 * sum(array.size for array in arrays.values())
            if left < 0:
                return {}
        stacked = {name: np.stack([row[name] for row in rows]) for name in header["names"]}
        found[place] = frames.pack(header, {name: short(array) for name, array in stacked.items()})
    return found
