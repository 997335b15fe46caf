"""An atlas: every head of a model over a corpus of any size, in a folder that survives interruption.

    atlas.json                the manifest: model, corpus and its units, settings; the same for all shards
    parts/000123.safetensors  sums and examples of one unit, with a digest; a unit that has one is done
    parts/model.safetensors   sums over repeated random tokens, which belong to the model
    statistics.parquet, examples.parquet, heads.json   the whole, once all units are there

Every unit is computed alone and in the same way by any process, and sums are added as integers: one process, shards
and a cluster give identical files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import atomic_file, codec, input_file, lock_file
from regard.engines.select import engine, native_engine
from regard.errors import OptionError, RegardError, missing_package, reason_of, shown
from regard.heads import circuits, corpus
from regard.heads.circuits import Ranks
from regard.heads.corpus import Corpus
from regard.heads.documents import batches, documents_of
from regard.heads.exemplars import Exemplars, document_number
from regard.heads.observation import observe
from regard.heads.profile import Profile
from regard.heads.statistics import NAMES, Measurement, repetition_numbers
from regard.heads.sums import FIELDS, UNIT, Sums, estimate_mean
from regard.layers.codec import KINDS as LAYER_KINDS
from regard.version import VERSION

if TYPE_CHECKING:
    from regard.models.model import Model

LONGEST = 512  # tokens of a document: longer texts are cut
FORMAT = 3
WINDOW = 2  # units per process or thread that are given out at once
PART = "part of an atlas"

RETRY_SECONDS = 0.05  # while another process begins in the same folder
CONNECT_SECONDS = 5


class AtlasPart(NamedTuple):
    """What one unit gives: arrays, and what JSON holds."""

    tensors: dict[str, NDArray[Any]]
    about: dict[str, Any]


OnUnit = Callable[[int, int], None]  # bytes done, bytes of all units
Compute = Callable[[list[int]], Iterable[tuple[int, AtlasPart]]]  # units, each with what it gives, in any order


@dataclass(frozen=True)
class Manifest:
    """What an atlas is made of; equal manifests give equal atlases."""

    version: str  # of Regard
    model: str
    weights: str  # a digest
    layers: int
    heads: int
    longest: int
    corpus: Corpus

    def text(self) -> str:
        """As it is written to atlas.json, with a digest of the rest."""
        content = codec.with_digest({"format": FORMAT, **asdict(self)})
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def of(cls, text: str) -> Manifest:
        """What `text` gave."""
        content = json.loads(text)
        if content["format"] != FORMAT:
            older = "an older" if content["format"] in range(FORMAT) else "another"
            raise OptionError(f"it is of {older} format, {content['format']!r}; this version of Regard reads {FORMAT}")
        content = codec.without_digest(content)
        del content["format"]
        return cls(**{**content, "corpus": Corpus.from_json(content["corpus"])})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a folder."""
        path = folder / "atlas.json"
        if not path.exists():
            raise OptionError(f"{str(folder)!r} is not an atlas: it has no atlas.json.")
        content = input_file.read_text(path)
        try:
            return cls.of(content)
        except OptionError as problem:
            again = "Compute the atlas again, with another --out."
            raise OptionError(f"{str(path)!r} cannot be used: {problem}.\n{again}") from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise OptionError(f"{str(path)!r} is not the manifest of an atlas.") from None

    @cached_property
    def identity(self) -> str:
        """A digest of all that decides the numbers: paths may differ between machines."""
        content = asdict(self)
        del content["corpus"]["unreadable"]
        for file in content["corpus"]["files"]:
            del file["path"]
        return codec.digest(content, {})


def start_atlas(
    folder: str | os.PathLike[str], model: Model, paths: Sequence[str], *, longest: int = LONGEST,
    field: str = corpus.FIELD, unit: int | None = None,
) -> Manifest:  # fmt: skip
    """Start an atlas in a folder, or go on with the one that is there if it is of the same model and corpus."""
    folder = Path(folder)
    manifest = Manifest(
        VERSION, model.name, model_digest(model), len(model.blocks), model.heads, min(longest, model.longest),
        corpus.open_corpus(paths, field=field, unit=unit),
    )  # fmt: skip
    _claim(folder, manifest)
    if part_path(folder).exists():
        read_part(folder, manifest)  # what cannot be used is named now, not after hours
    else:
        ranks = circuits.ranks(model.transformer)
        write_part(folder, manifest, None, AtlasPart({"sums": repetition_numbers(model), **ranks._asdict()}, {}))
    return manifest


