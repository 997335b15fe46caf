"""`regard heads`: what each head of a model does, over a text, a treebank or a corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli import outputs, terminal, text_input
from regard.cli.outputs import Format, Full, Show
from regard.errors import OptionError

if TYPE_CHECKING:
    from regard.heads.profile import Profile
    from regard.models.model import Model
    from regard.reading import Reading
    from regard.tables import Table

USUAL, CAUSAL = "minilm", "smollm2"  # the default model, and the one for --ablate, which needs a next token
FORMATS = (Format.TABLE, Format.MARKDOWN, Format.LATEX, Format.CSV, Format.JSON, Format.PARQUET)
WITH_PAGE = (*FORMATS, Format.HTML)
DRAWN = (Format.HTML, *outputs.FIGURES)  # the pruning curve
WITH_CURVE = (*FORMATS, *DRAWN)
MERGE, PAGE = "merge", "page"  # the first argument, where it is not a text
SENTENCES = ("keys", "kids", "action")  # examples whose maps a page has where no short text is given
LINE = 20.0  # seconds between lines of progress outside a terminal
MOST_HEADS = 12  # rows of a table of effects in the terminal

EXAMPLES = """Examples:

\b
  regard heads "The kids were scared of the lions, so they left right away."
  regard heads --treebank dev.conllu --score test.conllu
  regard heads --treebank dev.conllu --score test.conllu --out relations.csv
  regard heads "The cat sat on the mat." --hf ./a-folder-of-transformers
  regard heads --ablate "The cat sat on the mat because it was tired."
  regard heads --ablate "The cat sat on the mat." --out pruning.svg
  regard heads --model smollm2 --corpus books/ --out atlas/
  regard heads --model smollm2 --corpus books/ --out atlas/ --shard 3/64
  regard heads --model smollm2 --corpus books/ --out atlas/ --jobs 8
  regard heads --corpus books/ --out atlas/ --dask tcp://host:8786
  regard heads merge atlas-1/ atlas-2/ --out atlas/
  regard heads "The cat sat on the mat because it was tired." --out heads.html
  regard heads page atlas/ other.json --out heads.html

