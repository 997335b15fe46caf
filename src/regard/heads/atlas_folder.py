"""An atlas: every head of a model over a corpus of any size, in a folder that survives interruption.

    atlas.json           the manifest: model, corpus and its units, settings; the same for all shards
    parts/000123.parquet sums of one unit
    parts/000123.examples.parquet
    parts/000123.json    the seal of both: their digests, and that of the manifest; a unit that has one is done
    parts/model.*        sums over repeated random tokens, which belong to the model
    statistics.parquet, examples.parquet, heads.json   the whole, once all units are there

Every unit is computed alone and in the same way by any process, and sums are integers: one process, shards and a
cluster give identical files.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal, localcontext
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
from regard.heads.exemplars import Excerpt, ExcerptOf, Exemplars, document_number
from regard.heads.observation import observe
from regard.heads.profile import Profile
from regard.heads.statistics import NAMES, Measurement, repetition
from regard.heads.sums import FIELDS, UNIT, Sums, estimate_mean
from regard.layers.codec import KINDS as LAYER_KINDS
from regard.version import VERSION

if TYPE_CHECKING:
    from regard.models.model import Model

LONGEST = 512  # tokens of a document: longer texts are cut
FORMAT = 2
DIGITS = len(str(UNIT)) - 1  # of the decimals in a file
WINDOW = 2  # units per thread that a cluster is given at once

MODEL = "model"  # the part that holds what belongs to the model
EMPTY = hashlib.sha256().hexdigest()  # of the examples of a part that has none
RETRY_SECONDS = 0.05  # while another process begins in the same folder
CONNECT_SECONDS = 5
# Of a scheduler.
ADDRESS = r"((?P<protocol>tcp|tls|ws|wss|ucx)://)?(?P<host>\[[0-9a-fA-F:]+\]|[\w.-]+):(?P<port>\d{1,5})|inproc://.+"

OnUnit = Callable[[int, int], None]  # bytes done, bytes of all units
Compute = Callable[[list[int]], Iterable[tuple[int, "UnitFiles"]]]  # units, each with its files in any order


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
        content = {
            "format": FORMAT, **{name: getattr(self, name) for name in SETTINGS}, "corpus": self.corpus.as_json(),
        }  # fmt: skip
        return json.dumps(codec.with_digest(content), ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def of(cls, text: str) -> Manifest:
        """What `text` gave."""
        content = json.loads(text)
        if content["format"] != FORMAT:
            older = "an older" if content["format"] == 1 else "another"
            raise OptionError(f"it is of {older} format, {content['format']!r}; this version of Regard reads {FORMAT}")
        content = codec.without_digest(content)
        return cls(**{name: content[name] for name in SETTINGS}, corpus=Corpus.from_json(content["corpus"]))

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
        files = [(file.digest, file.size) for file in self.corpus.files]
        return _sha256([[getattr(self, name) for name in SETTINGS], files, self.corpus.units, self.corpus.field])


SETTINGS = ("version", "model", "weights", "layers", "heads", "longest")


def _sha256(content: Any) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else json.dumps(content).encode()).hexdigest()


class UnitFiles(NamedTuple):
    """The content of a unit's two files."""

    sums: bytes
    examples: bytes


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
    if seal_path(folder, MODEL).exists():
        read_part(folder, manifest, MODEL)  # what cannot be used is named now, not after hours
    else:
        sums = sums_file(repetition(model), circuits.ranks(model.transformer).data())
        write_part(folder, manifest, MODEL, UnitFiles(sums, b""))
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


def seal_path(folder: Path, part: str) -> Path:
    """The file that says a part is done."""
    return folder / "parts" / f"{part}.json"


def part_name(unit: int) -> str:
    """How the files of a unit begin."""
    return f"{unit:06d}"


def run(
    folder: str | os.PathLike[str], manifest: Manifest, units: Iterable[int], compute: Compute,
    on_unit: OnUnit | None = None,
) -> None:  # fmt: skip
    """Compute the units that are not there yet, by `in_this_process`, `in_processes` or `on_dask`."""
    folder, chosen = Path(folder), list(units)
    missing = [unit for unit in chosen if not seal_path(folder, part_name(unit)).exists()]
    sizes = {unit: manifest.corpus.units[unit].size for unit in chosen}
    for unit in sorted({*chosen} - {*missing}):
        read_part(folder, manifest, part_name(unit))
    total = sum(sizes.values())
    done = total - sum(sizes[unit] for unit in missing)
    if on_unit is not None:
        on_unit(done, total)
    for unit, computed in compute(missing) if missing else ():
        write_part(folder, manifest, part_name(unit), computed)
        done += sizes[unit]
        if on_unit is not None:
            on_unit(done, total)


def in_this_process(model: Model, manifest: Manifest) -> Compute:
    """One unit after the other."""
    return lambda units: ((unit, compute_unit(model, manifest, unit)) for unit in units)


