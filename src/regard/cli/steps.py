"""`regard steps`: every step of attention on a sentence, as tables, figures and files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard import examples
from regard.cli import terminal
from regard.cli.options import Head, Sentence, Settings, Writes
from regard.cli.outputs import Output
from regard.cli.text_input import STANDARD, called, json_of, settings, text_given, word_position
from regard.errors import OptionError
from regard.output.files import USUAL, Format
from regard.output.steps_report import StepsReport
from regard.teaching.traced_attention import step_tables, traced
from regard.teaching.words import words_of

SETTINGS = {"seed": int, "width": int, "positions": str, "product": str}  # of `traced`


def steps(
    output: Annotated[Output, Writes((*USUAL, Format.XLSX))],
    text: Sentence = None,
    example: str | None = None,
    context: str | None = None,
    heads: Annotated[int | None, typer.Option(min=1, max=1024)] = None,
    query: str | None = None,
    head: Head = None,
    mask: list[str] | None = None,
    changes: Settings = None,
) -> None:
    """Show every step of attention: score, score/√d_k, softmax, softmax × v, sum.

    example NAME|FILE  One of `regard examples`, or a JSON file with the words' vectors; - for standard input. A name
                       with a dot or a slash is a file.
    context TEXT       Cross-attention: keys and values come from this text.
    heads              Number of heads; 1 by default.
    query WORD         Only this word's table; the:2 is the second 'the', 3 a position. With cat/sat, figures show
                       query and key, number by number.
    mask MASK          causal, window:N, prefix:N, length:N (the rest is padding), first:N, chunks:N,
                       documents:0,0,1; combined with & and |, or given several times for all of them.
    changes            seed (of random numbers, 0 by default), width (of random vectors, 4 per head),
                       positions=sinusoidal (x = embedding + position), product="x W^T" (how W is written; "x W" by
                       default). May be repeated.

    Examples:
      regard steps --example cat-sat
      regard steps "The cat sat" --query cat --heads 2
      regard steps "The cat sat" --mask causal --set seed=7
      regard steps "The cat sat on it" --mask causal --mask window:2
      regard steps "le chat" --context "The cat sat"
      regard steps "The cat sat" --set positions=sinusoidal
      regard steps --example vectors.json --show latex
      regard steps "The cat sat" --out cat.svg
      regard steps "The cat sat" --out cat.xlsx --set product="x W^T"
      regard steps "The cat sat" --query cat/sat --out cat.png

    vectors.json holds {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], …}, or a list of
    vectors, or "embeddings" with "W_q", "W_k", "W_v", "W_O", "context", "heads",
    "mask" and "divisor" beside them, or "q", "k" and "v". A text beside it picks
    words of it. W is as in q = x · W_q, a row per component of x; product="x W^T"
    is the other convention. Without the file, vectors and weights are random.
    `regard check` reads what --out writes as .md, .csv or .json; .xlsx has live
    formulas.
    """
    words, content, source = _inputs(text, example)
    explained = traced(
        words, content, source=source, context=None if context is None else words_of(context), heads=heads,
        masks=mask or (), **settings("--set", changes, SETTINGS),
    )  # fmt: skip
    if head is not None and not 0 <= head < explained.heads:
        raise OptionError(f"There is no head {head}: there are {explained.heads}, counted from 0.")
    key = None
    if query is not None and query not in explained.words and "/" in query:  # cat/sat is a query and a key
        query, _, key = query.partition("/")
    report = StepsReport(
        explained,
        word_position("--query", query, explained.words),
        word_position("--query", key, explained.key_words),
        head,
        output.full,
    )
    if output.is_printed:
        terminal.show(step_tables(explained, report.query, head, full=output.full), output.full)
        return
    if explained.note is not None and all(target.format is Format.CSV for target in output.targets):
        terminal.remark(explained.note)  # CSV has no place for all of it
    output.write(report.file)


def _inputs(text: str | None, example: str | None) -> tuple[tuple[str, ...] | None, Any, str]:
    """The words, the vectors as in a JSON file, and what these are called in errors; None for what is not given."""
    if example is None:
        if text is None:
            raise OptionError('Give a text, as in regard steps "The cat sat", or --example cat-sat.')
        return words_of(text_given(text)), None, ""
    if example == STANDARD or Path(example).suffix or Path(example).name != example:
        if text == STANDARD == example:
            raise OptionError("Text and vectors cannot both come from standard input.")
        words = None if text is None else words_of(text_given(text))
        return words, json_of(example) or {}, called(example)  # null is refused like an empty object
    chosen = examples.named(example)
    if text is not None:
        raise OptionError("The example has its own text and vectors: leave out one of them.")
    if chosen.kind in ("worked", "vectors"):
        return None, chosen.content, example
    if chosen.kind in ("sentence", "passage"):
        return words_of(chosen.content), None, example
    raise OptionError(f"The example {example!r} is of kind {chosen.kind!r}: it has no words to attend to each other.")
