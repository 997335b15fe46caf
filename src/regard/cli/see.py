"""`regard see`: the attention of a real model on a text."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import outputs, terminal, text_input
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, open_model
from regard.cli.outputs import Aspect, FontSize, NoCaption, Out, Show
from regard.cli.text_input import asked_for
from regard.errors import OptionError
from regard.output.files import Format, SeeFigure

if TYPE_CHECKING:
    from regard.reading import Reading
    from regard.reading.sight import Sight
    from regard.tables import Table

MOST_TOKENS = 4096  # upper limit of --generate

EXAMPLES = """Examples:

\b
  regard see "The kids were scared of the lions, so they left right away."
  regard see "Keys on the table belong to Sarah" --query belong
  regard see "Sarah lost her keys" --relation whose
  regard see "The cat sat" --query cat --layer 4 --head 7 --steps
  regard see "Love Apple phones" --out apple.html --out apple.svg
  regard see "Love Apple phones" --out apple.html --with-model
  regard see "Love Apple phones" --layer 3 --out heads.svg
  regard see "Love Apple phones" --query Apple --beside "Love apple pie"
  regard see "jane visits africa" --show json | python -m json.tool
  regard see "Once upon a time" --generate 20
  regard see "The cat sat" --model hf:./a-folder-of-transformers

\b
.html is the interactive viewer with all weights; .svg, .pdf and .png draw one
head, or all heads of --layer; .json holds every number; .txt, .md, .tex and
.csv hold the tables.
A weight shows where a head attends, not why a model gives its answer.
The model is downloaded once, into the cache: see `regard models`.
"""


def see(
    text: Annotated[str | None, typer.Argument(help="A sentence; - reads it from standard input.")] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")] = None,
    model: AnyModel = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="The query word; the:2 is the second 'the', 3 a position."),
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Only this layer, counted from 0.")] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 0.")] = None,
    relation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The head known for this: whose, where, who does what, when, object …"),
    ] = None,
    steps: Annotated[bool, typer.Option("--steps", help="Every step for one query in one head.")] = False,
    generate: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=MOST_TOKENS, help="Let the model write N tokens first.")
    ] = None,
    beside: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Another text with the same word: how far its vector moves, layer by layer."),
    ] = None,
    show: Show = None,
    figure: Annotated[
        SeeFigure | None,
        typer.Option(help="What svg, png and pdf draw: heat-map of one head, or all heads with --layer, by default."),
    ] = None,
    out: Out = None,
    layers: Annotated[
        str | None, typer.Option(metavar="3,5", help="Keep only these layers in the HTML page: a smaller file.")
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="0,7", help="Keep only these heads in the HTML page: a smaller file.")
    ] = None,
    with_model: Annotated[
        bool, typer.Option("--with-model", help="Put the model into the HTML page: it reads other texts offline.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten the vectors of --steps.")] = False,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """See the attention of a real model: the strongest pairs, one word's weights, one head's map."""
    from regard.heads.sentence_relations import answer_in
    from regard.output import see_report
    from regard.reading.sight import sight

    targets = outputs.targets(out, show, layout=outputs.layout(aspect, font_size, no_caption))
    if (layers or heads) and (steps or not any(target.format is Format.HTML for target in targets)):
        raise OptionError("--layers and --heads choose what the HTML page keeps: add --out FILE.html.")
    if with_model and (steps or not any(target.format is Format.HTML for target in targets)):
        raise OptionError("--with-model puts the model into the HTML page: add --out FILE.html.")
    kept: dict[str, Any] = {"layers": _numbers("--layers", layers), "heads": _numbers("--heads", heads)}
    written = _text(text, file)
    if relation is not None and (layer is not None or head is not None):
        raise OptionError("--relation chooses layer and head: give it, or --layer and --head.")
    started = time.perf_counter()
    reading = _read(model or (USUAL if generate is None else CAUSAL), written, generate)
    seconds = time.perf_counter() - started
    word = asked_for(query, [word.text for word in reading.words])
    answer = None if relation is None else answer_in(reading, relation, word)
    shown = sight(reading, word, layer, head, answer)  # checks what depends on the model and the text
    other = None if beside is None else _beside(reading, beside)
    more = [] if other is None else [_moved(shown, other)]
    usual = SeeFigure.HEADS if layer is not None and head is None else SeeFigure.HEAT_MAP
    kept |= {"beside": other, "with_model": with_model}
    is_place = any(one is not None for one in (query, layer, head, relation))
    files = see_report.SeeFiles(shown, seconds, figure or usual, steps, full, more, kept, is_place)
    if not outputs.is_printed(out, targets):
        outputs.write(targets, files.content)
        return
    terminal.show([see_report.sentence(reading), ""])
    if steps:
        terminal.show([files.step_table()], full)
    else:
        terminal.show([*see_report.terminal(shown), see_report.closing(shown, seconds)])
    terminal.show(part for table in more for part in ("", table))


def _text(text: str | None, file: str | None) -> str:
    if text is not None and file is not None:
        raise OptionError("Give a text or --file, not both.")
    if text is None and file is None:
        raise OptionError('Give a text, as in regard see "The cat sat", or --file FILE.')
    if file is not None or text == text_input.STANDARD:
        text = text_input.text_of(file if file is not None else text_input.STANDARD)
    assert text is not None
    if not text.strip():
        raise OptionError('The text contains no word: give one, as in regard see "The cat sat".')
    return text.strip()


def _numbers(option: str, given: str | None) -> list[int] | None:
    """The numbers of a list such as 3,5."""
    if given is None:
        return None
    if not re.fullmatch(r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*)*", given, re.ASCII):
        raise OptionError(f"{option} is {given!r}; expected numbers with commas between them, such as 3,5.")
    return [int(number) for number in given.split(",")]


def _read(name: str, text: str, generate: int | None) -> Reading:
    """The text as read by a model, or as continued by it."""
    reader = open_model(name)
    if generate is None:
        return reader.read(text)  # long texts show their own progress bar
    with terminal.progress(f"{name} writes", generate) as one_more:
        return reader.generate(text, generate, on_token=lambda _piece: one_more())


def _beside(reading: Reading, text: str) -> Reading:
    """Another text, read by the same model."""
    if reading.reader is None:
        raise OptionError("--beside reads a second text with the same model: leave out hf: in --model.")
    return reading.reader.read(text)


def _moved(shown: Sight, other: Reading) -> Table:
    """How far the shown word's vector moves in another text; the word there is spelled alike."""
    word = shown.reading.words[shown.query]
    there = [place for place, one in enumerate(other.words) if one.text.casefold() == word.text.casefold()]
    if not there:
        raise OptionError(
            f"--beside: the other text has no word {word.text!r}. Choose one that both have, with --query WORD."
        )
    return shown.reading.moved(shown.query, other, there[0])