def on_dask(address: str, manifest: Manifest) -> Compute:
    """On a Dask cluster; workers need the model in their cache and the corpus under the same paths.

    A unit whose worker is lost goes to another one, and only its result counts.
    """
    check_scheduler(address)
    from distributed import CancelledError, Client, as_completed

    def compute(units: list[int]) -> Iterator[tuple[int, UnitFiles]]:
        text = manifest.text()
        key = _sha256(text.encode())  # tasks of equal keys are one to a scheduler
        with _connected(Client, address) as client:
            waiting = iter(units)
            futures = as_completed([], loop=client.loop)

            def submit_some() -> None:
                room = WINDOW * max(1, sum(client.nthreads().values())) - futures.count()  # workers come and go
                for unit in islice(waiting, max(room, 0)):
                    task = client.submit(_on_worker, text, unit, key=f"regard-{key}-{unit}", retries=10, pure=False)
                    futures.add(task)

            try:
                submit_some()
                for future in futures:
                    if future.status == "error" and not isinstance(problem := future.exception(), RegardError):
                        raise OptionError(f"A Dask worker failed: {reason_of(problem)}.")
                    yield future.result()
                    submit_some()
            except (CancelledError, OSError, TimeoutError):
                raise OptionError(
                    f"The connection to the Dask scheduler at {address!r} was lost.\n"
                    "What is done is kept: run the command again when the scheduler is back."
                ) from None

    return compute


def check_scheduler(address: str) -> None:
    """Refuse what is not the address of a scheduler, or one at which no scheduler answers."""
    parts = re.fullmatch(ADDRESS, address, re.ASCII)
    if parts is None:
        raise OptionError(f"--dask is {shown(address)}; expected the address of a scheduler, such as tcp://host:8786.")
    if parts["host"] is not None and parts["protocol"] != "ucx":
        try:
            socket.create_connection((parts["host"].strip("[]"), int(parts["port"])), CONNECT_SECONDS).close()
        except (OSError, OverflowError) as problem:
            raise _unreachable(address, reason_of(problem)) from None
    try:
        from distributed import Security
        from distributed.comm import connect
    except ImportError as problem:
        raise missing_package("A Dask cluster", "dask[distributed]") from problem

    async def greet() -> None:
        options = Security().get_connection_args("client")
        (await asyncio.wait_for(connect(address, CONNECT_SECONDS, **options), CONNECT_SECONDS)).abort()

    try:
        with ThreadPoolExecutor(1) as pool:  # a notebook's own thread already runs a loop
            pool.submit(asyncio.run, greet()).result()
    except TimeoutError:
        raise _unreachable(address, f"no greeting within {CONNECT_SECONDS} s") from None
    except Exception as problem:  # noqa: BLE001 (whatever comes of reading another protocol as Dask's)
        raise _unreachable(address, f"what answers is not a scheduler ({reason_of(problem)})") from None


def _unreachable(address: str, reason: str) -> OptionError:
    return OptionError(
        f"No Dask scheduler answers at {address!r}: {reason}.\n"
        "Start one with `dask scheduler`, or check the address that it prints."
    )


@contextmanager
def _connected(client: Any, address: str) -> Iterator[Any]:
    """A client of a scheduler; one that does not answer is reported in a sentence."""
    try:
        connection = client(address, set_as_default=False, timeout=CONNECT_SECONDS)
    except (OSError, RuntimeError, TypeError, ValueError) as problem:
        raise _unreachable(address, reason_of(problem)) from None
    quiet = [logging.getLogger(f"distributed.{name}") for name in ("client", "core", "utils")]
    levels = [logger.level for logger in quiet]
    try:
        for logger in quiet:  # a lost connection is one sentence here, tracebacks there
            logger.setLevel(logging.CRITICAL + 1)
        with connection:
            yield connection
    finally:
        for logger, level in zip(quiet, levels, strict=True):
            logger.setLevel(level)


def in_processes(jobs: int, manifest: Manifest) -> Compute:
    """In several processes of this machine, which share its cores."""

    def compute(units: list[int]) -> Iterator[tuple[int, UnitFiles]]:
        text, waiting = manifest.text(), iter(units)
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

    return compute


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


def _on_worker(text: str, unit: int) -> tuple[int, UnitFiles]:
    manifest = _manifest(text)
    if manifest.version != VERSION:
        raise OptionError(f"A worker has version {VERSION} of Regard; the atlas was begun with {manifest.version}.")
    return unit, compute_unit(_model(manifest.model, manifest.weights), manifest, unit)


@lru_cache(maxsize=8)
def _manifest(text: str) -> Manifest:
    return Manifest.of(text)


