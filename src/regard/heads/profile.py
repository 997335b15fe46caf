"""A profile of every head of a model: statistics, labels, ranks, relations and examples, as tables and as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from regard.heads import circuits, patterns
from regard.heads.circuits import Ranks
from regard.heads.documents import documents_of
from regard.heads.exemplars import Link
from regard.heads.patterns import PATTERNS, described
from regard.heads.relations import Score, best_directions
from regard.heads.statistics import STATISTICS, measured, repetition
from regard.heads.sums import Sums
from regard.tables import Column, Table, printed_number

if TYPE_CHECKING:
    from regard.models.model import Model

FORMAT = 1  # of `data`, raised when it changes
SHOWN = ("first", "previous", "next", "itself", "entropy", "distance", "contribution")  # in the terminal


@dataclass(frozen=True, eq=False)
class Profile:
    """Every head of a model, measured over some texts."""

    model: str
    source: str  # of the texts
    sums: Sums
    ranks: Ranks | None = None
    scores: tuple[Score, ...] = ()
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
        names = [one.name for one in STATISTICS] if every else list(SHOWN)
        columns = [Column("layer", "number", 0), Column("head", "number", 0), Column("pattern", "text")]
        for name in names:
            columns.append(Column(name, "number", 1 if name.startswith("distance") and not every else 2))
            if every:
                columns += [Column(f"{name}, low", "number"), Column(f"{name}, high", "number")]
        if every:
            columns += [Column("rank of W_QK", "number", 1), Column("rank of W_OV", "number", 1)]
        rows = []
        labels = self.labels
        for layer in range(self.sums.layers):
            for head in range(self.sums.heads):
                cells: list[Any] = [layer, head, described(labels[layer][head])]
                for name in names:
                    found = self.sums.estimate(name, layer, head)
                    cells += [found.mean, found.low, found.high] if every else [found.mean]
                if every:
                    known = self.ranks
                    cells += [None, None] if known is None else [known.qk[layer, head], known.ov[layer, head]]
                rows.append(tuple(cells))
        title = f"Heads of {self.model}, over {self.source}"
        return Table(title, tuple(columns), tuple(rows), self.notes)

    def pattern_table(self) -> Table:
        """How many heads show each pattern, which ones, and the rule."""
        labels = self.labels
        rows = []
        for pattern in PATTERNS:
            found = [
                (label.score, f"{layer}.{head}")
                for layer, of_layer in enumerate(labels)
                for head, of_head in enumerate(of_layer)
                for label in of_head
                if label.pattern == pattern.name
            ]
            best = ", ".join(f"{name} {printed_number(score, 2)}" for score, name in sorted(found, reverse=True)[:4])
            rows.append((pattern.name, len(found), best, pattern.rule))
        none = sum(1 for of_layer in labels for of_head in of_layer if not of_head)
        rows.append((patterns.NONE, none, "", ""))
        columns = (Column("Pattern", "word"), Column("heads", "number", 0), Column("strongest"), Column("rule"))
        return Table(f"Patterns in {self.model}", columns, tuple(rows))

    def relation_table(self, *, every: bool = False) -> Table:
        """The best head of every relation: its better direction, or with `every`, both."""
        return relation_table(self.scores, self.model, self.source, every=every)

    def data(self) -> dict[str, Any]:
        """Everything as JSON values; docs/how-to/heads.md describes the fields."""
        found: dict[str, Any] = {
            "format": FORMAT,
            "model": self.model,
            "source": self.source,
            "layers": self.sums.layers,
            "heads": self.sums.heads,
            "about": self.about,
            "notes": list(self.notes),
            "statistics": [_statistic(self.sums, one.name, one.meaning) for one in STATISTICS],
            "patterns": [pattern._asdict() for pattern in PATTERNS],
            "labels": [[[label._asdict() for label in head] for head in layer] for layer in self.labels],
            "relations": [_score(one) for one in self.scores],
            "examples": [link._asdict() for link in self.links],
        }
        if self.counts is not None:
            found["tenths"] = self.counts.tolist()
        if self.ranks is not None:
            found["ranks"] = {"W_QK": self.ranks.qk.tolist(), "W_OV": self.ranks.ov.tolist()}
        return found


def of_texts(model: Model, texts: Sequence[str], source: str = "the given text") -> Profile:
    """The heads of a model over some texts."""
    documents = documents_of(model, texts)
    sums = measured(model, documents) + repetition(model)
    about = {"documents": len(documents), "tokens": sum(map(len, documents))}
    notes = (
        f"{len(documents):,} document{'s' * (len(documents) != 1)}, {about['tokens']:,} tokens. Patterns are labelled "
        "by the weight that is not on special tokens or, in a causal model, on the first token.",
    )
    return Profile(model.name, source, sums, circuits.ranks(model), notes=notes, about=about)


def relation_table(scores: Sequence[Score], model: str, source: str, *, every: bool = False) -> Table:
    """The best head of every relation, beside the best fixed offset and an untrained model."""
    shown = scores if every else best_directions(scores)
    rows = []
    for one in shown:
        interval = f"{printed_number(one.accuracy.low, 2)} to {printed_number(one.accuracy.high, 2)}"
        head = f"{one.layer}.{one.head}" if one.beats_offset or every else "none"
        cells: list[Any] = [one.group, one.relation, one.direction, head, one.accuracy.value, interval]
        cells += [one.offset_accuracy.value, f"{one.offset:+d}".replace("-", "−")]
        cells += [None if one.untrained is None else one.untrained.value, one.queries, one.seen]
        if every:
            cells += [one.gain.value, one.gain.low, one.gain.high, "yes" if one.beats_offset else "no"]
        rows.append(tuple(cells))
    columns = [
        Column("group"), Column("relation", "word"), Column("direction"), Column("head"),
        Column("accuracy", "number", shade=True), Column("95%"), Column("offset", "number"), Column("at"),
        Column("untrained", "number"), Column("words", "number", 0), Column("seen", "number"),
    ]  # fmt: skip
    if every:
        columns += [Column("gain", "number"), Column("gain, low", "number"), Column("gain, high", "number")]
        columns += [Column("beats the offset")]
    notes = (
        "accuracy: how often a word's largest weight, sinks and itself aside, is on the right partner, for the head "
        "chosen on the other file. offset: the same for the best fixed distance. none: the best head does not beat it.",
        "seen: the share of pairs that the model can see; a causal model sees earlier words only.",
    )
    return Table(f"Relations in {model}, over {source}", tuple(columns), tuple(rows), notes)


def _statistic(sums: Sums, name: str, meaning: str) -> dict[str, Any]:
    found = [[sums.estimate(name, layer, head) for head in range(sums.heads)] for layer in range(sums.layers)]
    parts = {part: [[getattr(one, part) for one in row] for row in found] for part in ("mean", "low", "high")}
    return {"name": name, "meaning": meaning, **parts}


def _score(one: Score) -> dict[str, Any]:
    cells = one._asdict()
    for name in ("accuracy", "offset_accuracy", "untrained", "gain"):
        cells[name] = None if cells[name] is None else cells[name]._asdict()
    return {**cells, "beats_offset": one.beats_offset}
