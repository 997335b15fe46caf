"""`regard heads`: what each head of a model does, over a text, a treebank or a corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import terminal
from regard.cli.commands import Full, Group, Writes, group, show_option
from regard.cli.options import CAUSAL, HF, MOST_ROWS, USUAL, AnyModel, ComputedModel, File, open_computed, open_model
from regard.cli.outputs import Output
from regard.cli.text_input import STANDARD, text_argument
from regard.errors import OptionError, shortened
from regard.output.files import FIGURES, Format, tables_file

if TYPE_CHECKING:
    from regard.heads.profile import Profile
    from regard.reading import Reading
    from regard.tables import Table

FORMATS = (Format.TABLE, Format.MARKDOWN, Format.LATEX, Format.CSV, Format.JSON, Format.HTML, Format.PARQUET)
CURVE_FORMATS = (*FORMATS, Format.SVG, Format.PNG, Format.PDF)
DRAWN = (Format.HTML, *FIGURES)  # the pruning curve

Written = Annotated[Output, Writes(FORMATS)]
Text = Annotated[str | None, typer.Argument(help="A text; - reads it from standard input.")]
Silence = Annotated[str | None, typer.Option(metavar="2.0,3.1", help="Silence these heads; 2 is all of layer 2.")]
Atlas = Annotated[str, typer.Option("--out", metavar="FOLDER", help="The folder of the atlas.")]
AtlasShow = Annotated[Format | None, show_option(tuple(kind for kind in FORMATS if kind is not Format.HTML))]


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

    texts = _paragraphs("heads text", text, file)
    reader = open_model(model or USUAL)
    if silence is not None:
        from regard.heads.ablation_effects import silence_named

        reader = silence_named(reader, silence)
    profile = profile_texts(reader, texts)
    tables = [profile.table(every=output.full or not output.is_printed)]
    shown = [profile.pattern_table(every=output.full), *tables] if output.is_printed else tables
    _publish(profile, shown, output, partial(heads_page.maps, reader, texts))


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
    _publish(profile, tables, output, partial(heads_page.maps, reader, ()))


def corpus(
    files: list[str],
    out: Atlas,
    model: ComputedModel = None,
    shard: str | None = None,
    dask: str | None = None,
    jobs: Annotated[int, typer.Option(min=1, max=256)] = 1,
    field: str = "text",
    longest: Annotated[int, typer.Option(min=8)] = 512,
    show: AtlasShow = None,
    full: Full = False,
) -> None:
    """An atlas of a model: statistics and examples of every head over a corpus of any size.

    files         Files or folders of a corpus.
    shard 3/64    Only this part of the corpus.
    dask ADDRESS  Compute on a Dask cluster.
    jobs          Processes that share a corpus, for machines with many cores.
    field         The field of JSONL objects, or column of Parquet files.
    longest       Cut longer texts after so many tokens.

    Examples:
      regard heads corpus books/ more.jsonl --model smollm2 --out atlas/
      regard heads corpus books/ --out atlas/ --shard 3/64
      regard heads corpus books/ --out atlas/ --jobs 8
      regard heads corpus books/ --out atlas/ --dask tcp://host:8786

    Files are .txt, .jsonl or .parquet. An interrupted run continues where it
    stopped.
    """
    from regard.heads import atlas, atlas_shard

    name, folder, part = model or USUAL, _folder(out), _shard(shard)
    reader = open_computed(name, "An atlas")
    options: Any = {"jobs": jobs, "dask": dask, "field": field, "longest": longest, "tell": terminal.remark}
    if part == (1, 1):
        _show_atlas(atlas(reader, files, folder, **options), folder, show, full)
        return
    units = atlas_shard(reader, files, folder, part, **options)
    done = f"Shard {part[0]} of {part[1]} is done: {units:,} units in {folder}."
    terminal.show([f"{done} When all are: regard heads merge {folder} … --out FOLDER"])


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

    texts = [] if corpus and text is None is file else _paragraphs("heads ablate", text, file)
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


def merge(folders: list[str], out: Atlas, show: AtlasShow = None, full: Full = False) -> None:
    """Join the shards of an atlas.

    folders  Folders that `regard heads corpus --shard` wrote.

    Examples:
      regard heads merge atlas-1/ atlas-2/ --out atlas/
    """
    from regard import heads

    _show_atlas(heads.merge(folders, _folder(out))[0], None, show, full)


def page(sources: list[str], out: Annotated[list[str] | None, typer.Option("--out", metavar="FILE")] = None) -> None:
    """A page with all heads, from what earlier runs wrote.

    sources  An atlas or a .json file; two to compare models.
    out      The .html file; - or nothing is stdout.

    Examples:
      regard heads page atlas/ --out heads.html
      regard heads page minilm.json smollm2.json --out both.html
    """
    from regard.viewer import heads_page

    output = Output.of(out, formats=[Format.HTML], usual=Format.HTML)
    content = heads_page.page(sources, terminal.remark)
    output.write(lambda _kind: content)


def _paragraphs(command: str, text: str | None, file: str | None) -> list[str]:
    """The paragraphs of the text that a command is given."""
    return [part for part in re.split(r"\n\s*\n", text_argument(command, text, file)) if part.strip()]


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    parts = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    if parts is None or not 1 <= int(parts[1]) <= int(parts[2]):
        raise OptionError(f"--shard is {text!r}; expected a part of a whole, from 1, such as 3/64.")
    return int(parts[1]), int(parts[2])


def _folder(out: str) -> str:
    if out == STANDARD:
        raise OptionError("An atlas is written to a folder: add --out FOLDER.")
    if Path(out).exists() and not Path(out).is_dir():
        raise OptionError(f"--out {out!r} is a file; an atlas is written to a folder.")
    return out


def _show_atlas(profile: Profile, folder: str | None, show: Format | None, full: bool) -> None:
    """Print an atlas that was written to a folder, or its numbers in another format."""
    tables = [profile.pattern_table(every=full), *[profile.table()] * full]
    if show in (None, Format.TABLE):
        written = [f"Wrote {folder}."] if folder else []
        terminal.show([*tables, *([] if full else profile.notes), *written], full)
    else:
        terminal.raw(_content(profile, [profile.table(every=True)], show, full))


def _publish(profile: Profile, tables: Sequence[Table], output: Output, maps: Callable[[], list[Reading]]) -> None:
    """Print the tables of a profile, or write them as the options say; a page also holds `maps`."""
    if output.is_printed:
        shown = {note for table in tables for note in table.notes}
        terminal.show([*tables, *(note for note in profile.notes if note not in shown)], output.full)
    else:
        output.write(lambda kind: _content(profile, tables, kind, output.full, maps))


def _content(
    profile: Profile, tables: Sequence[Table], kind: Format, full: bool, maps: Callable[[], list[Reading]] = list
) -> str | bytes:
    if kind is Format.HTML:
        from regard.viewer import heads_page

        return "".join(heads_page.pieces([profile.data()], [maps()]))
    if kind is Format.JSON:
        return json.dumps(profile.data(), ensure_ascii=False, indent=1) + "\n"
    return tables_file(tables, kind, full)


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
