"""`regard steps`: every step of attention on a sentence."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli import outputs, rendering, terminal
from regard.cli.outputs import FIGURES, Format, Out
from regard.cli.rendering import Figure, Wanted
from regard.cli.tracing import traced
from regard.cli.words import asked_for
from regard.errors import OptionError

EXAMPLES = """Examples:

\b
  regard steps --example cat-sat
  regard steps "The cat sat" --query cat --heads 2
  regard steps "The cat sat" --mask causal --seed 7
  regard steps "The cat sat on it" --mask causal --mask window:2
  regard steps "le chat" --context "The cat sat"
  regard steps "The cat sat" --embeddings vectors.json --show latex
  regard steps "The cat sat" --out cat.svg
  regard steps "The cat sat" --query cat --key sat --figure bars --out cat.png

\b
vectors.json holds {"The": [1, 0, 1, 0], "cat": [0, 1, 0, 1], …}, or a list of
vectors, or "embeddings" with "W_q", "W_k", "W_v", "W_O", "context", "heads",
"mask" and "divisor" beside them, or "q", "k" and "v". W is as in q = x · W_q,
a row per number of x; "product": "x W^T" is the other convention. Without the
file, vectors and weights are random. What --out writes as .md, .csv or .json,
`regard check` can read.
"""


def steps(
    text: Annotated[str | None, typer.Argument(help="A sentence; - reads it from standard input.")] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="An example instead of a text; `regard examples` lists them.")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option(metavar="FILE", help="A JSON file with the words' vectors; - for standard input.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Cross-attention: keys and values come from this text.")
    ] = None,
    heads: Annotated[int | None, typer.Option(min=1, max=1024, help="Number of heads; 1 by default.")] = None,
    query: Annotated[
        str | None,
        typer.Option(metavar="WORD", help="Only this word's table; the:2 is the second 'the', 3 a position."),
    ] = None,
    head: Annotated[int | None, typer.Option(help="Only this head, counted from 0.")] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MASK",
            help="causal, window:N, prefix:N, length:N (the rest is padding), first:N, chunks:N, documents:0,0,1; "
            "combined with & and |, or given several times for all of them.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of random numbers; 0 by default.")] = None,
    width: Annotated[int | None, typer.Option(min=1, help="Size of random vectors; 4 per head by default.")] = None,
    show: Annotated[Format | None, typer.Option(help="What to show steps as; by default as --out ends.")] = None,
    figure: Annotated[
        Figure | None, typer.Option(help="What svg, png and pdf draw: heat-map, or flow with --query, by default.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="WORD", help="The key of --figure bars.")] = None,
    out: Out = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing: all words, all numbers.")] = False,
) -> None:
    """Show every step of attention: score, score/√d_k, softmax, softmax × v, sum."""
    targets = outputs.targets(out, show, usual=Format.SVG if figure else Format.TABLE)
    if figure is not None and not any(target.format in FIGURES for target in targets):
        raise OptionError(f"--figure {figure} is drawn as svg, png or pdf, not as {targets[0].format}.")
    found = traced(text, example, embeddings, heads=heads, width=width, seed=seed, masks=mask or (), context=context)
    if head is not None and not 0 <= head < found.heads:
        raise OptionError(f"There is no head {head}: there are {found.heads}, counted from 0.")
    wanted = Wanted(asked_for(query, found.words), asked_for(key, found.key_words), head, figure, full)
    if out is None and targets[0].format is Format.TABLE:
        terminal.show(rendering.tables(found, wanted), full)
        return
    if found.note is not None and all(target.format is Format.CSV for target in targets):
        terminal.remark(found.note)  # CSV has no place for it
    outputs.write(targets, lambda kind: rendering.written(found, wanted, kind))
