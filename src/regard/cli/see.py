"""`regard see`: what a real model looks at in a sentence."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import files, printing
from regard.cli.words import asked_for
from regard.errors import OptionError

if TYPE_CHECKING:
    from regard.output.see_report import Sight
    from regard.reading import Reading
    from regard.tables import Table

USUAL, WRITER = "minilm", "smollm2"  # the model that reads, and the one that writes too
MOST_TOKENS = 4096  # that --generate may ask for

EXAMPLES = """Examples:

\b
  regard see "The kids were scared of the lions, so they left right away."
  regard see "Keys on the table belong to Sarah" --query belong
  regard see "The cat sat" --query cat --layer 4 --head 7 --steps
  regard see "Love Apple phones" --html apple.html
  regard see "jane visits africa" --json - | python -m json.tool
  regard see "Once upon a time" --generate 20

\b
A weight says where a head looks, not why a model says what it says.
The first time, the model is fetched into the cache: `regard models`.
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants to see."""

    query: str | None
    layer: int | None
    head: int | None
    full: bool


def see(
    text: Annotated[str | None, typer.Argument(help="A sentence; - reads it from standard input.")] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A model by name, path or hub id; `regard models` lists names.")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="The word that looks; the:2 is the second 'the', 3 a position."),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 0.")] = None,
    steps: Annotated[bool, typer.Option("--steps", help="The full table of one word in one head.")] = False,
    generate: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_TOKENS, help="Let the model write N tokens first.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the viewer and all weights as one page to this file.")
    ] = None,
    layers: Annotated[
        str | None, typer.Option(metavar="3,5", help="Layers to keep in the page of --html: a smaller file.")
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="0,7", help="Heads to keep in the page of --html: a smaller file.")
    ] = None,
    svg: Annotated[str | None, typer.Option(metavar="FILE", help="Draw the head's map into this file.")] = None,
    png: Annotated[str | None, typer.Option(metavar="FILE", help="The same as pixels.")] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the numbers to this file; - prints them.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten no vectors of --steps.")] = False,
) -> None:
    """See what a real model looks at: each word's partner, one word's looks, one head's map."""
    outputs = {name: path for name, path in (("html", html), ("svg", svg), ("png", png), ("json", json)) if path}
    if list(outputs.values()).count(files.STANDARD) > 1:
        raise OptionError("Only one of --html, --svg, --png and --json can go to standard output.")
    if (layers or heads) and not html:
        raise OptionError("--layers and --heads choose what the page of --html keeps; add --html FILE.")
    kept = {"layers": _numbers("--layers", layers), "heads": _numbers("--heads", heads)}
    if steps and outputs:
        raise OptionError("--steps prints a table: leave --html, --svg, --png and --json out.")
    written = _text(text, file)
    aloud = files.STANDARD not in outputs.values()
    asked = Asked(query, layer, head, full)
    name = model or (USUAL if generate is None else WRITER)
    started = time.perf_counter()
    _find(name)
    if aloud and generate is None:  # the sentence stands there while the model loads
        printing.show([_sentence(written)])
    reading = _read(name, written, generate)
    seconds = time.perf_counter() - started
    if aloud and generate is not None:
        printing.show([_sentence(reading)])
    if steps:
        printing.show([""])
        printing.show(_steps(reading, asked), full)
        return
    shown = _sight(reading, asked)
    if outputs:
        _write(shown, outputs, seconds, kept)
        return
    _print(shown, seconds)


def _text(text: str | None, file: str | None) -> str:
    if text is not None and file is not None:
        raise OptionError("Give a text or --file, not both.")
    if text is None and file is None:
        raise OptionError('Give a text, as in regard see "The cat sat", or --file FILE.')
    if file is not None or text == files.STANDARD:
        text = files.text_of(file if file is not None else files.STANDARD)
    assert text is not None
    if not text.strip():
        raise OptionError('The text holds no word: give one, as in regard see "The cat sat".')
    return text.strip()


def _numbers(option: str, given: str | None) -> list[int] | None:
    """The numbers of a list such as 3,5."""
    if given is None:
        return None
    if not re.fullmatch(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*", given, re.ASCII):
        raise OptionError(f"{option} is {given!r}; expected numbers with commas between them, such as 3,5.")
    return [int(number) for number in given.split(",")]


def _find(name: str) -> None:
    """Fetch a model if it has to be; a name that nobody knows is refused before anything is printed."""
    from regard.models import store

    store.find(name)


def _read(name: str, text: str, generate: int | None) -> Reading:
    """The text read by a model, or gone on with by it."""
    from regard.models.loading import model

    reader = model(name)
    if generate is not None:
        with printing.progress(f"{name} writes", generate) as one_more:
            written: Reading = reader.generate(text, generate, on_token=lambda _piece: one_more())
        return written
    with printing.progress(f"{name} reads", len(reader.blocks)) as one_more:
        read: Reading = reader.read(text, on_layer=lambda _done, _all: one_more())
    return read


def _sight(reading: Reading, asked: Asked) -> Sight:
    from regard.output import see_report

    query = asked_for(asked.query, [word.text for word in reading.words])
    return see_report.sight(reading, query, asked.layer, asked.head)


def _sentence(read: Reading | str) -> Any:
    from regard.output.sentence import sentence

    return sentence(read)


def _steps(reading: Reading, asked: Asked) -> list[Table]:
    """The table of every step, of the head that looks most at one word where none is named."""
    from regard.cli.rendering import shortened

    shown = _sight(reading, asked)
    table = reading.table(shown.query, shown.layer, shown.head)
    return [table if asked.full else shortened(table)]


def _write(shown: Sight, outputs: dict[str, str], seconds: float, kept: dict[str, Any]) -> None:
    """The files that were asked for."""
    from regard.output import see_report
    from regard.viewer import page

    for medium, path in outputs.items():
        content: str | bytes
        if medium == "json":
            content = see_report.data(shown, seconds)
        elif medium == "html":
            start = {"layer": shown.layer, "head": shown.head, "query": shown.reading.words[shown.query].first}
            content = page.page(shown.reading, **kept, start=start)
        else:
            drawn = see_report.figure(shown)
            content = drawn.png() if medium == "png" else str(drawn)
        printing.deliver(content, path)


def _print(shown: Sight, seconds: float) -> None:
    """All of it in the terminal, part by part."""
    from regard.output import see_report

    printing.show([""])
    printing.show([*see_report.terminal(shown), see_report.closing(shown, seconds)])
