"""`regard heads ablate`: what changes without a head."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.heads.options import FORMATS, File, Silence, Text, paragraphs
from regard.cli.model_option import CAUSAL, HF, AnyModel, ComputedModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output
from regard.errors import OptionError
from regard.output.files import FIGURES, Format

CURVE_FORMATS = (*FORMATS, Format.SVG, Format.PNG, Format.PDF)
DRAWN = (Format.HTML, *FIGURES)  # the pruning curve
MOST_HEADS = 12  # rows of a table of effects in the terminal

EXAMPLES = """Examples:

\b
  regard heads ablate "The cat sat on the mat because it was tired."
  regard heads ablate "The cat sat on the mat." --out pruning.svg
  regard heads ablate "The cat sat on the mat." --silence 1.3,8.3
  regard heads ablate --corpus books/ --corpus more.jsonl --model hf:folder
"""
PRUNE_EXAMPLES = """Examples:

\b
  regard heads prune 1.3,8.3 --model smollm2 --out pruned/
  regard see "The cat sat on the mat." --model pruned/
"""


@writes(CURVE_FORMATS)
def ablate(
    output: Output,
    text: Text = None,
    file: File = None,
    corpus: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A .txt, .jsonl or .parquet file, or a folder; repeatable.")
    ] = None,
    model: AnyModel = None,
    silence: Silence = None,
) -> None:
    """Silence each head and measure what changes."""
    from regard.heads import ablation
    from regard.output import figure

    texts = [] if corpus and text is None is file else paragraphs("heads ablate", text, file)
    if silence is not None and any(target.format in DRAWN for target in output.targets):
        raise OptionError("--silence has no pruning curve to draw: leave it out, or write .csv, .json, .md or .tex.")
    study = ablation(open_model(model or CAUSAL), texts, corpus=corpus or (), silence=silence)
    draw = partial(figure.pruning, study.curve, study.loss, study.model)
    output.publish(study.tables(output.most(MOST_HEADS)), draw)


def prune(
    heads: Annotated[str, typer.Argument(metavar="2.0,3.1", help="The heads; 2 is all of layer 2.")],
    out: Annotated[str, typer.Option("--out", metavar="FOLDER", help="A new folder for the checkpoint.")],
    model: ComputedModel = None,
) -> None:
    """Write a checkpoint without some heads: smaller where its configuration allows it, otherwise zeroed."""
    from regard.heads import prune as prune_heads

    terminal.show([str(prune_heads((model or CAUSAL).removeprefix(HF), heads, out))])