@lru_cache(maxsize=1)
def _model(name: str, weights: str) -> Model:
    from regard.models.model import model

    opened = model(name)
    if model_digest(opened) != weights:
        raise OptionError(f"The model {name!r} has other weights on this worker.")
    return opened


def write_part(folder: Path, manifest: Manifest, name: str, part: UnitFiles) -> None:
    """Write the files of a part; the seal, which says that it is done, comes last."""
    seal = {"manifest": manifest.identity, "part": name, "sums": _sha256(part.sums), "examples": _sha256(part.examples)}
    sums, examples = _paths(folder, name)
    if part.examples:
        atomic_file.write(examples, part.examples)
    atomic_file.write(sums, part.sums)
    atomic_file.write(seal_path(folder, name), json.dumps(seal, indent=1) + "\n")


def read_part(folder: Path, manifest: Manifest, name: str) -> UnitFiles:
    """What `write_part` wrote; a part that is damaged, or of another atlas or unit, is refused."""
    path = seal_path(folder, name)
    try:
        seal = json.loads(path.read_text(encoding="utf-8"))
        if seal["manifest"] != manifest.identity:
            raise _unusable(path, "is a part of another atlas")
        if seal["part"] != name:
            raise _unusable(path, f"is that of part {shown(seal['part'])}")
        sums, examples = seal["sums"], seal["examples"]
    except (OSError, KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, OptionError):
            raise
        raise _unusable(path, "cannot be read: it is damaged or missing") from None
    contents = []
    for file, digest in zip(_paths(folder, name), (sums, examples), strict=True):
        try:
            content = b"" if digest == EMPTY else file.read_bytes()
        except OSError as problem:
            raise _unusable(file, f"cannot be read: {reason_of(problem)}") from None
        if _sha256(content) != digest:
            raise _unusable(file, "is damaged: its content does not match its digest")
        contents.append(content)
    return UnitFiles(*contents)


