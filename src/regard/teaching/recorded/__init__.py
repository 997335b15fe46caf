"""Results of training runs that lessons and slides show; `python docs/record_training.py` runs them again.

heads.json     `regard train facts --heads H --seed S`: accuracy, and the best head's for each relation
networks.json  `regard compare lookup --steps 1200 --set pairs=8,vocabulary=64,batch=16`: accuracy per network and seed
relations.json `regard train relations --seed S`: accuracy and the best head of each relation, before and after
film.json      one run of `facts` with four heads: their weights on a test sequence after some steps
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from regard.tables import Column, Table

Name = Literal["heads", "networks", "relations", "film"]


def is_recorded(name: str) -> bool:
    """Whether these runs have been recorded."""
    return files(__name__).joinpath(f"{name}.json").is_file()


@cache
def recorded(name: Name) -> Any:
    """The content of a file.

    >>> recorded("film")["steps"][0]
    0
    """
    return json.loads(files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8"))


def heads_table() -> Table:
    """What more heads are worth on a task with four questions at once."""
    rows = []
    for heads, runs in recorded("heads")["runs"].items():
        accuracies = ", ".join(f"{run['accuracy']:.3f}" for run in runs)
        rows.append((heads, accuracies, _by_kind(np.array([run["best_heads"] for run in runs]))))
    columns = (Column("heads", "text"), Column("right answers, one number per seed", "text"),
               Column("the best head for each kind has its largest weight on the right word", "text"))  # fmt: skip
    return Table("Accuracy by number of heads", columns, tuple(rows))


SURE = 0.95  # from which a head is said to have learned a kind


def _by_kind(best: Any) -> str:
    """The accuracies of the best heads, (seed, kind), in words."""
    learned = (best >= SURE).sum(axis=1)
    parts = []
    if learned.max():
        counts = " or ".join(("none", "one", "two", "three", "four")[count] for count in sorted({*learned.tolist()}))
        number = "all four" if learned.min() == best.shape[1] else f"{counts} of the four"
        parts.append(f"{_span(best[best >= SURE])} for {number}")
    if (best < SURE).any():
        parts.append(f"{_span(best[best < SURE])} for the others" if parts else _span(best))
    return ", ".join(parts)


def _span(numbers: Any) -> str:
    low, high = f"{numbers.min():.2f}", f"{numbers.max():.2f}"
    return low if low == high else f"{low} to {high}"


MIXES = {  # how a position gets information from earlier ones
    "convolution": "filters over 4 neighbours, reach 7",
    "feed-forward": "a weight for every position of the window",
    "gated convolution": "a filter as long as the sequence, times a gate",
    "dilated": "filters with gaps, reach 16",
    "one head": "attention: weights computed from queries and keys",
    "eight heads": "the same, eight times",
}


def networks_table() -> Table:
    """The same task for networks of the same size, worst first: mean accuracy over the seeds."""
    runs, seeds = recorded("networks")["runs"], ", ".join(map(str, recorded("networks")["seeds"]))
    means = {name: float(np.mean(runs[name])) for name in runs}
    rows = tuple((name, MIXES[name], f"{means[name]:.2f}") for name in sorted(means, key=lambda name: means[name]))
    columns = Column("network", "text"), Column("how a position gets information from earlier ones", "text")
    last = f"right answers, mean of seeds {seeds}" if "," in seeds else f"right answers, seed {seeds}"
    return Table("Accuracy by network", (*columns, Column(last, "text")), rows)


def relations_table() -> Table:
    """Right words and the best head of each relation before and after training, one number per seed."""
    runs = recorded("relations")["runs"]
    moments = "untrained", "trained"

    def numbers(digits: int, *keys: str) -> tuple[str, ...]:
        return tuple(", ".join(f"{_inside(run[moment], keys):.{digits}f}" for run in runs) for moment in moments)

    rows = [("right words", *numbers(3, "accuracy"))]
    rows += [(f"best head for {name}", *numbers(2, "best_heads", name)) for name in runs[0]["trained"]["best_heads"]]
    columns = tuple(Column(name, "text") for name in ("", *moments))
    return Table("Relations before and after training", columns, tuple(rows))


def _inside(content: Any, keys: tuple[str, ...]) -> float:
    for key in keys:
        content = content[key]
    return float(content)
