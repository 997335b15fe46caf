"""An atlas: every head of a model over a corpus of any size, in a folder that survives interruption.

    atlas.json           the manifest: model, corpus and its units, settings; the same for all shards
    parts/000123.parquet sums of one unit, written whole or not at all: what is there is done and is not counted again
    parts/000123.examples.parquet
    parts/model.parquet  sums over repeated random tokens, which belong to the model
    statistics.parquet, examples.parquet, heads.json   the whole, once all units are there

Every unit is computed alone and in the same way by any process, and sums are integers: one process, shards and a
cluster give identical files.
"""

from __future__ import annotations

import hashlib
import io
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import atomic_file
from regard.engines.select import engine, native_engine
from regard.errors import OptionError, missing_package
from regard.heads import circuits, corpus
from regard.heads.circuits import Ranks
from regard.heads.corpus import Corpus
from regard.heads.documents import batches, documents_of
from regard.heads.exemplars import Exemplars, named
from regard.heads.observation import observe
from regard.heads.profile import Profile
from regard.heads.roles import sample
from regard.heads.statistics import NAMES, Measurement, repetition
from regard.heads.sums import FIELDS, UNIT, Sums

if TYPE_CHECKING:
    from regard.models.model import Model

LONGEST = 512  # tokens of a document: longer texts are cut
FORMAT = 1
DIGITS = len(str(UNIT)) - 1  # of the decimals in a file
WINDOW = 2  # units per thread that a cluster is given at once

OnUnit = Callable[[int, int], None]  # bytes done, bytes of all units


@dataclass(frozen=True)
class Manifest:
    """What an atlas is made of; equal manifests give equal atlases."""

    model: str
    weights: str  # a digest
    layers: int
    heads: int
    longest: int
    corpus: Corpus

    def text(self) -> str:
        """As it is written to atlas.json."""
        content = {
            "format": FORMAT, "model": self.model, "weights": self.weights, "layers": self.layers,
            "heads": self.heads, "longest": self.longest, "corpus": self.corpus.as_json(),
        }  # fmt: skip
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def of(cls, text: str) -> Manifest:
        """What `text` gave."""
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise OptionError(f"It has format {content['format']!r}; this version reads {FORMAT}.")
        names = ("model", "weights", "layers", "heads", "longest")
        return cls(**{name: content[name] for name in names}, corpus=Corpus.from_json(content["corpus"]))

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder."""
        path = folder / "atlas.json"
        try:
            return cls.of(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise OptionError(f"{str(folder)!r} is not an atlas: it has no atlas.json.") from None
        except (KeyError, TypeError, ValueError) as problem:
            if isinstance(problem, OptionError):
                raise
            raise OptionError(f"{str(path)!r} is not the manifest of an atlas.") from None


class Part(NamedTuple):
    """The content of a unit's two files."""

    sums: bytes
    examples: bytes


