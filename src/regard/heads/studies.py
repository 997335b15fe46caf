"""The studies of `regard heads` as functions: relations over a treebank, an atlas of a corpus, ablation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from regard.errors import OptionError, require
from regard.heads import atlas_folder, statistics, treebank_relations
from regard.heads import treebank as treebanks
from regard.heads.ablation_effects import Ablation, AblationStudy, heads_named, silence_named
from regard.heads.corpus import FIELD, texts_of_files
from regard.heads.documents import documents_of
from regard.heads.profile import Profile, of_weights
from regard.heads.treebank import Treebank
from regard.models.progress import steps

if TYPE_CHECKING:
    from regard.models.model import Model
    from regard.reading.reader import Reader

LINE = 20.0  # seconds between lines of progress outside a terminal

File = str | os.PathLike[str]


def relations(
    model: Reader, choose: File | Treebank, score: File | Treebank | None = None, *, silence: str | None = None,
    untrained: bool = True,
) -> Profile:  # fmt: skip
    r"""The best head for each grammatical relation, chosen on one CoNLL-U file and scored on another.

    score       without it, heads are chosen on every other sentence of `choose` and scored on the rest
    silence     heads that write nothing, such as "2.0,3.1"; `changes` of the result compares with the whole model
    untrained   compare with a model of the same shape with random weights

    >>> import regard
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> words = "the the DET _ _ 2 det,cat cat NOUN _ _ 3 nsubj,sat sit VERB _ _ 0 root".split(",")
    >>> rows = [f"{i}\t{word}\t_\t_".replace(" ", "\t") for i, word in enumerate(words, 1)]
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "cats.conllu").write_text(("\n".join(rows) + "\n\n") * 40)
    ...     found = relations(regard.model("minilm"), Path(folder, "cats.conllu"), untrained=False)
    >>> sorted({score.relation for score in found.scores})
    ['determiner', 'subject']
    """
    banks = [file for file in (choose, score) if file is not None]
    files = [file if isinstance(file, Treebank) else treebanks.read(file) for file in banks]
    for file in files:
        if not file.sentences:
            raise OptionError(f"The treebank {file.name!r} has no sentence that can be read.")
    skipped, notes = sum(len(file.skipped) for file in files), []
    if score is None:
        whole = files[0]
        files = [Treebank(whole.name, whole.sentences[half::2], ()) for half in (0, 1)]
        notes.append("Without --score, heads are chosen on every other sentence and scored on the rest.")
    reader: Reader = model if silence is None else silence_named(model, silence)
    measurement = statistics.Measurement(reader)
    chosen_on, scored_on = _read(reader, files, measurement)
    changes = () if silence is None else tuple(
        treebank_relations.changes(_read(model, files), (chosen_on, scored_on))
    )  # fmt: skip
    baseline = _read(reader.untrained(), files) if untrained else None
    scores = treebank_relations.scores(chosen_on, scored_on, baseline)
    by_head = treebank_relations.scores_by_head(chosen_on, scored_on, scores)
    if skipped:
        notes.append(f"{skipped:,} malformed sentences were skipped.")
    if omitted := chosen_on.omitted + scored_on.omitted:
        notes.append(f"{omitted:,} sentences are empty or longer than the model reads, and were left out.")
    return Profile(
        reader.name, files[1].name, measurement.sums() + statistics.repetition(reader), scores=tuple(scores),
        by_head=tuple(by_head), changes=changes, notes=tuple(notes),
        about={"sentences": [len(file.sentences) for file in files], "skipped": skipped}, **of_weights(reader),
    )  # fmt: skip


def _read(
    reader: Reader, files: Sequence[Treebank], measurement: statistics.Measurement | None = None
) -> treebank_relations.TwoFiles:
    """Both files; statistics are counted on the scored one."""

    def read(file: Treebank, counted: statistics.Measurement | None) -> treebank_relations.Predictions:
        with steps(f"{reader.name} reads {file.name}", 100, every=LINE) as advance:
            return treebank_relations.predictions(
                reader, file, measurement=counted, on_batch=lambda done, total: advance(100 * done // max(total, 1))
            )

    return read(files[0], None), read(files[1], measurement)


def ablation(
    model: Reader, texts: Sequence[str], *, corpus: Sequence[File] = (), silence: str | None = None, field: str = FIELD
) -> AblationStudy:
    """Silence every head, then every layer, and measure how far hidden states move and the next token's loss rises.

    corpus    .txt, .jsonl or .parquet files, or folders of them, read besides the texts
    silence   only these heads, together, such as "2.0,3.1"; 2 is all of layer 2
    field     the field of JSONL objects, or column of Parquet files

    >>> import regard
    >>> found = ablation(regard.model("minilm"), ["The cat sat."], silence="2.0")
    >>> [effect.heads for effect in found.effects], found.effects[0].hidden > 0
    ([((2, 0),)], True)
    """
    of_corpus = texts_of_files(corpus, field) if corpus else []
    documents = documents_of(model, [*texts, *of_corpus])
    if not documents:
        raise OptionError("Ablation needs a text: there is none, or only empty ones.")
    size = len(documents), sum(map(len, documents))
    chosen = None if silence is None else heads_named(silence, model)
    whole = Ablation.of(model, documents)
    if chosen is not None:
        return AblationStudy(model.name, whole.loss, (whole.without(chosen),), size=size)
    with steps(f"{model.name} without each head", len(model.block_shapes) * model.heads, every=LINE) as advance:
        effects = whole.each(advance)
    layers = tuple(whole.layers())
    return AblationStudy(model.name, whole.loss, tuple(effects), layers, tuple(whole.pruning(effects)), size)


def atlas(
    model: Model, files: Sequence[str], folder: File, *, jobs: int = 1, dask: str | None = None, field: str = FIELD,
    longest: int = atlas_folder.LONGEST, tell: Callable[[str], None] | None = None,
) -> Profile:  # fmt: skip
    """Statistics and examples of every head over a corpus of any size, kept in a folder; goes on where it stopped.

    files     .txt, .jsonl or .parquet files, or folders of them
    jobs      processes that share the corpus
    dask      the address of a cluster instead
    field     the field of JSONL objects, or column of Parquet files
    longest   texts are cut after so many tokens
    tell      called with a line for each file that cannot be read

    >>> import regard
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "corpus.txt").write_text("The cat sat.")
    ...     found = atlas(regard.model("minilm"), [f"{folder}/corpus.txt"], f"{folder}/atlas")
    >>> found.about["documents"], len(found.labels), len(found.labels[0])
    (1, 6, 12)
    """
    atlas_shard(model, files, folder, (1, 1), jobs=jobs, dask=dask, field=field, longest=longest, tell=tell)
    return atlas_folder.sum_parts(folder)[0]


def atlas_shard(
    model: Model, files: Sequence[str], folder: File, shard: tuple[int, int], *, jobs: int = 1,
    dask: str | None = None, field: str = FIELD, longest: int = atlas_folder.LONGEST,
    tell: Callable[[str], None] | None = None,
) -> int:  # fmt: skip
    """Compute one shard of an atlas, (3, 64) being the third of 64, and return its number of units.

    `regard.heads.merge(folders, out)` joins the folders of all shards.

    >>> import regard
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "corpus.txt").write_text("The cat sat.")
    ...     atlas_shard(regard.model("minilm"), [f"{folder}/corpus.txt"], f"{folder}/atlas", (1, 2))
    1
    """
    require("An atlas", "pyarrow")
    if dask is not None and jobs > 1:
        raise OptionError("--dask brings its own processes: leave out --jobs.")
    pool = nullcontext() if jobs == 1 else atlas_folder.processes(jobs)
    with pool if dask is None else atlas_folder.cluster(dask) as workers:
        manifest = atlas_folder.start_atlas(folder, model, files, longest=longest, field=field)
        if tell is not None:
            for path, reason in manifest.corpus.unreadable:
                tell(f"Not read: {path}: {reason}.")
        units = atlas_folder.units_of(manifest, shard)
        size = sum(manifest.corpus.units[unit].size for unit in units)
        compute = atlas_folder.in_this_process(model, manifest)
        if workers is not None:
            compute = atlas_folder.others(workers, manifest)
        with steps(f"{model.name}: {size / 1e6:,.1f} MB", size, every=LINE) as advance:
            atlas_folder.run(folder, manifest, units, compute, lambda done, _total: advance(done))
    return len(units)
