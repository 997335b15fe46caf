"""`regard heads text` and `regard heads treebank`: what each head does over a text or a treebank."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from regard.cli import terminal
from regard.cli.heads import profile_outputs
from regard.cli.heads.options import FORMATS, File, Silence, Text, paragraphs
from regard.cli.model_option import USUAL, AnyModel, open_model
from regard.cli.output_options import writes
from regard.cli.outputs import Output

TEXT_EXAMPLES = """Examples:

\b
  regard heads text "The kids were scared of the lions, so they left."
  regard heads text "The cat sat, for it was tired." --out heads.html
  regard heads text --file letter.txt --model smollm2 --out heads.csv
  regard heads text "The cat sat." --model hf:./a-folder-of-transformers

\b
.html is a page with all heads as dots over any two statistics.
"""
TREEBANK_EXAMPLES = """Examples:

\b
  regard heads treebank dev.conllu --score test.conllu
  regard heads treebank dev.conllu --score test.conllu --out relations.csv
  regard heads treebank dev.conllu --score test.conllu --silence 2.0
  regard heads treebank dev.conllu --model smollm2 --no-untrained

\b
Heads are chosen on the first file and scored on --score; without it, they are
chosen on every other sentence and scored on the rest.
"""


@writes(FORMATS)
def text(output: Output, text: Text = None, file: File = None, model: AnyModel = None, silence: Silence = None) -> None:
    """Statistics and a label for every head, over a text."""
    from regard.heads import profile_texts
    from regard.viewer import heads_page

    texts = paragraphs("heads text", text, file)
    reader = open_model(model or USUAL)
    if silence is not None:
        from regard.heads.ablation_effects import silence_named

        reader = silence_named(reader, silence)
    profile = profile_texts(reader, texts)
    tables = [profile.table(every=output.full or not output.is_printed)]
    shown = [profile.pattern_table(every=output.full), *tables] if output.is_printed else tables
    profile_outputs.publish(profile, shown, output, partial(heads_page.maps, reader, texts))


@writes(FORMATS)
def treebank(
    output: Output,
    file: Annotated[str, typer.Argument(help="Choose the best head of each relation on this CoNLL-U file.")],
    score: Annotated[
        str | None, typer.Option(metavar="FILE", help="Score the chosen heads on this CoNLL-U file.")
    ] = None,
    model: AnyModel = None,
    silence: Silence = None,
    untrained: Annotated[
        bool, typer.Option("--untrained/--no-untrained", help="Compare with an untrained model of the same shape.")
    ] = True,
) -> None:
    """The best head for each grammatical relation, over a treebank."""
    from regard.heads import relations
    from regard.heads import treebank as treebanks
    from regard.heads.profile import change_table
    from regard.viewer import heads_page

    files = [treebanks.read(name) for name in (file, score) if name is not None]
    for read in files:
        for skipped in read.skipped[:5]:
            terminal.remark(f"{read.name}, line {skipped.line}: sentence skipped, {skipped.why}.")
        if len(read.skipped) > 5:
            terminal.remark(f"{read.name}: {len(read.skipped):,} sentences skipped in all.")
    reader = open_model(model or USUAL)
    profile = relations(reader, *files, silence=silence, untrained=untrained)
    tables = [profile.relation_table(every=output.full or not output.is_printed)]
    if silence is not None:
        tables.append(change_table(profile.changes, silence))
    profile_outputs.publish(profile, tables, output, partial(heads_page.maps, reader, ()))
