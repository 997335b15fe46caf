"""Labels for what a head does, each with the number it rests on.

Sinks are set aside first: a head is labelled by the weight that is not on special tokens and, in a causal model, not
on the first token. Most heads of real models put most of their weight there, whatever else they do. A head can have
several labels, or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.heads.sums import Sums
from regard.tables import printed_number

NONE = "no clear pattern"
LEAST_REST = 0.1  # a head with less weight off the sinks is labelled as a sink only


class Pattern(NamedTuple):
    """A label and the rule by which a head gets it."""

    name: str
    statistic: str  # the evidence
    threshold: float  # the least value of it
    rule: str  # in words
    sink: bool = False


PATTERNS = (
    Pattern("previous token", "previous of the rest", 0.5, "at least half of the rest is on the previous token"),
    Pattern("next token", "next of the rest", 0.5, "at least half of the rest is on the next token"),
    Pattern("itself", "itself of the rest", 0.5, "at least half of the rest is on the token itself"),
    Pattern("first-token sink", "first", 0.5, "at least half of all weight is on the first token", sink=True),
    Pattern("separator sink", "separators", 0.5, "at least half of all weight is on separators", sink=True),
    Pattern("duplicate token", "duplicate", 0.4, "on repeated random tokens, 0.4 of the rest is on the earlier one"),
    Pattern("induction", "induction", 0.4, "on repeated random tokens, 0.4 of the rest is on the token after it"),
    Pattern(
        "same word", "same word of the rest", 0.5,
        "at least half of the rest is on pieces of the same word, and 0.2 more than neighbours get elsewhere",
    ),
    Pattern(
        "local window", "window of the rest", 0.8,
        "at least 0.8 of the rest is within 4 tokens, and no single neighbour has half of it",
    ),
    Pattern("broad", "evenness", 0.9, "the rest is spread with at least 0.9 of the largest possible entropy"),
)  # fmt: skip


class Label(NamedTuple):
    """A pattern that a head shows, and how strongly."""

    pattern: str
    score: float

    def __str__(self) -> str:
        return f"{self.pattern} {printed_number(self.score, 2)}"


def labels(sums: Sums) -> list[list[tuple[Label, ...]]]:
    """The labels of every head, strongest first: labels[layer][head]."""
    values = {pattern.statistic: sums.mean(pattern.statistic) for pattern in PATTERNS}
    # NaN, where nothing could be counted, reaches no threshold.
    shown = {pattern.name: values[pattern.statistic] >= pattern.threshold for pattern in PATTERNS}
    one_neighbour = shown["previous token"] | shown["next token"]
    shown["local window"] &= ~one_neighbour
    neighbours = np.nan_to_num(values["previous of the rest"]) + np.nan_to_num(values["next of the rest"])
    shown["same word"] &= values["same word of the rest"] >= neighbours + 0.2
    few = np.nan_to_num(values["first"]) + np.nan_to_num(values["separators"]) > 1 - LEAST_REST
    for pattern in PATTERNS:
        if not pattern.sink:
            shown[pattern.name] &= ~few

    def of_head(layer: int, head: int) -> tuple[Label, ...]:
        labels = [
            (pattern.sink, Label(pattern.name, float(values[pattern.statistic][layer, head])))
            for pattern in PATTERNS
            if shown[pattern.name][layer, head]
        ]
        return tuple(label for _, label in sorted(labels, key=lambda one: (one[0], -one[1].score)))  # sinks last

    return [[of_head(layer, head) for head in range(sums.heads)] for layer in range(sums.layers)]


def describe_labels(labels: tuple[Label, ...]) -> str:
    """Labels in one line: "previous token 0.93, first-token sink 0.61"."""
    return ", ".join(map(str, labels)) or NONE
