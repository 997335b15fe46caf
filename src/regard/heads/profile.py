"""A profile of every head of a model: statistics, labels, ranks, relations and examples, as tables and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from regard import codec
from regard.heads import circuits, patterns
from regard.heads.circuits import Ranks
from regard.heads.documents import documents_of
from regard.heads.exemplars import Link
from regard.heads.patterns import PATTERNS, describe_labels
from regard.heads.roles import TREEBANK, layer_digest
from regard.heads.roles import of_weights as known_of
from regard.heads.statistics import NAMES, STATISTICS, measure, repetition
from regard.heads.sums import Sums
from regard.heads.treebank_relations import Change, HeadScore, Interval, Score, best_directions
from regard.tables import Column, Table, printed_number

if TYPE_CHECKING:
    from regard.reading.reader import Reader

FORMAT = 2  # of `data`, raised when it changes
SHOWN = ("first", "entropy", "distance")  # in the terminal


@dataclass(frozen=True, eq=False)
class Profile:
    """Every head of a model, measured over some texts."""

    model: str
    source: str  # of the texts
    sums: Sums
    ranks: Ranks | None = None
    scores: tuple[Score, ...] = ()
    by_head: tuple[HeadScore, ...] = ()
    weights: tuple[str, ...] = ()  # digest of each layer, by which the model is recognised
    changes: tuple[Change, ...] = ()  # of relations, by heads that are silenced
    links: tuple[Link, ...] = ()
    counts: Any = None  # links in each tenth, (layer, head, 10)
    notes: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict)  # documents, tokens, skipped

    @property
    def labels(self) -> list[list[tuple[patterns.Label, ...]]]:
        """Labels of every head: labels[layer][head]."""
        return patterns.labels(self.sums)

    def table(self, *, every: bool = False) -> Table:
        """One row for each head: its labels and main statistics; with `every`, all of them with their intervals."""
        names = NAMES if every else SHOWN
        columns = [Column("layer", "number", 0), Column("head", "number", 0)] if every else [Column("head", "word")]
        known_heads = known_of(self.weights)
        columns += [Column("in general", "text")] if known_heads else []
        columns.append(Column("pattern", "text"))
        for name in names:
            columns.append(Column(name, "number", 1 if name == "distance" and not every else 2))
            if every:
                columns += [Column(f"{name}, low", "number"), Column(f"{name}, high", "number")]
        if every:
            columns += [Column("rank of W_QK", "number", 1), Column("rank of W_OV", "number", 1)]
        rows = []
        labels = self.labels
        for layer, head in product(range(self.sums.layers), range(self.sums.heads)):
            cells: list[Any] = [layer, head] if every else [f"{layer}.{head}"]
            cells += [known_heads.name(layer, head)] if known_heads else []
            cells.append(describe_labels(labels[layer][head]))
            for name in names:
                cells += self.sums.estimate(name, layer, head)[: 3 if every else 1]
            if every:
                cells += [None, None] if self.ranks is None else [part[layer, head] for part in self.ranks]
            rows.append(tuple(cells))
        title = f"Heads of {self.model}, over {self.source}"
        general = (f"In general: what the head is known for, measured on {TREEBANK}.",) if known_heads else ()
        return Table(title, tuple(columns), tuple(rows), (*self.notes, *general))

    def pattern_table(self, *, every: bool = False) -> Table:
        """How many heads show each pattern, and which most; with `every`, the rules as well."""
        labels = self.labels
        rows = []
        for pattern in PATTERNS:
            scores = [
                (label.score, f"{layer}.{head}")
                for layer, of_layer in enumerate(labels)
                for head, of_head in enumerate(of_layer)
                for label in of_head
                if label.pattern == pattern.name
            ]
            best = ", ".join(f"{name} {printed_number(score, 2)}" for score, name in sorted(scores, reverse=True)[:4])
            rows.append((pattern.name, len(scores), best, *[pattern.rule] * every))
        none = sum(1 for of_layer in labels for of_head in of_layer if not of_head)
        rows.append((patterns.NONE, none, "", *[""] * every))
        columns = [Column("Pattern", "word"), Column("heads", "number", 0), Column("strongest")]
        columns += [Column("rule")] if every else []
        return Table(f"Patterns in {self.model}", tuple(columns), tuple(rows))

    def relation_table(self, *, every: bool = False) -> Table:
        """The best head of every relation: its better direction, or with `every`, both."""
        return relation_table(self.scores, self.model, self.source, every=every)

    def data(self) -> dict[str, Any]:
        """Everything as JSON values; docs/how-to/heads.md describes the fields."""
        data: dict[str, Any] = {
            "format": FORMAT, "model": self.model, "source": self.source,
            "layers": self.sums.layers, "heads": self.sums.heads, "weights": list(self.weights),
            "about": self.about, "notes": list(self.notes),
            "statistics": [_statistic(self.sums, *statistic) for statistic in STATISTICS],
            "patterns": [pattern._asdict() for pattern in PATTERNS],
            "labels": [[[label._asdict() for label in head] for head in layer] for layer in self.labels],
            "relations": [_score(score) for score in self.scores],
            "by_head": [_score(score) for score in self.by_head],
            "examples": [link._asdict() for link in self.links],
        }  # fmt: skip
        if self.changes:
            data["changes"] = [_change(change) for change in self.changes]
        if self.counts is not None:
            data["tenths"] = self.counts.tolist()
        if self.ranks is not None:
            data["ranks"] = self.ranks.data()
        return codec.with_digest(data)


def profile_texts(model: Reader, texts: Sequence[str], source: str = "the given text") -> Profile:
    """The heads of a model over some texts."""
    documents = documents_of(model, texts)
    sums = measure(model, documents) + repetition(model)
    about = {"documents": len(documents), "tokens": sum(map(len, documents))}
    notes = (
        f"{len(documents):,} document{'s' * (len(documents) != 1)}, {about['tokens']:,} tokens. Patterns are labelled "
        "by the weight that is not on special tokens or, in a causal model, on the first token.",
    )
    return Profile(model.name, source, sums, **of_weights(model), notes=notes, about=about)


def of_weights(model: Reader) -> dict[str, Any]:
    """What a profile says about the weights themselves: nothing where Regard does not compute the model."""
    if model.transformer is None:
        return {}
    return {"ranks": circuits.ranks(model.transformer), "weights": tuple(map(layer_digest, model.transformer.encoders))}


def relation_table(scores: Sequence[Score], model: str, source: str, *, every: bool = False) -> Table:
    """The best head of every relation, beside the best fixed offset and an untrained model."""
    rows: list[tuple[Any, ...]] = []
    for score in scores if every else best_directions(scores):
        group, to = score.group, score.direction.removeprefix("to ")
        if every:
            rows.append((
                group, score.relation, to, score.layer, score.head, *score.accuracy, *score.offset_accuracy[:1],
                score.offset, None if score.untrained is None else score.untrained.value, *score.gain,
                "yes" if score.is_named else "no", score.queries, score.seen,
            ))  # fmt: skip
            continue
        if not any(row[0] == group and row[1] is None for row in rows):
            rows.append((group, *[None] * 6))
        interval = "–".join(printed_number(end, 2) for end in score.accuracy[1:])
        head = f"{score.layer}.{score.head}" if score.is_named else "none"
        baseline = None if score.untrained is None else score.untrained.value
        rows.append(
            (f" {score.relation}", to, head, score.accuracy.value, interval, score.offset_accuracy.value, baseline)
        )
    if every:
        columns: tuple[Column, ...] = (
            Column("group"), Column("relation", "word"), Column("to"), Column("layer", "number", 0),
            Column("head", "number", 0), Column("accuracy", "number", shade=True), Column("low", "number"),
            Column("high", "number"), Column("offset accuracy", "number"), Column("offset", "number", 0),
            Column("untrained", "number"), Column("gain", "number"), Column("gain, low", "number"),
            Column("gain, high", "number"), Column("named"), Column("words", "number", 0),
            Column("seen", "number"),
        )  # fmt: skip
    else:
        columns = (
            Column("relation", "word"), Column("to"), Column("head"), Column("accuracy", "number", shade=True),
            Column("95%"), Column("offset", "number"), Column("untrained", "number"),
        )  # fmt: skip
    notes = (
        "accuracy: how often the largest weight of a word, sinks and itself aside, is on its head or dependent in this "
        "relation. The head was chosen on the other file. none: the best head does not beat the best fixed offset, or "
        "an untrained model.",
    )
    return Table(f"Relations in {model}, over {source}", columns, tuple(rows), notes)


def change_table(changes: Sequence[Change], silenced: str) -> Table:
    """The accuracy of every relation before and after heads were silenced."""
    rows = [
        (
            change.before.relation, change.before.direction.removeprefix("to "),
            f"{change.before.layer}.{change.before.head}", change.before.accuracy.value,
            f"{change.after.layer}.{change.after.head}", change.after.accuracy.value,
            change.change.value, " to ".join(printed_number(end, 2) for end in change.change[1:]),
        )
        for change in changes
    ]  # fmt: skip
    columns = (
        Column("relation", "word"), Column("to"), Column("head"), Column("before", "number", shade=True),
        Column("then"), Column("after", "number", shade=True), Column("change", "number"), Column("95%"),
    )  # fmt: skip
    notes = (
        f"before: accuracy of the best head; after: that of the best head then, without {silenced}. Both were chosen "
        "on the other file.",
    )
    return Table(f"What silencing {silenced} changes", columns, tuple(rows), notes)


def _change(one: Change) -> dict[str, Any]:
    of_heads = {
        name: {"layer": score.layer, "head": score.head, "accuracy": score.accuracy._asdict()}
        for name, score in (("before", one.before), ("after", one.after))
    }
    about = {"relation": one.before.relation, "direction": one.before.direction}
    return {**about, **of_heads, "change": one.change._asdict()}


def _statistic(sums: Sums, name: str, meaning: str) -> dict[str, Any]:
    estimates = [[sums.estimate(name, layer, head) for head in range(sums.heads)] for layer in range(sums.layers)]
    parts = {part: [[getattr(cell, part) for cell in row] for row in estimates] for part in ("mean", "low", "high")}
    return {"name": name, "meaning": meaning, **parts}


def _score(one: Score | HeadScore) -> dict[str, Any]:
    cells = {name: cell._asdict() if isinstance(cell, Interval) else cell for name, cell in one._asdict().items()}
    return {**cells, "beats_offset": one.beats_offset, "named": one.is_named} if isinstance(one, Score) else cells
