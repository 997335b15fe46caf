"""`regard heads`: what each head of a model does, over a text, a treebank or a corpus."""

from __future__ import annotations

from functools import partial
from typing import Any

from regard.cli import terminal
from regard.cli.ablation import ablate, prune
from regard.cli.atlas import corpus, merge, page
from regard.cli.commands import group
from regard.cli.exit_codes import Group
from regard.cli.options import USUAL, AnyModel, File, open_model
from regard.cli.profile_output import Silence, Text, Written, paragraphs, publish
from regard.errors import OptionError, shortened


def text(
    output: Written, text: Text = None, file: File = None, model: AnyModel = None, silence: Silence = None
) -> None:
    """Statistics and a label for every head, over a text.

    Examples:
      regard heads text "The kids were scared of the lions, so they left."
      regard heads text "The cat sat, for it was tired." --out heads.html
      regard heads text --file letter.txt --model smollm2 --out heads.csv
      regard heads text "The cat sat." --model hf:./a-folder-of-transformers

    .html is a page with all heads as dots over any two statistics.
    """
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
    publish(profile, shown, output, partial(heads_page.maps, reader, texts))


def treebank(
    output: Written,
    file: str,
    score: str | None = None,
    model: AnyModel = None,
    silence: Silence = None,
    untrained: bool = True,
) -> None:
    """The best head for each grammatical relation, over a treebank.

    file        Choose the best head of each relation on this CoNLL-U file.
    score FILE  Score the chosen heads on this CoNLL-U file.
    untrained   Compare with an untrained model of the same shape.

    Examples:
      regard heads treebank dev.conllu --score test.conllu
      regard heads treebank dev.conllu --score test.conllu --out relations.csv
      regard heads treebank dev.conllu --score test.conllu --silence 2.0
      regard heads treebank dev.conllu --model smollm2 --no-untrained

    Heads are chosen on the first file and scored on --score; without it, they are
    chosen on every other sentence and scored on the rest.
    """
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
    publish(profile, tables, output, partial(heads_page.maps, reader, ()))


class HeadCommands(Group):
    """The subcommands; a text in place of one gets an error that names the right one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            content = shortened(args[0])
            raise OptionError(
                f"{content!r} is not one of {', '.join(self.list_commands(ctx))}. "
                f'For a text: regard heads text "{content}"; for a CoNLL-U file: regard heads treebank FILE.'
            )
        return super().resolve_command(ctx, args)


app = group(
    "What each head does: statistics, patterns, relations and ablation, over a text, a treebank or a corpus.",
    """  regard heads text "The kids were scared of the lions, so they left."
  regard heads treebank dev.conllu --score test.conllu
  regard heads ablate "The cat sat on the mat because it was tired."
  regard heads corpus books/ --model smollm2 --out atlas/
  regard heads merge atlas-1/ atlas-2/ --out atlas/
  regard heads page atlas/ other.json --out heads.html

`regard heads COMMAND --help` says more about each.""",
    (text, treebank, corpus, ablate, prune, merge, page),
    HeadCommands,
)