\b
A text gives statistics and a label for every head. A treebank (CoNLL-U) gives
the best head for each relation, chosen on --treebank and scored on --score.
A corpus (.txt, .jsonl, .parquet files or folders) gives an atlas; an
interrupted run goes on where it stopped. .html is a page with all heads as
dots over any two statistics; `page` makes it from an atlas or a .json file,
or from two of them to compare models.
"""


def heads(
    text: Annotated[
        list[str] | None,
        typer.Argument(help="A text, - for standard input; or `merge` or `page` and the folders of an atlas."),
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="Read the text from this file.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="A model by name, path or hub id; `regard models` lists names.")
    ] = None,
    hf: Annotated[
        str | None, typer.Option("--hf", metavar="PATH", help="A model run by transformers: a folder or a hub id.")
    ] = None,
    treebank: Annotated[
        str | None, typer.Option(metavar="FILE", help="Choose the best head of each relation on this CoNLL-U file.")
    ] = None,
    score: Annotated[
        str | None, typer.Option(metavar="FILE", help="Score the chosen heads on this CoNLL-U file.")
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained/--no-untrained", help="Compare with an untrained model of the same shape.")
    ] = True,
    ablate: Annotated[bool, typer.Option("--ablate", help="Silence each head and measure what changes.")] = False,
    silence: Annotated[
        str | None, typer.Option(metavar="2.0,3.1", help="Silence these heads; 2 is all of layer 2.")
    ] = None,
    corpus: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A file or folder of a corpus; may be repeated.")
    ] = None,
    shard: Annotated[str | None, typer.Option(metavar="3/64", help="Only this part of the corpus.")] = None,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster.")] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=256, help="Processes that share a corpus, for machines with many cores.")
    ] = 1,
    field: Annotated[str, typer.Option(help="The field of JSONL objects, or column of Parquet files.")] = "text",
    longest: Annotated[int, typer.Option(min=8, help="Cut longer texts of a corpus after so many tokens.")] = 512,
    show: Show = None,
    full: Full = False,
    out: Annotated[
        list[str] | None,
        typer.Option("--out", metavar="FILE", help="Write to this file, or for a corpus to this folder."),
    ] = None,
) -> None:
    """What each head does: statistics, patterns, relations and ablation, over a text, a treebank or a corpus."""
    given = list(text or [])
    if hf is not None:
        _check_watched(model, corpus=corpus, ablate=ablate or None, silence=silence)
    if given[:1] == [MERGE] and len(given) > 1:
        _finish(_merge(given[1:], out), None, show, full)
    elif given[:1] == [PAGE] and len(given) > 1:
        _page(given[1:], out)
    elif corpus is not None:
        _corpus([*corpus, *given], model or USUAL, out, shard, dask, jobs, field, longest, show, full)
    elif shard is not None or dask is not None or jobs > 1:
        raise OptionError("--shard, --dask and --jobs divide a corpus: add --corpus FILE.")
    elif treebank is not None or score is not None:
        opened = partial(_reader, model, hf)
        _treebank(treebank, score, opened, silence, untrained, out, show, full)
    elif ablate:
        _ablate(_text(given, file), _model(model or CAUSAL), silence, out, show, full)
    else:
        _profile(_text(given, file), _reader(model, hf, silence), out, show, full)


def _text(given: Sequence[str], file: str | None) -> str:
    if len(given) > 1:
        raise OptionError(f"Give one text, in quotation marks; {len(given)} arguments came.")
    if given and file is not None:
        raise OptionError("Give a text or --file, not both.")
    if not given and file is None:
        raise OptionError('Give a text, as in regard heads "The cat sat", or --file, --treebank or --corpus.')
    text = text_input.text_given(given[0]) if given else text_input.text_of(str(file))
    if not text.strip():
        raise OptionError('The text contains no word: give one, as in regard heads "The cat sat".')
    return text.strip()


def _check_watched(model: str | None, **others: Any) -> None:
    """Refuse what needs a model that Regard computes itself."""
    if model is not None:
        raise OptionError("Give --model, which Regard computes itself, or --hf, which transformers runs, not both.")
    for name, value in others.items():
        if value is not None:
            raise OptionError(
                f"--{name} needs a model that Regard computes itself: give it by --model, which opens the BERT, GPT-2 "
                "and Llama kinds from their folders as well."
            )


def _reader(model: str | None, hf: str | None, silence: str | None) -> Any:
    """The model by name, or the one that transformers runs."""
    if hf is None:
        return _model(model or USUAL, silence)
    from regard.watch.pretrained import Pretrained

    return Pretrained.open(hf)


def _model(name: str, silence: str | None = None) -> Model:
    """A model by name, without the heads that are silenced."""
    from regard.models.model import model

    found = model(name)
    if silence is None:
        return found
    from regard.heads.ablation import silenced

    return replace(silenced(found, _heads(silence, found)), name=f"{found.name} without {silence}")


def _heads(given: str, model: Model) -> list[tuple[int, int]]:
    """The heads of --silence: 2.0,3.1 are two, 2 is a layer."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4})?(,\s*\d{1,4}(\.\d{1,4})?)*", given, re.ASCII):
        raise OptionError(f"--silence is {given!r}; expected heads such as 2.0,3.1 (layer.head), or a layer: 2.")
    found: list[tuple[int, int]] = []
    for one in given.split(","):
        layer, _, head = one.strip().partition(".")
        found += [(int(layer), int(head))] if head else [(int(layer), each) for each in range(model.heads)]
    for layer_number, head_number in found:
        if layer_number >= len(model.blocks) or head_number >= model.heads:
            sizes = f"{len(model.blocks)} layers × {model.heads} heads, counted from 0"
            raise OptionError(f"--silence names {layer_number}.{head_number}; {model.name} has {sizes}.")
    return found


