"""`regard heads`: what each head of a model does, over a text, a treebank or a corpus."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import outputs, profile_outputs, terminal, text_input
from regard.cli.model_option import CAUSAL, USUAL, AnyModel, ComputedModel, check_computed, open_computed, open_model
from regard.cli.outputs import Aspect, FontSize, Full, NoCaption, Out
from regard.errors import OptionError, shortened
from regard.output.files import FIGURES, Format, file_of

if TYPE_CHECKING:
    from regard.reading import Reading
    from regard.reading.reader import Reader

FORMATS = (Format.TABLE, Format.MARKDOWN, Format.LATEX, Format.CSV, Format.JSON, Format.HTML, Format.PARQUET)
ATLAS_FORMATS = tuple(kind for kind in FORMATS if kind is not Format.HTML)
CURVE_FORMATS = (*FORMATS, Format.SVG, Format.PNG, Format.PDF)
DRAWN = (Format.HTML, *FIGURES)  # the pruning curve
MOST_HEADS = 12  # rows of a table of effects in the terminal

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
CORPUS_EXAMPLES = """Examples:

\b
  regard heads corpus books/ more.jsonl --model smollm2 --out atlas/
  regard heads corpus books/ --out atlas/ --shard 3/64
  regard heads corpus books/ --out atlas/ --jobs 8
  regard heads corpus books/ --out atlas/ --dask tcp://host:8786

\b
Files are .txt, .jsonl or .parquet. An interrupted run continues where it
stopped.
"""
ABLATE_EXAMPLES = """Examples:

\b
  regard heads ablate "The cat sat on the mat because it was tired."
  regard heads ablate "The cat sat on the mat." --out pruning.svg
  regard heads ablate "The cat sat on the mat." --silence 1.3,8.3
"""
MERGE_EXAMPLES = """Examples:

\b
  regard heads merge atlas-1/ atlas-2/ --out atlas/
"""
PAGE_EXAMPLES = """Examples:

\b
  regard heads page atlas/ --out heads.html
  regard heads page minilm.json smollm2.json --out both.html
"""

TextArgument = Annotated[str | None, typer.Argument(help="A text; - reads it from standard input.")]
File = Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")]
Silence = Annotated[str | None, typer.Option(metavar="2.0,3.1", help="Silence these heads; 2 is all of layer 2.")]
Show = Annotated[Format | None, outputs.show_option(FORMATS)]
AtlasShow = Annotated[Format | None, outputs.show_option(ATLAS_FORMATS)]
CurveShow = Annotated[Format | None, outputs.show_option(CURVE_FORMATS)]
Folder = Annotated[str, typer.Option("--out", metavar="FOLDER", help="The folder of the atlas.")]


class _Group(terminal.Group):
    """The subcommands; a text in place of one gets an error that names the right one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None:
            content = shortened(args[0])
            raise OptionError(
                f"{content!r} is not one of {', '.join(self.list_commands(ctx))}. "
                f'For a text: regard heads text "{content}"; for a CoNLL-U file: regard heads treebank FILE.'
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Group,
    help="What each head does: statistics, patterns, relations and ablation, over a text, a treebank or a corpus.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode=None,  # keeps the lines of the examples as they are
    add_completion=False,
)