def _claim(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder, or check that it is the same; of two processes, the first decides."""
    try:
        (folder / "parts").mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OptionError(f"{str(folder)!r} cannot be written: {reason_of(problem)}.") from None
    with ExitStack() as stack:
        with suppress(OSError):  # some network file systems have no locks; the seal of each part tells atlases apart
            stack.enter_context(lock_file.held(folder / ".lock", lambda: time.sleep(RETRY_SECONDS)))
        if (folder / "atlas.json").exists():
            _check_same(manifest, Manifest.read(folder), folder)
        else:
            atomic_file.write(folder / "atlas.json", manifest.text())


def _check_same(one: Manifest, other: Manifest, folder: Path) -> None:
    if one.identity == other.identity:
        return
    reason = "is of other files, or they have changed since"
    for name in ("version", "model", "weights", "longest"):
        if getattr(one, name) != getattr(other, name):
            reason = f"has {name} {getattr(other, name)!r}, this one {getattr(one, name)!r}"
            break
    raise OptionError(
        f"The atlas in {str(folder)!r} {reason}.\n"
        "Only parts of the same model, corpus and version of Regard can be merged: use another --out."
    )


def units_of(manifest: Manifest, shard: tuple[int, int] = (1, 1)) -> list[int]:
    """The units of a shard, (3, 64) being the third of 64."""
    return list(range(shard[0] - 1, len(manifest.corpus.units), shard[1]))


def part_path(folder: Path, unit: int | None = None) -> Path:
    """The file of a unit, which is done once it is there; without a unit, that of what belongs to the model."""
    return folder / "parts" / f"{'model' if unit is None else f'{unit:06d}'}.safetensors"


def run(
    folder: str | os.PathLike[str], manifest: Manifest, units: Iterable[int], compute: Compute,
    on_unit: OnUnit = lambda _done, _total: None,
) -> None:  # fmt: skip
    """Compute the units that are not there yet, `in_this_process` or by `others`."""
    folder, chosen = Path(folder), list(units)
    missing = [unit for unit in chosen if not part_path(folder, unit).exists()]
    sizes = {unit: manifest.corpus.units[unit].size for unit in chosen}
    for unit in sorted({*chosen} - {*missing}):
        read_part(folder, manifest, unit)
    total = sum(sizes.values())
    done = total - sum(sizes[unit] for unit in missing)
    on_unit(done, total)
    for unit, part in compute(missing):
        write_part(folder, manifest, unit, part)
        done += sizes[unit]
        on_unit(done, total)


def in_this_process(model: Model, manifest: Manifest) -> Compute:
    """One unit after the other."""
    return lambda units: ((unit, compute_unit(model, manifest, unit)) for unit in units)


@dataclass(frozen=True, eq=False)
class AtlasWorkers:
    """Other processes, here or on a cluster."""

    executor: Executor
    count: Callable[[], int]  # units that they compute at a time; workers of a cluster come and go
    lost: tuple[type[Exception], ...]  # what is raised when they are gone
    why: str
    fix: str


def others(workers: AtlasWorkers, manifest: Manifest) -> Compute:
    """Units by other processes: few are given out at once, and the next ones as these are done."""

    def compute(units: list[int]) -> Iterator[tuple[int, AtlasPart]]:
        waiting, running = iter(units), set[Any]()
        try:
            while True:
                room = WINDOW * max(1, workers.count()) - len(running)
                running |= {
                    workers.executor.submit(_on_worker, manifest, unit) for unit in islice(waiting, max(room, 0))
                }
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except RegardError:
            raise
        except workers.lost:
            raise OptionError(f"{workers.why}\nWhat is done is kept: run the command again{workers.fix}.") from None
        except Exception as problem:
            raise OptionError(f"A worker failed: {reason_of(problem)}.") from problem

    return compute


@contextmanager
def processes(jobs: int) -> Iterator[AtlasWorkers]:
    """Several processes of this machine, which share its cores."""
    threads = max(1, engine().threads // jobs)
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin_process, (threads,)) as pool:
        try:
            why = "One of the processes was ended from outside, perhaps because memory ran out."
            yield AtlasWorkers(pool, lambda: jobs, (BrokenProcessPool,), why, ", with fewer --jobs")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def cluster(address: str) -> Iterator[AtlasWorkers]:
    """A Dask cluster; its workers need the model in their cache and the corpus under the same paths.

    A unit whose worker is lost goes to another one, and only its result counts.
    """
    try:
        from distributed import Client, Security
        from distributed.comm import connect
    except ImportError as problem:
        raise missing_package("A Dask cluster", "dask[distributed]") from problem

    async def greet() -> None:  # a client that finds no scheduler prints tracebacks for it
        options = Security().get_connection_args("client")
        (await asyncio.wait_for(connect(address, CONNECT_SECONDS, **options), CONNECT_SECONDS + 1)).abort()

    quiet = [logging.getLogger(f"distributed.{name}") for name in ("client", "core", "utils")]
    levels = [logger.level for logger in quiet]
    for logger in quiet:  # a lost connection is one sentence here
        logger.setLevel(logging.CRITICAL + 1)
    try:
        try:
            with ThreadPoolExecutor(1) as pool:  # a notebook's own thread already runs a loop
                pool.submit(asyncio.run, greet()).result()
            client = Client(address, set_as_default=False, timeout=CONNECT_SECONDS)
        except Exception as problem:  # noqa: BLE001 (whatever comes of reading another protocol as Dask's)
            cause = _first_cause(problem)  # Dask tries for CONNECT_SECONDS, and its error says only that
            reason = reason_of(cause) if str(cause) else "what listens there does not greet"
            raise OptionError(
                f"No Dask scheduler answers at {shown(address)}: {reason}.\n"
                "Start one with `dask scheduler`, or check the address that it prints, such as tcp://host:8786."
            ) from None
        with client:
            executor = client.get_executor(retries=10, pure=False)
            why = f"The connection to the Dask scheduler at {address!r} was lost."
            lost = (CancelledError, OSError, TimeoutError)
            yield AtlasWorkers(
                executor, lambda: sum(client.nthreads().values()), lost, why, " when the scheduler is back"
            )
    finally:
        for logger, level in zip(quiet, levels, strict=True):
            logger.setLevel(level)


def _first_cause(problem: BaseException) -> BaseException:
    while problem.__cause__ is not None:
        problem = problem.__cause__
    return problem


def _begin_process(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    Thread(target=_end_with_parent, daemon=True).start()
    if native_engine() is not None:
        from regard import _core

        _core.set_threads(threads)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, whatever ended it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _on_worker(manifest: Manifest, unit: int) -> tuple[int, AtlasPart]:
    if manifest.version != VERSION:
        raise OptionError(f"A worker has version {VERSION} of Regard; the atlas was begun with {manifest.version}.")
    return unit, compute_unit(_model(manifest.model, manifest.weights), manifest, unit)


@lru_cache(maxsize=1)
def _model(name: str, weights: str) -> Model:
    from regard.models.model import model

    opened = model(name)
    if model_digest(opened) != weights:
        raise OptionError(f"The model {name!r} has other weights on this worker.")
    return opened


def write_part(folder: Path, manifest: Manifest, unit: int | None, part: AtlasPart) -> None:
    """Write the file of a unit, or of what belongs to the model."""
    about = {"manifest": manifest.identity, "unit": unit, **part.about}
    codec.save(part_path(folder, unit), part.tensors, about, kind=PART, sealed=True)


def read_part(folder: Path, manifest: Manifest, unit: int | None = None) -> AtlasPart:
    """What `write_part` wrote; a part that is damaged, or of another atlas or unit, is refused."""
    path = part_path(folder, unit)
    try:
        part = AtlasPart(*codec.load(path, PART, sealed=True))
        if part.about["manifest"] != manifest.identity:
            raise OptionError(f"{path} is a part of another atlas.")
        if part.about["unit"] != unit:
            raise OptionError(f"{path} is that of unit {shown(part.about['unit'])}.")
    except OptionError as problem:
        raise OptionError(f"{problem}\nDelete it; the next run computes it again.") from None
    return part


def compute_unit(model: Model, manifest: Manifest, number: int) -> AtlasPart:
    """The sums and examples of one unit."""
    measurement, exemplars = Measurement(model), Exemplars(len(model.blocks), model.heads)
    about: dict[str, Any] = {"documents": 0, "tokens": 0, "skipped": 0}
    unit = manifest.corpus.units[number]
    file = manifest.corpus.files[unit.file]
    corpus.verify(file)
    for block in corpus.texts(manifest.corpus, unit):
        documents, before = documents_of(model, block.texts, manifest.longest), about["documents"]
        for batch in batches(documents):
            for group in observe(model, [documents[index] for index in batch]):
                measurement.add(group)
                exemplars.add(group, [document_number(number, before + batch[index]) for index in group.texts.indices])
        about["documents"] += len(documents)
        about["tokens"] += sum(map(len, documents))
        about["skipped"] += block.skipped
        if block.problem:
            about["unreadable"] = [file.path, block.problem]
    corpus.verify(file)  # it may have been written to in the meantime
    examples = exemplars.columns()
    about["text"] = examples.pop("text")
    return AtlasPart({"sums": measurement.numbers, **examples}, about)


# Merging


def merge(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> tuple[Profile, int]:
    """Collect the parts of several folders in one and sum them: the whole, and how many units are missing.

    A unit that several folders have counts once.
    """
    sources, out = [Path(folder) for folder in folders], Path(out)
    manifest = Manifest.read(sources[0])
    for source in sources[1:]:
        _check_same(manifest, Manifest.read(source), source)
    _claim(out, manifest)
    for source in sources:
        for unit in (None, *range(len(manifest.corpus.units))):
            if part_path(source, unit).exists() and not part_path(out, unit).exists():
                write_part(out, manifest, unit, read_part(source, manifest, unit))
    return sum_parts(out)


def sum_parts(folder: str | os.PathLike[str]) -> tuple[Profile, int]:
    """Sum the parts of a folder, write the whole beside them, and return it with the number of missing units."""
    folder = Path(folder)
    manifest = Manifest.read(folder)
    of_model = read_part(folder, manifest).tensors
    sums = Sums.of(NAMES, of_model["sums"])
    exemplars = Exemplars(manifest.layers, manifest.heads)
    about = {"documents": 0, "tokens": 0, "skipped": 0}
    unreadable = dict(manifest.corpus.unreadable)
    missing = 0
    for unit in range(len(manifest.corpus.units)):
        if not part_path(folder, unit).exists():
            missing += 1
            continue
        tensors, of_unit = read_part(folder, manifest, unit)
        sums = sums + Sums.of(NAMES, tensors["sums"])
        about = {name: about[name] + of_unit[name] for name in about}
        if "unreadable" in of_unit:
            file, reason = of_unit["unreadable"]
            unreadable.setdefault(file, f"{reason}, in a part of it")
        exemplars.merge({**tensors, "text": of_unit["text"]})
    ranks = Ranks(of_model["qk"], of_model["ov"])
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
    _write_statistics(folder / "statistics.parquet", sums, about)
    _write_examples(folder / "examples.parquet", exemplars)
    atomic_file.write(folder / "heads.json", json.dumps(profile.data(), ensure_ascii=False) + "\n")
    return profile, missing


# Files for data frames


def _write_statistics(path: Path, sums: Sums, about: dict[str, Any]) -> None:
    """Means, 95% intervals and sums as Parquet: one row for each statistic and head, floats."""
    pa = _arrow()
    statistics, _, layers, heads = sums.integers.shape
    index = np.indices((statistics, layers, heads)).reshape(3, -1)
    of_heads = np.moveaxis(sums.integers, 1, -1).reshape(-1, len(FIELDS)).tolist()
    estimates = [estimate_mean(*numbers) for numbers in of_heads]
    columns = {
        "statistic": pa.array([sums.names[number] for number in index[0]], pa.string()),
        "layer": pa.array(index[1], pa.int32()), "head": pa.array(index[2], pa.int32()),
        "documents": pa.array([estimate.documents for estimate in estimates], pa.int64()),
    }  # fmt: skip
    for name in ("mean", "low", "high"):
        columns[name] = pa.array([getattr(estimate, name) for estimate in estimates], pa.float64())
    for field, name in enumerate(FIELDS[1:], 1):
        columns[name] = pa.array([numbers[field] / UNIT for numbers in of_heads], pa.float64())
    _write_table(path, pa.table(columns).replace_schema_metadata({"regard": json.dumps(about)}))


def _write_examples(path: Path, exemplars: Exemplars) -> None:
    """Examples as Parquet: one row for each link; `links` counts all that its head has in this tenth."""
    pa = _arrow()
    two = pa.list_(pa.int32(), 2)
    kinds = {"text": pa.string(), "query": two, "key": two}  # of lists; the others are arrays of NumPy's types
    arrays = {
        name: pa.array(list(column), kinds[name]) if name in kinds else pa.array(column)
        for name, column in exemplars.columns().items()
    }
    _write_table(path, pa.table(arrays))


def _write_table(path: Path, table: Any) -> None:
    with atomic_file.replacing(path) as temporary:
        corpus._parquet().write_table(table, temporary, compression="zstd")


def _arrow() -> Any:
    corpus._parquet()
    import pyarrow

    return pyarrow


def model_digest(model: Model) -> str:
    """Tells models apart: all weights, the options of all layers, and the tokeniser."""
    tensors: dict[str, Any] = {}
    layers = codec.describe("", model.transformer, tensors, LAYER_KINDS)
    return codec.digest({"layers": layers, "tokeniser": model.tokeniser.engine.to_str()}, tensors)