def _profile(text: str, reader: Model, out: Sequence[str] | None, show: Format | None, full: bool) -> None:
    from regard.heads import profile

    targets = outputs.targets(out, show, formats=WITH_PAGE)
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    found = profile.of_texts(reader, paragraphs)
    printed = outputs.is_printed(out, targets)
    tables = [found.table(every=full or not printed)]
    shown = [found.pattern_table(every=full), *tables] if printed else tables
    _write(found, shown, targets, out, full, lambda: _maps(reader, paragraphs))


def _treebank(
    chosen: str | None, scored: str | None, opened: Callable[[str | None], Model], silence: str | None,
    untrained: bool, out: Sequence[str] | None, show: Format | None, full: bool,
) -> None:  # fmt: skip
    from regard.heads import profile, relations, statistics
    from regard.heads import treebank as treebanks

    if chosen is None:
        raise OptionError("--score needs --treebank FILE: heads are chosen on one file and scored on another.")
    targets = outputs.targets(out, show, formats=WITH_PAGE)
    files = [treebanks.read(chosen), treebanks.read(scored)] if scored is not None else [treebanks.read(chosen)]
    for one in files:
        for skipped in one.skipped[:5]:
            terminal.remark(f"{one.name}, line {skipped.line}: sentence skipped, {skipped.why}.")
        if len(one.skipped) > 5:
            terminal.remark(f"{one.name}: {len(one.skipped):,} sentences skipped in all.")
        if not one.sentences:
            raise OptionError(f"The treebank {one.name!r} has no sentence that can be read.")
    notes = []
    if scored is None:  # two halves of one file, sentence by sentence
        whole = files[0].sentences
        halves = treebanks.Treebank(files[0].name, whole[::2], ()), treebanks.Treebank(files[0].name, whole[1::2], ())
        files = list(halves)
        notes.append("Without --score, heads are chosen on every other sentence and scored on the rest.")
    reader = opened(silence)
    measurement = statistics.Measurement(reader)
    read = _read(reader, files, measurement)
    intact = None if silence is None else _read(opened(None), files)
    baseline = _read(relations.untrained_twin(reader), files) if untrained else None
    scores = relations.scores(read[0], read[1], None if baseline is None else (baseline[0], baseline[1]))
    by_head = relations.scores_by_head(read[0], read[1], scores)
    sums = measurement.sums() + statistics.repetition(reader)
    skipped_sentences = sum(len(one.skipped) for one in files)
    if skipped_sentences:
        notes.append(f"{skipped_sentences:,} malformed sentences were skipped.")
    omitted = sum(one.found.omitted for one in read)
    if omitted:
        notes.append(f"{omitted:,} sentences are empty or longer than the model reads, and were left out.")
    source = files[1].name
    about = {"sentences": [len(one.sentences) for one in files], "skipped": skipped_sentences}
    changes = () if intact is None else tuple(relations.changes((intact[0], intact[1]), (read[0], read[1])))
    found = profile.Profile(
        reader.name, source, sums, scores=tuple(scores), by_head=tuple(by_head), changes=changes, notes=tuple(notes),
        about=about, **profile.of_weights(reader),
    )  # fmt: skip
    tables = [found.relation_table(every=full or not outputs.is_printed(out, targets))]
    if silence is not None:
        tables.append(profile.change_table(changes, silence))
    _write(found, tables, targets, out, full, lambda: _maps(reader))


def _read(reader: Model, files: Sequence[Any], measurement: Any = None) -> list[Any]:
    """Both files; statistics are counted on the scored one."""
    from regard.heads.relations import Read, predictions
    from regard.models.progress import steps

    found = []
    for place, one in enumerate(files):
        with steps(f"{reader.name} reads {one.name}", 100, every=LINE) as advance:
            counted = measurement if place == 1 else None
            progress = partial(_advance_share, advance)
            found.append(Read(one, predictions(reader, one, measurement=counted, on_batch=progress)))
    return found