def _paths(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / "parts" / f"{name}.parquet", folder / "parts" / f"{name}.examples.parquet"


def _unusable(path: Path, why: str) -> OptionError:
    files = path.with_name(f"{path.name.split('.')[0]}.*")
    return OptionError(f"{str(path)!r} {why}.\nDelete {str(files)!r}; the next run computes it again.")


def compute_unit(model: Model, manifest: Manifest, number: int) -> UnitFiles:
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
                exemplars.add(group, [document_number(number, before + batch[index]) for index in group.indices])
        about["documents"] += len(documents)
        about["tokens"] += sum(map(len, documents))
        about["skipped"] += block.skipped
        if block.problem:
            about["unreadable"] = [file.path, block.problem]
    corpus.verify(file)  # it may have been written to in the meantime
    return UnitFiles(sums_file(measurement.sums(), about), examples_file(exemplars))


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
    names = [MODEL, *map(part_name, range(len(manifest.corpus.units)))]
    for source in sources:
        if source.resolve() == out.resolve():
            continue
        for name in names:
            if seal_path(source, name).exists() and not seal_path(out, name).exists():
                write_part(out, manifest, name, read_part(source, manifest, name))
    return sum_parts(out)


def sum_parts(folder: str | os.PathLike[str]) -> tuple[Profile, int]:
    """Sum the parts of a folder, write the whole beside them, and return it with the number of missing units."""
    folder = Path(folder)
    manifest = Manifest.read(folder)
    model_path = _paths(folder, MODEL)[0]
    sums, of_model = read_sums(model_path, read_part(folder, manifest, MODEL).sums)
    exemplars = Exemplars(manifest.layers, manifest.heads)
    about = {"documents": 0, "tokens": 0, "skipped": 0}
    unreadable = dict(manifest.corpus.unreadable)
    missing = 0
    for unit in range(len(manifest.corpus.units)):
        name = part_name(unit)
        if not seal_path(folder, name).exists():
            missing += 1
            continue
        content, (path, examples_path) = read_part(folder, manifest, name), _paths(folder, name)
        of_documents, of_unit = read_sums(path, content.sums)
        sums = sums + of_documents
        about = {name: about[name] + of_unit[name] for name in about}
        if "unreadable" in of_unit:
            file, reason = of_unit["unreadable"]
            unreadable.setdefault(file, f"{reason}, in a part of it")
        exemplars.merge(*read_examples(examples_path, content.examples))
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
    atomic_file.write(folder / "statistics.parquet", statistics_file(sums, about))
    atomic_file.write(folder / "examples.parquet", examples_file(exemplars))
    atomic_file.write(folder / "heads.json", json.dumps(profile.data(), ensure_ascii=False) + "\n")
    return profile, missing


# Files


def sums_file(sums: Sums, about: dict[str, Any]) -> bytes:
    """Sums as Parquet: one row for each statistic and head, exact decimals."""
    pa = _arrow()
    columns = _head_columns(sums)
    with localcontext(prec=50):  # the usual 28 digits would round large sums
        for field, name in enumerate(FIELDS):
            numbers = [Decimal(number).scaleb(-DIGITS) for number in sums.integers[:, field].reshape(-1).tolist()]
            columns[name] = pa.array(numbers, pa.decimal128(38, DIGITS))
    return _parquet_bytes(pa.table(columns), about)


def statistics_file(sums: Sums, about: dict[str, Any]) -> bytes:
    """Means, 95% intervals and sums as Parquet for data frames: one row for each statistic and head, floats."""
    pa = _arrow()
    columns = _head_columns(sums)
    of_heads = np.moveaxis(sums.integers, 1, -1).reshape(-1, len(FIELDS)).tolist()
    estimates = [estimate_mean(*numbers) for numbers in of_heads]
    columns["documents"] = pa.array([estimate.documents for estimate in estimates], pa.int64())
    for name in ("mean", "low", "high"):
        columns[name] = pa.array([getattr(estimate, name) for estimate in estimates], pa.float64())
    for field, name in enumerate(FIELDS[1:], 1):
        columns[name] = pa.array([numbers[field] / UNIT for numbers in of_heads], pa.float64())
    return _parquet_bytes(pa.table(columns), about)


def _head_columns(sums: Sums) -> dict[str, Any]:
    """The columns that name a statistic and a head."""
    pa = _arrow()
    statistics, _, layers, heads = sums.integers.shape
    index = np.indices((statistics, layers, heads)).reshape(3, -1)
    return {
        "statistic": pa.array([sums.names[number] for number in index[0]], pa.string()),
        "layer": pa.array(index[1], pa.int32()),
        "head": pa.array(index[2], pa.int32()),
    }


def read_sums(path: Path, content: bytes) -> tuple[Sums, dict[str, Any]]:
    """What `sums_file` made; the path is for errors."""
    table = _read(path, content)
    names = tuple(dict.fromkeys(table["statistic"].to_pylist()))
    if names != NAMES:
        raise OptionError(f"{str(path)!r} has other statistics than this version of Regard: compute it again.")
    layers, heads = max(table["layer"].to_pylist()) + 1, max(table["head"].to_pylist()) + 1
    integers = np.zeros((len(names), len(FIELDS), layers, heads), dtype=object)
    for field, name in enumerate(FIELDS):
        integers[:, field] = _whole_numbers(table[name]).reshape(len(names), layers, heads)
    return Sums(names, integers), json.loads(table.schema.metadata[b"regard"])


def _whole_numbers(column: Any) -> NDArray[Any]:
    """Decimals as integers in their last digit: 128 bits each, the low half first."""
    chunks = [chunk.cast(_arrow().decimal128(38, DIGITS)) for chunk in column.chunks]
    halves = [np.frombuffer(chunk.buffers()[1], "<u8").reshape(-1, 2)[chunk.offset :][: len(chunk)] for chunk in chunks]
    low, high = (np.concatenate(halves)[:, half] for half in (0, 1))
    integers: NDArray[Any] = low.astype(object) + high.view("<i8").astype(object) * 2**64
    return integers


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
    return _parquet_bytes(pa.table({**columns, "links": pa.array(counts, pa.int64())}))


def read_examples(path: Path, content: bytes) -> tuple[dict[str, Any], ExcerptOf]:
    """What `examples_file` made, as columns, and a function that gives the text and the two words of a row."""
    table = _read(path, content)
    names = ("layer", "head", "tenth", "hash", "weight", "links")
    columns = {name: np.ascontiguousarray(table[name].to_numpy()) for name in names}

    def excerpt_of(row: int) -> Excerpt:
        text, query, key = (table[name][row].as_py() for name in ("text", "query", "key"))
        return text, tuple(query), tuple(key)

    return columns, excerpt_of


def _parquet_bytes(table: Any, about: dict[str, Any] | None = None) -> bytes:
    table = table if about is None else table.replace_schema_metadata({"regard": json.dumps(about)})
    stream = io.BytesIO()
    corpus._parquet().write_table(table, stream, compression="zstd")
    return stream.getvalue()


def _read(path: Path, content: bytes) -> Any:
    try:
        return corpus._parquet().read_table(_arrow().BufferReader(content))
    except (OSError, ValueError) as problem:
        raise _unusable(path, f"cannot be read: {reason_of(problem)}") from None


def _arrow() -> Any:
    corpus._parquet()
    import pyarrow

    return pyarrow


def model_digest(model: Model) -> str:
    """Tells models apart: all weights, the options of all layers, and the tokeniser."""
    tensors: dict[str, Any] = {}
    layers = codec.describe("", model.transformer, tensors, LAYER_KINDS)
    return codec.digest({"layers": layers, "tokeniser": model.tokeniser.engine.to_str()}, tensors)
