"""`regard heads`: what each head of a model does, over a text, a treebank or a corpus."""

from __future__ import annotations

from typing import Any

from regard.cli import terminal
from regard.cli.heads import ablate, atlas, profiles
from regard.errors import OptionError, shortened

EXAMPLES = """Examples:

\b
  regard heads text "The kids were scared of the lions, so they left."
  regard heads treebank dev.conllu --score test.conllu
  regard heads ablate "The cat sat on the mat because it was tired."
  regard heads corpus books/ --model smollm2 --out atlas/
  regard heads merge atlas-1/ atlas-2/ --out atlas/
  regard heads page atlas/ other.json --out heads.html

`regard heads COMMAND --help` says more about each.
"""


class HeadCommands(terminal.Group):
    """The subcommands; a text in place of one gets an error that names the right one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            content = shortened(args[0])
            raise OptionError(
                f"{content!r} is not one of {', '.join(self.list_commands(ctx))}. "
                f'For a text: regard heads text "{content}"; for a CoNLL-U file: regard heads treebank FILE.'
            )
        return super().resolve_command(ctx, args)


app = terminal.group(
    "What each head does: statistics, patterns, relations and ablation, over a text, a treebank or a corpus.",
    EXAMPLES,
    HeadCommands,
    no_args_is_help=True,
)

for _command, _epilog in (
    (profiles.text, profiles.TEXT_EXAMPLES),
    (profiles.treebank, profiles.TREEBANK_EXAMPLES),
    (atlas.corpus, atlas.CORPUS_EXAMPLES),
    (ablate.ablate, ablate.EXAMPLES),
    (ablate.prune, ablate.PRUNE_EXAMPLES),
    (atlas.merge, atlas.MERGE_EXAMPLES),
    (atlas.page, atlas.PAGE_EXAMPLES),
):
    app.command(cls=terminal.Command, epilog=_epilog)(_command)
