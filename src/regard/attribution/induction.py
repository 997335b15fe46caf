"""The circuit of induction: previous-token heads note which word came before, induction heads look that up.

Patching decides whether one feeds the other. In a corrupted text, the word to look up does not occur; with the
previous-token heads' outputs of that run, the model should no longer give the answer (Olsson et al., 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard import errors
from regard.attribution.prompts import repeated_words
from regard.attribution.recipes import GridStudy, Numbers, head_name, random_sets, study_effects
from regard.edits import Edit, Metric, accuracy, logit_difference, patch, silence
from regard.edits.effects import EditEffect, measure_apart, measure_effects
from regard.reading import Reading
from regard.reading.edit import Head
from regard.reading.reader import Reader, all_heads
from regard.tables import Column, Table

LEAST_WEIGHT = 0.4  # mean weight on the token before, or on the token to repeat, of the heads of the circuit
NOTHING = "nothing"
PATCHED = "previous-token heads patched"
AT_TOKEN = "… at the word that followed only"
ELSEWHERE = "… at all other words"
SILENCED = "previous-token heads silenced"


@dataclass(frozen=True, eq=False)
class GroupEffect:
    """What patching or silencing several heads together does."""

    right: EditEffect  # on the share of prompts whose answer has the largest logit
    difference: EditEffect  # on the logit difference


@dataclass(frozen=True, eq=False, repr=False)
class InductionCircuit(GridStudy):
    """What patching and silencing the heads of the circuit does; the figure shows each head patched alone."""

    previous: tuple[Head, ...] = ()  # previous-token heads
    lookup: tuple[Head, ...] = ()  # induction heads
    right: float = 0.0  # share of prompts that the unchanged model answers correctly
    restored: float = 0.0  # of corrupted texts, with the previous-token heads of the whole ones
    groups: dict[str, GroupEffect] = field(default_factory=dict)

    def table(self, rows: int | None = None) -> Table:
        """Groups of heads: the share of right answers, and the change of the logit difference."""
        cells: list[tuple[object, ...]] = [(NOTHING, self.right, 0.0, None, None)]
        for name, group in self.groups.items():
            effect = group.difference
            cells.append((name, group.right.edited, effect.effect, effect.low, effect.high))
        columns = (Column("changed"), *(Column(name, "number", 2) for name in ("right", "effect", "low", "high")))
        return Table(self.title, columns, tuple(cells[:rows]), tuple(self.notes), source=self.study.model)


def induction_circuit(reader: Reader, count: int = 100, *, seed: int = 0) -> InductionCircuit:
    """Whether the previous-token heads of a model feed its induction heads: they are patched from corrupted texts.

    For a model of `regard train induction`, and any causal model with such heads. Controls: the same heads patched at
    all other words, the other heads of the same layers, and random sets of as many other heads.
    """
    prompts = repeated_words(reader, count, seed)
    texts, answers, others, corrupted, positions = ([*column] for column in zip(*prompts, strict=True))
    readings, sources = ([reader.read(text) for text in some] for some in (texts, corrupted))
    tokens = [_token_at(reading, position) for reading, position in zip(readings, positions, strict=True)]
    previous, lookup = _heads_of(reader, readings, tokens)
    every = all_heads(reader)
    layers = {layer for layer, _ in previous}
    beside = [head for head in every if head[0] in layers and head not in previous]

    edits: dict[str, Edit] = {
        PATCHED: patch(sources, heads=previous),
        SILENCED: silence(*previous),
        "induction heads patched": patch(sources, heads=lookup),
        "induction heads silenced": silence(*lookup),
    }
    if beside:
        edits["other heads of these layers patched"] = patch(sources, heads=beside)
        edits["other heads of these layers silenced"] = silence(*beside)
    random = [patch(sources, heads=heads) for heads in random_sets(every, (*previous, *lookup), len(previous), seed)]
    right, difference = accuracy(answers), logit_difference(answers, others)
    alone = [patch(sources, heads=[head]) for head in every]
    study = study_effects("Patching heads", reader, texts, alone, difference)
    of_right = measure_effects(reader, texts, [*edits.values(), *random], on=right)
    of_difference = measure_effects(reader, texts, edits.values(), on=difference)
    groups = dict(zip(edits, map(GroupEffect, of_right.effects, of_difference.effects), strict=False))
    apart = _at_tokens(reader, texts, sources, previous, [token + 1 for token in tokens], answers, others)
    groups = {PATCHED: groups.pop(PATCHED), **apart, **groups}
    there = measure_effects(reader, corrupted, patch(readings, heads=previous), on=right)

    notes = [
        "Measured: right, the share of prompts after which the word that followed has the largest logit; effect, the "
        f"change of its logit minus that of another word; baseline {of_difference.baseline.mean():.2f}, the mean over "
        f"{errors.count(count, 'prompt')}; low, high: 95% bootstrap interval over prompts.",
        "Edit: outputs of heads are those of a run over a corrupted text, where the last word has no earlier "
        "occurrence, or zero.",
        f"Previous-token heads: {_head_names(previous)}. Induction heads: {_head_names(lookup)}. Their mean weight on "
        f"that token is at least {LEAST_WEIGHT}.",
        f"Of the corrupted texts {there.baseline.mean():.2f} are right; with the previous-token heads of the whole "
        f"texts {there.effects[0].edited:.2f}.",
    ]
    if chosen := [effect.edited for effect in of_right.effects[len(edits) :]]:
        notes.append(
            f"Control: {len(chosen)} sets of {errors.count(len(previous), 'other head')} at random patched: "
            f"{np.mean(chosen):.2f} right on average, at least {min(chosen):.2f}."
        )
    return InductionCircuit(
        "Do previous-token heads feed induction heads?", study, tuple(map(head_name, every)), tuple(notes),
        (len(reader.block_shapes), reader.heads), tuple(map(str, range(reader.heads))), "head", previous, previous,
        lookup, float(of_right.baseline.mean()), there.effects[0].edited, groups,
    )  # fmt: skip


def _at_tokens(
    reader: Reader, texts: Sequence[str], sources: Sequence[Reading], heads: Sequence[Head], tokens: Sequence[int],
    answers: Sequence[str], others: Sequence[str],
) -> dict[str, GroupEffect]:  # fmt: skip
    """Heads patched at one token of each text, and at all others."""
    edits = [
        [
            patch(source, heads=heads, positions=token),
            patch(source, heads=heads, positions=[range(token), range(token + 1, len(source.tokens))]),
        ]
        for source, token in zip(sources, tokens, strict=True)
    ]

    def measured(on: Sequence[Metric]) -> tuple[EditEffect, ...]:
        return measure_apart(reader, texts, edits, on).effects

    right = measured([accuracy(answer) for answer in answers])
    difference = measured([logit_difference(*both) for both in zip(answers, others, strict=True)])
    return dict(zip((AT_TOKEN, ELSEWHERE), map(GroupEffect, right, difference), strict=True))


def _token_at(reading: Reading, word: int) -> int:
    """The token of a word: each word is one, after those that begin every text."""
    return word + len(reading.tokens) - len(reading.text.split())


def _heads_of(
    reader: Reader, readings: Sequence[Reading], tokens: Sequence[int]
) -> tuple[tuple[Head, ...], tuple[Head, ...]]:
    """Previous-token heads in front of induction heads, and these, by their weights over the prompts.

    tokens   where the last word of each text occurs first
    """
    both = list(zip(readings, tokens, strict=True))
    before = [[seen.attention[:, token + 1, token] for seen in reading.seen] for reading, token in both]
    after = [[seen.attention[:, -1, token + 1] for seen in reading.seen] for reading, token in both]
    lookup = _above(np.mean(after, axis=0))
    last = max((layer for layer, _ in lookup), default=0)
    previous = tuple(head for head in _above(np.mean(before, axis=0)) if head[0] < last)
    if not previous or not lookup:
        raise errors.unsupported(
            f"Patching the circuit of induction in {reader.name}",
            f"No {'previous-token head feeds its induction heads' if lookup else 'induction head'} with a mean weight "
            f"of {LEAST_WEIGHT}: `regard train induction` makes a model that has them.",
        )
    return previous, lookup


def _above(weights: Numbers) -> tuple[Head, ...]:
    return tuple((int(layer), int(head)) for layer, head in np.argwhere(weights >= LEAST_WEIGHT))


def _head_names(heads: Sequence[Head]) -> str:
    return ", ".join(map(head_name, heads))