def begun(
    folder: str | os.PathLike[str], model: Model, paths: Sequence[str], *, longest: int = LONGEST,
    field: str = corpus.FIELD, unit: int | None = None,
) -> Manifest:  # fmt: skip
    """Start an atlas in a folder, or go on with the one that is there if it is of the same model and corpus."""
    folder = Path(folder)
    found = Manifest(
        model.name, digest(model), len(model.blocks), model.heads, min(longest, model.longest),
        corpus.opened(paths, field=field, unit=unit),
    )  # fmt: skip
    try:
        (folder / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OptionError(f"{str(folder)!r} cannot be written: {(problem.strerror or str(problem)).lower()}.") from None
    if (folder / "atlas.json").exists():
        _check_same(found, Manifest.read(folder), folder)
    else:
        atomic_file.write(folder / "atlas.json", found.text())
    if not (folder / "parts" / "model.parquet").exists():
        atomic_file.write(folder / "parts" / "model.parquet", sums_file(repetition(model), _ranks_json(model)))
    return found


def _check_same(one: Manifest, other: Manifest, folder: Path) -> None:
    for name in ("model", "weights", "longest"):
        if getattr(one, name) != getattr(other, name):
            raise OptionError(
                f"The atlas in {str(folder)!r} has {name} {getattr(other, name)!r}, this one {getattr(one, name)!r}.\n"
                "Only parts of the same model and corpus can be merged: use another --out."
            )
    digests = [[(file.digest, file.size) for file in each.corpus.files] for each in (one, other)]
    if digests[0] != digests[1] or one.corpus.units != other.corpus.units or one.corpus.field != other.corpus.field:
        raise OptionError(
            f"The atlas in {str(folder)!r} is of other files, or they have changed since.\n"
            "Only parts of the same model and corpus can be merged: use another --out."
        )


def units_of(manifest: Manifest, shard: tuple[int, int] = (1, 1)) -> list[int]:
    """The units of a shard, (3, 64) being the third of 64."""
    return list(range(shard[0] - 1, len(manifest.corpus.units), shard[1]))


def part_path(folder: Path, unit: int) -> Path:
    """The file that says a unit is done."""
    return folder / "parts" / f"{unit:06d}.parquet"


def run(
    folder: str | os.PathLike[str], model: Model, manifest: Manifest, units: Iterable[int],
    on_unit: OnUnit | None = None,
) -> None:  # fmt: skip
    """Compute the units that are not there yet, one after the other."""
    folder = Path(folder)
    _each(folder, manifest, units, on_unit, lambda missing: ((unit, part(model, manifest, unit)) for unit in missing))


def run_on_dask(
    folder: str | os.PathLike[str], address: str, manifest: Manifest, units: Iterable[int],
    on_unit: OnUnit | None = None,
) -> None:  # fmt: skip
    """The same on a Dask cluster; workers need the model in their cache and the corpus under the same paths.

    A unit whose worker is lost goes to another one, and only its result counts.
    """
    try:
        from distributed import Client, as_completed
    except ImportError as problem:
        raise missing_package("A Dask cluster", "dask[distributed]") from problem

    def results(missing: list[int]) -> Iterator[tuple[int, Part]]:
        text = manifest.text()
        with Client(address, set_as_default=False) as client:
            waiting = iter(missing)
            futures = as_completed([], loop=client.loop)

            def submit_some() -> None:
                room = WINDOW * max(1, sum(client.nthreads().values())) - futures.count()  # workers come and go
                for unit in islice(waiting, max(room, 0)):
                    key = f"{manifest.weights[:12]}-{unit}"
                    futures.add(client.submit(_on_worker, text, unit, key=key, retries=10, pure=False))

            submit_some()
            for future in futures:
                yield future.result()
                submit_some()

    _each(Path(folder), manifest, units, on_unit, results)


def run_in_processes(
    folder: str | os.PathLike[str], jobs: int, manifest: Manifest, units: Iterable[int], on_unit: OnUnit | None = None
) -> None:
    """The same in several processes of this machine, which share its cores."""

    def results(missing: list[int]) -> Iterator[tuple[int, Part]]:
        text, waiting = manifest.text(), iter(missing)
        threads = max(1, engine().threads // jobs)
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, context, _begin_process, (threads,)) as pool:
            try:
                futures = {pool.submit(_on_worker, text, unit) for unit in islice(waiting, WINDOW * jobs)}
                while futures:
                    done, futures = wait(futures, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
                        futures |= {pool.submit(_on_worker, text, unit) for unit in islice(waiting, 1)}
            except BrokenProcessPool:
                raise OptionError(
                    "One of the processes was ended from outside, perhaps because memory ran out.\n"
                    "What is done is kept: run the command again, with fewer --jobs."
                ) from None
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    _each(Path(folder), manifest, units, on_unit, results)


def _begin_process(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    if native_engine() is not None:
        from regard import _core

        _core.set_threads(threads)


def _on_worker(manifest: str, unit: int) -> tuple[int, Part]:
    known = _manifest(manifest)
    return unit, part(_model(known.model, known.weights), known, unit)


@lru_cache(maxsize=1)
def _manifest(text: str) -> Manifest:
    return Manifest.of(text)


@lru_cache(maxsize=1)
def _model(name: str, weights: str) -> Model:
    from regard.models.model import model

    found = model(name)
    if digest(found) != weights:
        raise OptionError(f"The model {name!r} has other weights on this worker.")
    return found


def _each(
    folder: Path, manifest: Manifest, units: Iterable[int], on_unit: OnUnit | None,
    results: Callable[[list[int]], Iterable[tuple[int, Part]]],
) -> None:  # fmt: skip
    wanted = list(units)
    missing = [unit for unit in wanted if not part_path(folder, unit).exists()]
    sizes = {unit: manifest.corpus.units[unit].size for unit in wanted}
    total, done = sum(sizes.values()), sum(sizes[unit] for unit in {*wanted} - {*missing})
    if on_unit is not None:
        on_unit(done, total)
    for unit, found in results(missing):
        keep(folder, unit, found)
        done += sizes[unit]
        if on_unit is not None:
            on_unit(done, total)


def keep(folder: Path, unit: int, found: Part) -> None:
    """Write a unit's files; the one that says it is done comes last."""
    path = part_path(folder, unit)
    atomic_file.write(path.with_suffix(".examples.parquet"), found.examples)
    atomic_file.write(path, found.sums)


def part(model: Model, manifest: Manifest, unit: int) -> Part:
    """Compute one unit."""
    measurement, exemplars = Measurement(model), Exemplars(len(model.blocks), model.heads)
    about: dict[str, Any] = {"documents": 0, "tokens": 0, "skipped": 0}
    place = manifest.corpus.units[unit]
    for read in corpus.texts(manifest.corpus, place):
        documents, before = documents_of(model, read.texts, manifest.longest), about["documents"]
        for batch in batches(documents):
            for group in observe(model, [documents[place] for place in batch]):
                measurement.add(group)
                exemplars.add(group, [named(unit, before + batch[place]) for place in group.places])
        about["documents"] += len(documents)
        about["tokens"] += sum(map(len, documents))
        about["skipped"] += read.skipped
        if read.problem:
            about["unreadable"] = [manifest.corpus.files[place.file].path, read.problem]
    return Part(sums_file(measurement.sums(), about), examples_file(exemplars))


# Merging


def merged(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> tuple[Profile, int]:
    """Collect the parts of several folders in one and sum them: the whole, and how many units are missing.

    A unit that several folders have counts once.
    """
    sources, out = [Path(folder) for folder in folders], Path(out)
    manifest = Manifest.read(sources[0])
    for source in sources[1:]:
        _check_same(manifest, Manifest.read(source), source)
    (out / "parts").mkdir(parents=True, exist_ok=True)
    if not (out / "atlas.json").exists():
        atomic_file.write(out / "atlas.json", manifest.text())
    else:
        _check_same(manifest, Manifest.read(out), out)
    for source in sources:
        if source.resolve() == out.resolve():
            continue
        for unit in range(len(manifest.corpus.units)):
            if part_path(source, unit).exists() and not part_path(out, unit).exists():
                examples = part_path(source, unit).with_suffix(".examples.parquet").read_bytes()
                keep(out, unit, Part(part_path(source, unit).read_bytes(), examples))
        of_model = out / "parts" / "model.parquet"
        if not of_model.exists():
            atomic_file.write(of_model, (source / "parts" / "model.parquet").read_bytes())
    return finished(out)


def finished(folder: str | os.PathLike[str]) -> tuple[Profile, int]:
    """Sum the parts of a folder, write the whole beside them, and return it with the number of missing units."""
    folder = Path(folder)
    manifest = Manifest.read(folder)
    sums, of_model = read_sums(folder / "parts" / "model.parquet")
    exemplars = Exemplars(manifest.layers, manifest.heads)
    about = {"documents": 0, "tokens": 0, "skipped": 0}
    unreadable = dict(manifest.corpus.unreadable)
    missing = 0
    for unit in range(len(manifest.corpus.units)):
        path = part_path(folder, unit)
        if not path.exists():
            missing += 1
            continue
        found, of_unit = read_sums(path)
        sums = sums + found
        about = {name: about[name] + of_unit[name] for name in about}
        if "unreadable" in of_unit:
            name, reason = of_unit["unreadable"]
            unreadable.setdefault(name, f"{reason}, in a part of it")
        exemplars.merge(*read_examples(path.with_suffix(".examples.parquet")))
    ranks = Ranks(np.array(of_model["W_QK"]), np.array(of_model["W_OV"]))
    notes = [f"{about['documents']:,} documents, {about['tokens']:,} tokens."]
    if missing:
        notes.append(f"{missing:,} of {len(manifest.corpus.units):,} units are missing: run the remaining shards.")
    if about["skipped"]:
        notes.append(f"{about['skipped']:,} lines or rows could not be used: not UTF-8, not JSON, or without text.")
    notes += [f"Not read: {path}: {reason}." for path, reason in sorted(unreadable.items())]
    names = ", ".join(Path(file.path).name for file in manifest.corpus.files[:3])
    more = len(manifest.corpus.files) - 3
    profile = Profile(
        manifest.model, names + (f" and {more} more files" if more > 0 else ""), sums, ranks,
        links=tuple(exemplars.sorted_links()), counts=exemplars.counts, notes=tuple(notes), about=about,
    )  # fmt: skip
    atomic_file.write(folder / "statistics.parquet", sums_file(sums, about))
    atomic_file.write(folder / "examples.parquet", examples_file(exemplars))
    atomic_file.write(folder / "heads.json", json.dumps(profile.data(), ensure_ascii=False) + "\n")
    return profile, missing


# Files


def sums_file(sums: Sums, about: dict[str, Any]) -> bytes:
    """Sums as Parquet: one row for each statistic and head, exact decimals."""
    pa = _arrow()
    statistics, _, layers, heads = sums.integers.shape
    index = np.indices((statistics, layers, heads)).reshape(3, -1)
    columns: dict[str, Any] = {
        "statistic": pa.array([sums.names[place] for place in index[0]], pa.string()),
        "layer": pa.array(index[1], pa.int32()),
        "head": pa.array(index[2], pa.int32()),
    }
    with localcontext(prec=50):  # the usual 28 digits would round large sums
        for place, name in enumerate(FIELDS):
            numbers = [Decimal(number).scaleb(-DIGITS) for number in sums.integers[:, place].reshape(-1).tolist()]
            columns[name] = pa.array(numbers, pa.decimal128(38, DIGITS))
    table = pa.table(columns).replace_schema_metadata({"regard": json.dumps(about)})
    return _written(table)


def read_sums(path: Path) -> tuple[Sums, dict[str, Any]]:
    """What `sums_file` wrote."""
    table = _read(path)
    names = tuple(dict.fromkeys(table["statistic"].to_pylist()))
    if names != NAMES:
        raise OptionError(f"{str(path)!r} has other statistics than this version of Regard: compute it again.")
    layers, heads = max(table["layer"].to_pylist()) + 1, max(table["head"].to_pylist()) + 1
    integers = np.zeros((len(names), len(FIELDS), layers, heads), dtype=object)
    for place, name in enumerate(FIELDS):
        integers[:, place] = _whole_numbers(table[name]).reshape(len(names), layers, heads)
    return Sums(names, integers), json.loads(table.schema.metadata[b"regard"])


def _whole_numbers(column: Any) -> NDArray[Any]:
    """Decimals as integers in their last digit: 128 bits each, the low half first."""
    chunks = [chunk.cast(_arrow().decimal128(38, DIGITS)) for chunk in column.chunks]
    halves = [np.frombuffer(chunk.buffers()[1], "<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)] for chunk in chunks]
    low, high = (np.concatenate(halves)[:, half] for half in (0, 1))
    found: NDArray[Any] = low.astype(object) + high.view("<i8").astype(object) * 2**64
    return found


def examples_file(exemplars: Exemplars) -> bytes:
    """Examples as Parquet: one row for each link; `links` counts all that its head has in this tenth."""
    pa = _arrow()
    links = exemplars.sorted_links()
    types = {
        "layer": pa.int32(), "head": pa.int32(), "tenth": pa.int32(), "hash": pa.int64(), "weight": pa.float64(),
        "text": pa.string(), "query": pa.list_(pa.int32(), 2), "key": pa.list_(pa.int32(), 2),
    }  # fmt: skip
    columns = {name: pa.array([getattr(link, name) for link in links], kind) for name, kind in types.items()}
    of_head = np.concatenate([exemplars.counts, exemplars.counts.sum(axis=2, keepdims=True)], axis=2)
    counts = [int(of_head[link.layer, link.head, link.tenth]) for link in links]
    return _written(pa.table({**columns, "links": pa.array(counts, pa.int64())}))


def read_examples(path: Path) -> tuple[dict[str, Any], Callable[[int], Any]]:
    """What `examples_file` wrote, as columns, and a function that gives the text and the two words of a row."""
    table = _read(path)
    names = ("layer", "head", "tenth", "hash", "weight", "links")
    columns = {name: np.ascontiguousarray(table[name].to_numpy()) for name in names}

    def excerpt_of(row: int) -> tuple[str, tuple[int, int], tuple[int, int]]:
        text, query, key = (table[name][row].as_py() for name in ("text", "query", "key"))
        return text, tuple(query), tuple(key)

    return columns, excerpt_of


def _written(table: Any) -> bytes:
    stream = io.BytesIO()
    corpus._parquet().write_table(table, stream, compression="zstd")
    return stream.getvalue()


def _read(path: Path) -> Any:
    try:
        return corpus._parquet().read_table(path)
    except (OSError, ValueError) as problem:
        again = f"{path.name.split('.')[0]}.*"
        raise OptionError(
            f"{str(path)!r} cannot be read: {corpus.reason_of(problem)}.\n"
            f"Delete {str(path.with_name(again))!r}; the next run computes it again."
        ) from None


def _arrow() -> Any:
    corpus._parquet()
    import pyarrow

    return pyarrow


def _ranks_json(model: Model) -> dict[str, Any]:
    found = circuits.ranks(model)
    return {"W_QK": found.qk.tolist(), "W_OV": found.ov.tolist()}


def digest(model: Model) -> str:
    """Tells models apart: names and shapes of all arrays, and numbers spread over each."""
    found = hashlib.sha256()
    for name, array in model.transformer.parameters().items():
        found.update(name.encode() + sample(array))
    return found.hexdigest()
