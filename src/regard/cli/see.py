"""`regard see`, `generate` and `explain`: the attention of a real model on a text, or on what it writes itself."""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import terminal
from regard.cli.options import CAUSAL, USUAL, AnyModel, File, Head, Layer, Query, Sentence, Writes, open_model
from regard.cli.outputs import Output
from regard.cli.text_input import text_argument, word_position
from regard.errors import OptionError
from regard.output.files import Format

if TYPE_CHECKING:
    from regard.reading import Reading

MOST_TOKENS = 4096  # that `regard generate` writes


def see(
    output: Annotated[Output, Writes(full=False)],
    text: Sentence = None,
    file: File = None,
    model: AnyModel = None,
    query: Query = None,
    layer: Layer = None,
    head: str | None = None,
    beside: str | None = None,
    keep: str | None = None,
    with_model: bool = False,
) -> None:
    """See the attention of a real model: the strongest pairs, one word's weights, one head's map.

    head N|NAME     Only this head, counted from 0; or the one known for whose, where, who does what, when, object …
    beside TEXT     Another text with the same word: how far its vector moves, layer by layer.
    keep 3,5/0,7    Only these layers / heads in the HTML page, or 3,5 for layers: a smaller file.
    with_model      Put the model into the HTML page: it reads other texts offline.

    Examples:
      regard see "The kids were scared of the lions, so they left right away."
      regard see "Keys on the table belong to Sarah" --query belong
      regard see "Sarah lost her keys" --head whose
      regard see "Love Apple phones" --out apple.html --out apple.svg
      regard see "Love Apple phones" --layer 3 --out heads.svg
      regard see "Love Apple phones" --query Apple --beside "Love apple pie"
      regard see "The cat sat" --model hf:./a-folder-of-transformers

    .html is the interactive viewer with all weights; .svg, .pdf and .png draw one
    head, or all heads of --layer; .json holds every number; .txt, .md, .tex and
    .csv hold the tables. `regard explain` prints the steps of one word and head.
    A weight shows where a head attends, not why a model gives its answer.
    The model is downloaded once, into the cache: see `regard models`.
    """
    for option, is_there in (("--keep", keep is not None), ("--with-model", with_model)):
        if is_there and not any(target.format is Format.HTML for target in output.targets):
            raise OptionError(f"{option} says what the HTML page holds: add --out FILE.html.")
    is_number = head is None or re.fullmatch(r"-?\d{1,6}", head, re.ASCII)
    if not is_number and layer is not None:
        raise OptionError(f"--head {head} chooses the layer as well: leave out --layer, or give the number of a head.")
    kept = {**_kept(keep), "with_model": with_model}
    written = text_argument("see", text, file)
    started = time.perf_counter()
    reading = open_model(model or USUAL).read(written)  # long texts show their own progress bar
    seconds = time.perf_counter() - started
    number, relation = (int(head), None) if head is not None and is_number else (None, head)
    _publish(reading, seconds, query, layer, number, output, relation=relation, beside=beside, kept=kept)


def generate(
    output: Annotated[Output, Writes(full=False)],
    text: Sentence = None,
    file: File = None,
    tokens: Annotated[int, typer.Option(min=1, max=MOST_TOKENS)] = 20,
    model: AnyModel = None,
    query: Query = None,
    layer: Layer = None,
    head: Head = None,
) -> None:
    """Let a model continue a text, and see its attention.

    tokens  How many tokens the model writes.

    Examples:
      regard generate "Once upon a time"
      regard generate "Once upon a time" --tokens 40 --out story.html
      regard generate "Once upon a time" --query time --layer 4 --head 7
    """
    from regard.models.progress import steps

    name, written = model or CAUSAL, text_argument("generate", text, file)
    started = time.perf_counter()
    reader, done = open_model(name), itertools.count(1)
    with steps(f"{name} writes", tokens) as advance:
        reading = reader.generate(written, tokens, on_token=lambda _piece: advance(next(done)))
    _publish(reading, time.perf_counter() - started, query, layer, head, output)


def _publish(
    reading: Reading, seconds: float, query: str | None, layer: int | None, head: int | None,
    output: Output, **options: Any,
) -> None:  # fmt: skip
    """Print what is worth showing of a reading, or write it."""
    from regard.output import see_report

    report = see_report.report(reading, query_position(query, reading), layer, head, seconds, **options)
    if output.is_printed:
        terminal.show(report.printed())
    else:
        output.write(report.content)


def query_position(query: str | None, reading: Reading) -> int | None:
    return word_position("--query", query, [word.text for word in reading.words])


def _kept(keep: str | None) -> dict[str, list[int] | None]:
    """The layers and heads of --keep."""
    numbers = r"((?:\d{1,6},)*\d{1,6})"
    parts = re.fullmatch(f"{numbers}?(?:/{numbers})?", (keep or "").replace(" ", ""), re.ASCII)
    if parts is None or (keep is not None and not any(parts.groups())):
        raise OptionError(f"--keep is {keep!r}; expected layers such as 3,5, or layers and heads such as 3,5/0,7.")
    layers, heads = ([int(number) for number in part.split(",")] if part else None for part in parts.groups())
    return {"layers": layers, "heads": heads}