def _advance_share(advance: Callable[[int], None], done: int, total: int) -> None:
    advance(100 * done // max(total, 1))


def _advance(advance: Callable[[int], None], done: int, _total: int) -> None:
    advance(done)


def _corpus(
    files: Sequence[str], name: str, out: Sequence[str] | None, shard: str | None, dask: str | None, jobs: int,
    field: str, longest: int, show: Format | None, full: bool,
) -> None:  # fmt: skip
    from regard.heads import atlas
    from regard.models.progress import steps

    if dask is not None and jobs > 1:
        raise OptionError("--dask brings its own processes: leave out --jobs.")
    folder = _folder(out)
    part = _shard(shard)
    reader = _model(name)
    manifest = atlas.begun(folder, reader, files, longest=longest, field=field)
    for path, reason in manifest.corpus.unreadable:
        terminal.remark(f"Not read: {path}: {reason}.")
    units = atlas.units_of(manifest, part)
    size = sum(manifest.corpus.units[unit].size for unit in units)
    with steps(f"{reader.name}: {size / 1e6:,.1f} MB", size, every=LINE) as advance:
        on_unit = partial(_advance, advance)
        if dask is not None:
            atlas.run_on_dask(folder, dask, manifest, units, on_unit)
        elif jobs > 1:
            atlas.run_in_processes(folder, jobs, manifest, units, on_unit)
        else:
            atlas.run(folder, reader, manifest, units, on_unit)
    if part == (1, 1):
        _finish(atlas.finished(folder), folder, show, full)
    else:
        done = f"Shard {part[0]} of {part[1]} is done: {len(units):,} units in {folder}."
        terminal.show([f"{done} When all are: regard heads merge {folder} … --out FOLDER"])


def _shard(given: str | None) -> tuple[int, int]:
    if given is None:
        return 1, 1
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", given, re.ASCII)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise OptionError(f"--shard is {given!r}; expected a part of a whole, from 1, such as 3/64.")
    return int(found[1]), int(found[2])


def _folder(out: Sequence[str] | None) -> str:
    if out is None or len(out) != 1 or out[0] == text_input.STANDARD:
        raise OptionError("An atlas is written to a folder: add --out FOLDER.")
    if Path(out[0]).exists() and not Path(out[0]).is_dir():
        raise OptionError(f"--out {out[0]!r} is a file; an atlas is written to a folder.")
    return out[0]


def _merge(folders: Sequence[str], out: Sequence[str] | None) -> tuple[Profile, int]:
    from regard.heads import atlas

    return atlas.merged(folders, _folder(out))


def _finish(found: tuple[Profile, int], folder: str | None, show: Format | None, full: bool) -> None:
    profile = found[0]
    tables = [profile.pattern_table(every=full), *[profile.table()] * full]
    if show in (None, Format.TABLE):
        where = [f"Wrote {folder}."] if folder else []
        terminal.show([*tables, *([] if full else profile.notes), *where], full)
    else:
        terminal.raw(_content(profile, [profile.table(every=True)], show, full))


def _ablate(
    text: str, model: Model, silence: str | None, out: Sequence[str] | None, show: Format | None, full: bool
) -> None:
    from regard.heads import ablation
    from regard.heads.documents import documents_of
    from regard.models.progress import steps
    from regard.output import figure

    targets = outputs.targets(out, show, formats=WITH_CURVE)
    if silence is not None and any(target.format in DRAWN for target in targets):
        raise OptionError("--silence has no pruning curve to draw: leave it out, or write .csv, .json, .md or .tex.")
    chosen = None if silence is None else _heads(silence, model)
    paragraphs = [part for part in re.split(r"\n\s*\n", text) if part.strip()]
    whole = ablation.Ablation.of(model, documents_of(model, paragraphs))
    curve: list[Any] = []
    if chosen is not None:
        tables = [ablation.effect_table([whole.without(chosen)], whole.loss, model.name)]
    else:
        with steps(f"{model.name} without each head", len(model.blocks) * model.heads, every=LINE) as advance:
            effects = whole.each(partial(_advance, advance))
        layers = [whole.layer(place) for place in range(len(model.blocks))]
        curve = whole.pruning(effects)
        printed = outputs.is_printed(out, targets) and not full
        tables = [
            ablation.effect_table(effects, whole.loss, model.name, rows=MOST_HEADS if printed else None),
            ablation.effect_table(layers, whole.loss, model.name, "layers", rows=MOST_HEADS if printed else None),
            ablation.pruning_table(curve, whole.loss, model.name),
        ]
    if outputs.is_printed(out, targets):
        terminal.show(tables, full)
    else:
        draw = partial(figure.pruning, curve, whole.loss, model.name)
        outputs.write(
            targets,
            lambda kind: outputs.file_of(tables, draw, kind) if kind in DRAWN else _tables_file(tables, kind, full),
        )


def _tables_file(tables: Sequence[Table], kind: Format, full: bool) -> str | bytes:
    """Tables as the content of a file; Parquet holds the first."""
    if kind is Format.PARQUET:
        from regard.output.parquet import to_parquet

        return to_parquet(tables[0])
    return outputs.tables_file(tables, kind, full)


def _maps(reader: Model, texts: Sequence[str] = ()) -> list[Reading]:
    """Short texts as a model reads them, whose attention maps a page has: the given ones, then examples."""
    from regard.examples import named
    from regard.viewer.heads_page import LONGEST

    most = min(LONGEST, reader.longest)
    sentences = [*texts[:6], *(str(named(name).content) for name in SENTENCES)]
    return [reader.read(text) for text in sentences if len(reader.tokeniser.encode(text).ids) <= most]


def _page(sources: Sequence[str], out: Sequence[str] | None) -> None:
    """A page from what earlier runs wrote: folders of atlases, or .json files."""
    from regard.viewer import heads_page

    if len(sources) > 2:
        raise OptionError(f"A page compares at most two models; {len(sources)} came.")
    targets = outputs.targets(out, formats=[Format.HTML], usual=Format.HTML)
    data = [_data(Path(source)) for source in sources]
    readings = [_maps_of(one, source) for one, source in zip(data, sources, strict=True)]
    outputs.write(targets, lambda _kind: "".join(heads_page.pieces(data, readings)))


def _data(source: Path) -> dict[str, Any]:
    """What `regard heads` wrote as JSON: the file, or heads.json of an atlas."""
    path = source / "heads.json" if source.is_dir() else source
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != 1 or not found["labels"]:
            raise OptionError(f"{str(path)!r} has format {found['format']!r}; this version reads 1.")
    except OSError as problem:
        raise OptionError(f"{str(path)!r} cannot be read: {(problem.strerror or str(problem)).lower()}.") from None
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, OptionError):
            raise
        raise OptionError(f"{str(path)!r} is not what regard heads --out heads.json writes.") from None
    return dict(found)


