"""`regard heads corpus`, `merge` and `page`: atlases of a model over a corpus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import terminal
from regard.cli.options import USUAL, ComputedModel, Full, open_computed, show_option
from regard.cli.outputs import Output
from regard.cli.profile_output import FORMATS, profile_file
from regard.cli.text_input import STANDARD
from regard.errors import OptionError
from regard.output.files import Format

if TYPE_CHECKING:
    from regard.heads.profile import Profile

Atlas = Annotated[str, typer.Option("--out", metavar="FOLDER", help="The folder of the atlas.")]

AtlasShow = Annotated[Format | None, show_option(tuple(kind for kind in FORMATS if kind is not Format.HTML))]


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
        terminal.raw(profile_file(profile, [profile.table(every=True)], show, full))
