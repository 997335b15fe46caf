"""`regard heads ablate` and `prune`: a model without some of its heads."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.options import CAUSAL, HF, MOST_ROWS, AnyModel, ComputedModel, File, Writes, open_model
from regard.cli.outputs import Output
from regard.cli.profile_output import FORMATS, Silence, Text, paragraphs
from regard.errors import OptionError
from regard.output.files import FIGURES, Format

CURVE_FORMATS = (*FORMATS, Format.SVG, Format.PNG, Format.PDF)

DRAWN = (Format.HTML, *FIGURES)  # the pruning curve


def ablate(
    output: Annotated[Output, Writes(CURVE_FORMATS)],
    text: Text = None,
    file: File = None,
    corpus: list[str] | None = None,
    model: AnyModel = None,
    silence: Silence = None,
) -> None:
    """Silence each head and measure what changes.

    corpus FILE  A .txt, .jsonl or .parquet file, or a folder; repeatable.

    Examples:
      regard heads ablate "The cat sat on the mat because it was tired."
      regard heads ablate "The cat sat on the mat." --out pruning.svg
      regard heads ablate "The cat sat on the mat." --silence 1.3,8.3
      regard heads ablate --corpus books/ --corpus more.jsonl --model hf:folder
    """
    from regard.heads import ablation
    from regard.output import figure

    texts = [] if corpus and text is None is file else paragraphs("heads ablate", text, file)
    if silence is not None and any(target.format in DRAWN for target in output.targets):
        raise OptionError("--silence has no pruning curve to draw: leave it out, or write .csv, .json, .md or .tex.")
    study = ablation(open_model(model or CAUSAL), texts, corpus=corpus or (), silence=silence)
    draw = partial(figure.pruning, study.curve, study.loss, study.model)
    output.publish(study.tables(output.most(MOST_ROWS)), draw)


def prune(
    heads: str, out: Annotated[str, typer.Option("--out", metavar="FOLDER")], model: ComputedModel = None
) -> None:
    """Write a checkpoint without some heads: smaller where its configuration allows it, otherwise zeroed.

    heads 2.0,3.1  The heads; 2 is all of layer 2.
    out            A new folder for the checkpoint.

    Examples:
      regard heads prune 1.3,8.3 --model smollm2 --out pruned/
      regard see "The cat sat on the mat." --model pruned/
    """
    from regard.heads import prune as prune_heads

    terminal.show([str(prune_heads((model or CAUSAL).removeprefix(HF), heads, out))])