def _maps_of(data: dict[str, Any], source: str) -> list[Reading]:
    """The example sentences, where the model that the numbers are of can be opened."""
    from regard.errors import RegardError
    from regard.heads import atlas
    from regard.heads.roles import digest

    try:
        reader = _model(data["model"])
    except RegardError as problem:
        terminal.remark(f"{source}: without attention maps. {str(problem).splitlines()[0]}")
        return []
    changed = bool(data.get("weights")) and data["weights"] != [digest(block) for block in reader.blocks]
    if (Path(source) / "atlas.json").is_file():
        changed |= atlas.Manifest.read(Path(source)).weights != atlas.digest(reader)
    if changed:
        terminal.remark(f"{source}: without attention maps, because {data['model']} has other weights now.")
        return []
    return _maps(reader)


def _write(
    found: Profile, tables: Sequence[Table], targets: Any, out: Sequence[str] | None, full: bool,
    maps: Callable[[], list[Reading]] = list,
) -> None:  # fmt: skip
    if outputs.is_printed(out, targets):
        shown = {note for table in tables for note in table.notes}
        terminal.show([*tables, *(note for note in found.notes if note not in shown)], full)
    else:
        outputs.write(targets, lambda kind: _content(found, tables, kind, full, maps))


def _content(
    found: Profile, tables: Sequence[Table], kind: Format, full: bool, maps: Callable[[], list[Reading]] = list
) -> str | bytes:
    if kind is Format.HTML:
        from regard.viewer import heads_page

        return "".join(heads_page.pieces([found.data()], [maps()]))
    if kind is Format.JSON:
        return json.dumps(found.data(), ensure_ascii=False, indent=1) + "\n"
    return _tables_file(tables, kind, full)