@app.command(cls=terminal.Command, epilog=TEXT_EXAMPLES)
def text(
    text: TextArgument = None,
    file: File = None,
    model: AnyModel = None,
    silence: Silence = None,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """Statistics and a label for every head, over a text."""
    from regard.heads import profile_texts

    targets = outputs.targets(out, show, formats=FORMATS)
    texts = _paragraphs("text", text, file)
    reader = _open(model, silence)
    if silence is not None:
        from regard.heads.ablation_effects import silence_named

        reader = silence_named(reader, silence)
    profile = profile_texts(reader, texts)
    printed = outputs.is_printed(out, targets)
    tables = [profile.table(every=full or not printed)]
    shown = [profile.pattern_table(every=full), *tables] if printed else tables
    profile_outputs.publish(profile, shown, targets, out, full, partial(_maps, reader, texts))


@app.command(cls=terminal.Command, epilog=TREEBANK_EXAMPLES)
def treebank(
    file: Annotated[str, typer.Argument(help="Choose the best head of each relation on this CoNLL-U file.")],
    score: Annotated[
        str | None, typer.Option(metavar="FILE", help="Score the chosen heads on this CoNLL-U file.")
    ] = None,
    model: AnyModel = None,
    silence: Silence = None,
    untrained: Annotated[
        bool, typer.Option("--untrained/--no-untrained", help="Compare with an untrained model of the same shape.")
    ] = True,
    show: Show = None,
    full: Full = False,
    out: Out = None,
) -> None:
    """The best head for each grammatical relation, over a treebank."""
    from regard.heads import relations
    from regard.heads import treebank as treebanks
    from regard.heads.profile import change_table

    targets = outputs.targets(out, show, formats=FORMATS)
    files = [treebanks.read(name) for name in (file, score) if name is not None]
    for read in files:
        for skipped in read.skipped[:5]:
            terminal.remark(f"{read.name}, line {skipped.line}: sentence skipped, {skipped.why}.")
        if len(read.skipped) > 5:
            terminal.remark(f"{read.name}: {len(read.skipped):,} sentences skipped in all.")
    reader = _open(model, silence)
    profile = relations(reader, *files, silence=silence, untrained=untrained)
    tables = [profile.relation_table(every=full or not outputs.is_printed(out, targets))]
    if silence is not None:
        tables.append(change_table(profile.changes, silence))
    profile_outputs.publish(profile, tables, targets, out, full, partial(_maps, reader))


@app.command(cls=terminal.Command, epilog=CORPUS_EXAMPLES)
def corpus(
    files: Annotated[list[str], typer.Argument(help="Files or folders of a corpus.")],
    out: Folder,
    model: ComputedModel = None,
    shard: Annotated[str | None, typer.Option(metavar="3/64", help="Only this part of the corpus.")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that share a corpus, for machines with many cores.")
    ] = 1,
    field: Annotated[str, typer.Option(help="The field of JSONL objects, or column of Parquet files.")] = "text",
    longest: Annotated[int, typer.Option(min=8, help="Cut longer texts after so many tokens.")] = 512,
    show: AtlasShow = None,
    full: Full = False,
) -> None:
    """An atlas of a model: statistics and examples of every head over a corpus of any size."""
    from regard.heads import atlas, atlas_shard

    name, folder, part = model or USUAL, _folder(out), _shard(shard)
    reader = open_computed(name, "An atlas")
    options: Any = {"jobs": jobs, "dask": dask, "field": field, "longest": longest, "tell": terminal.remark}
    if part == (1, 1):
        profile_outputs.show_atlas(atlas(reader, files, folder, **options), folder, show, full)
        return
    units = atlas_shard(reader, files, folder, part, **options)
    done = f"Shard {part[0]} of {part[1]} is done: {units:,} units in {folder}."
    terminal.show([f"{done} When all are: regard heads merge {folder} … --out FOLDER"])


@app.command(cls=terminal.Command, epilog=ABLATE_EXAMPLES)
def ablate(
    text: TextArgument = None,
    file: File = None,
    model: ComputedModel = None,
    silence: Silence = None,
    show: CurveShow = None,
    full: Full = False,
    out: Out = None,
    aspect: Aspect = None,
    font_size: FontSize = None,
    no_caption: NoCaption = False,
) -> None:
    """Silence each head and measure what changes."""
    from regard.heads import ablation
    from regard.output import figure

    targets = outputs.targets(out, show, formats=CURVE_FORMATS, layout=outputs.layout(aspect, font_size, no_caption))
    texts = _paragraphs("ablate", text, file)
    if silence is not None and any(target.format in DRAWN for target in targets):
        raise OptionError("--silence has no pruning curve to draw: leave it out, or write .csv, .json, .md or .tex.")
    study = ablation(open_computed(model or CAUSAL, "Ablation"), texts, silence=silence)
    if outputs.is_printed(out, targets):
        terminal.show(study.tables(None if full else MOST_HEADS), full)
        return
    tables, draw = study.tables(), partial(figure.pruning, study.curve, study.loss, study.model)
    outputs.write(targets, lambda kind: file_of(tables, draw, kind, full=full))


@app.command("merge", cls=terminal.Command, epilog=MERGE_EXAMPLES)
def merge_(
    folders: Annotated[list[str], typer.Argument(help="Folders that `regard heads corpus --shard` wrote.")],
    out: Folder,
    show: AtlasShow = None,
    full: Full = False,
) -> None:
    """Join the shards of an atlas."""
    from regard.heads import merge

    profile_outputs.show_atlas(merge(folders, _folder(out))[0], None, show, full)


@app.command(cls=terminal.Command, epilog=PAGE_EXAMPLES)
def page(
    sources: Annotated[list[str], typer.Argument(help="An atlas or a .json file; two to compare models.")],
    out: Annotated[
        list[str] | None, typer.Option("--out", metavar="FILE", help="The .html file; - or nothing is stdout.")
    ] = None,
) -> None:
    """A page with all heads, from what earlier runs wrote."""
    from regard.viewer import heads_page

    targets = outputs.targets(out, formats=[Format.HTML], usual=Format.HTML)
    content = heads_page.page(sources, terminal.remark)
    outputs.write(targets, lambda _kind: content)


def _paragraphs(command: str, text: str | None, file: str | None) -> list[str]:
    if text is not None and file is not None:
        raise OptionError("Give a text or --file, not both.")
    if text is None and file is None:
        raise OptionError(f'Give a text, as in regard heads {command} "The cat sat", or --file FILE.')
    content = text_input.text_given(text) if text is not None else text_input.text_of(str(file))
    if not content.strip():
        raise OptionError(f'The text contains no word: give one, as in regard heads {command} "The cat sat".')
    return [part for part in re.split(r"\n\s*\n", content.strip()) if part.strip()]


def _open(name: str | None, silence: str | None) -> Reader:
    if silence is not None:
        check_computed(name or USUAL, "--silence")
    return open_model(name or USUAL)


def _maps(reader: Reader, texts: Sequence[str] = ()) -> list[Reading]:
    from regard.viewer import heads_page

    return heads_page.maps(reader, texts)


def _shard(given: str | None) -> tuple[int, int]:
    if given is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", given, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise OptionError(f"--shard is {given!r}; expected a part of a whole, from 1, such as 3/64.")
    return int(found[1]), int(found[2])


def _folder(out: str) -> str:
    if out == text_input.STANDARD:
        raise OptionError("An atlas is written to a folder: add --out FOLDER.")
    if Path(out).exists() and not Path(out).is_dir():
        raise OptionError(f"--out {out!r} is a file; an atlas is written to a folder.")
    return out
