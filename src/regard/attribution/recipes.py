"""Recipes: questions about real models, answered by silencing every head, with controls.

Each recipe generates prompts, measures what every head's silence does to an answer, and compares this with the head's
direct contribution, with a first-order estimate, and with sets of random heads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.attribution import prompts
from regard.attribution.direct_paths import contributions
from regard.attribution.estimates import agreement, first_order
from regard.attribution.prompts import Prompt
from regard.edits import Edit, Metric, block, logit_difference, next_token_loss, patch, silence, vector_distance
from regard.edits.effects import EditEffect, EffectStudy, measure_effects
from regard.models import progress
from regard.provenance import quoted
from regard.reading.edit import Head
from regard.reading.reader import Reader, all_heads
from regard.tables import Column, Table, digits_for, omitted_rows

Numbers = NDArray[np.float64]
TOP = 5  # heads that are silenced together
CONTROLS = 10  # sets of random heads
DIRECT = 10  # prompts whose contributions and gradients are computed


class Question(NamedTuple):
    """A recipe on generated prompts."""

    title: str
    generate: Callable[[Reader, int, int], list[Prompt]]
    answer: str  # what the logit difference is between


QUESTIONS = {
    "indirect-objects": Question(
        "Which heads name the indirect object?", prompts.indirect_objects, "the indirect object − the subject"
    ),
    "induction": Question(
        "Which heads continue a repeated sequence?", prompts.induction, "the word that followed − another word"
    ),
    "pronouns": Question("Which heads choose he or she?", prompts.pronouns, "the fitting pronoun − the other"),
    "agreement": Question(
        "Which heads make the verb agree with its subject?",
        prompts.number_agreement,
        "the right number − the wrong one",
    ),
}


@dataclass(frozen=True, eq=False)
class Control:
    """The strongest heads silenced together, and random sets of as many other heads."""

    heads: tuple[Head, ...]
    together: EditEffect
    random: tuple[EditEffect, ...]

    @property
    def note(self) -> str:
        """The comparison in a sentence."""
        effects = [effect.effect for effect in self.random]
        names, low, high = ", ".join(map(head_name, self.heads)), self.together.low, self.together.high
        interval = "one prompt" if low is None else f"95% from {low:+.2f} to {high:+.2f}"
        together = f"{names} silenced together change it by {self.together.effect:+.2f} ({interval})"
        if not effects:
            return f"{together}; there are too few other heads for a control."
        return (
            f"Control: {together}; {len(effects)} sets of {len(self.heads)} random other heads by "
            f"{np.mean(effects):+.2f} on average, from {min(effects):+.2f} to {max(effects):+.2f}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class HeadStudy:
    """What every head does to an answer, over generated prompts."""

    title: str
    answer: str
    model: str
    prompts: tuple[Prompt, ...]
    study: EffectStudy  # of silencing heads, each alone
    heads: tuple[Head, ...]  # one per edit of `study`
    chosen_at_random: tuple[Head, ...]  # those of them that no estimate chose; empty where all heads are silenced
    control: Control
    direct: Numbers | None = None  # mean direct contribution, (layer, head)
    estimate: Numbers | None = None  # mean first-order estimate, (layer, head)
    used: int = 0  # prompts of `direct` and `estimate`
    shape: tuple[int, int] = (0, 0)  # layers and heads
    along = "head"  # columns of a figure

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a figure."""
        return tuple(map(str, range(self.shape[1])))

    @property
    def marked(self) -> tuple[Head, ...]:
        """The heads that are silenced together."""
        return self.control.heads

    def __repr__(self) -> str:
        return f"HeadStudy({self.title} {len(self.prompts)} prompts; {self.model})"

    @property
    def effects(self) -> Numbers:
        """The mean effect of silencing each head, (layer, head); NaN for heads that were not silenced."""
        effects = np.full(self.shape, np.nan)
        for head, effect in zip(self.heads, self.study.effects, strict=True):
            effects[head] = effect.effect
        return effects

    def table(self, rows: int | None = None) -> Table:
        """Heads by the size of their effect, with its interval, contribution and estimate."""
        effects = self.study.effects
        order = sorted(range(len(effects)), key=lambda index: -abs(effects[index].effect))[:rows]
        columns = [Column("head", "word"), Column("effect", "number", 3), Column("low", "number", 3),
                   Column("high", "number", 3)]  # fmt: skip
        more = [(name, numbers) for name, numbers in (("direct", self.direct), ("first order", self.estimate))
                if numbers is not None]  # fmt: skip
        columns += [Column(name, "number", 3) for name, _ in more]
        cells = []
        for index in order:
            head, effect = self.heads[index], effects[index]
            cells.append(
                (head_name(head), effect.effect, effect.low, effect.high, *(numbers[head] for _, numbers in more))
            )
        notes = (*self.notes, *omitted_rows(len(order), len(effects), " heads"))
        return Table(self.title, tuple(columns), tuple(cells), notes, source=self.source)

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        return f"{self.model}, {len(self.prompts)} generated prompts such as {quoted(self.prompts[0].text)}"

    @property
    def notes(self) -> list[str]:
        """Baseline, edit, number of prompts, control and agreement."""
        baseline = self.study.baseline
        right = (baseline > 0).mean()
        notes = [
            f"Measured: logit difference, {self.answer}; baseline {baseline.mean():.2f}, the mean over "
            f"{len(baseline)} prompts, of which {right:.0%} are answered correctly.",
            "Edit: one head's output is set to zero at every token. effect: its change of the difference; low, high: "
            "95% bootstrap interval over prompts.",
            self.control.note,
        ]
        if self.chosen_at_random:
            effects = self.effects
            at_random = np.abs([effects[head] for head in self.chosen_at_random])
            notes.append(
                f"Silenced: the {len(self.heads) - len(at_random)} heads with the largest estimates and "
                f"{len(at_random)} others at random, whose effects are {at_random.mean():.2f} on average and at most "
                f"{at_random.max():.2f} in size."
            )
        if self.direct is not None:
            notes.append(f"direct: contribution through W_O and the last norm, over {self.used} prompts.")
        if self.estimate is not None:
            measured = tuple(zip(*self.heads, strict=True))
            pearson, spearman = agreement(self.estimate[measured], self.effects[measured])
            notes.append(
                f"first order: gradient × activation, over {self.used} prompts; its correlation with the effect is "
                f"{pearson:.2f}, that of their ranks {spearman:.2f}."
            )
        return [*notes, f"Prompts: {quoted(self.prompts[0].text)} and the like; {self.model}."]


def head_name(head: Head) -> str:
    """2.0: the layer, then the head."""
    return f"{head[0]}.{head[1]}"


def check_name(name: str) -> str:
    """Refuse a question that is not there."""
    return validate.choice("question", name, QUESTIONS)


def answer_question(
    reader: Reader, name: str, count: int = 100, *, seed: int = 0, heads: int | None = None
) -> HeadStudy:
    """One of `QUESTIONS` for a causal model: what every head's silence does to the answer, over generated prompts.

    count   of generated prompts
    heads   silence only this many heads: half of them those with the largest first-order estimates (or contributions,
            where there are none), half at random
    """
    question = QUESTIONS[check_name(name)]
    chosen = question.generate(reader, count, seed)
    texts, answers, others = ([*column] for column in zip(*chosen, strict=True))
    metric = logit_difference(answers, others)
    direct, estimate, used = _direct_and_first_order(reader, chosen[:DIRECT])
    every = all_heads(reader)
    silenced: list[Head] = every
    at_random: tuple[Head, ...] = ()
    guide = direct if estimate is None else estimate
    if heads is not None and heads < len(every) and guide is not None:
        order = _largest([guide[head] for head in every], len(every))
        half = validate.integer("heads", heads, 2) // 2
        drawn = np.random.default_rng(seed).permutation(order[half:])[: heads - half]
        at_random = tuple(every[index] for index in sorted(drawn))
        silenced = sorted([every[index] for index in order[:half]] + list(at_random))
    study = study_effects("Silencing heads", reader, texts, [silence(head) for head in silenced], metric)
    top = [silenced[index] for index in _largest([effect.effect for effect in study.effects], TOP)]
    control = _control(reader, texts, metric, top, every, seed)
    return HeadStudy(
        question.title, question.answer, reader.name, tuple(chosen), study, tuple(silenced), tuple(at_random), control,
        direct, estimate, used, (len(reader.block_shapes), reader.heads),
    )  # fmt: skip


def study_effects(what: str, reader: Reader, inputs: Any, edits: Sequence[Edit], on: Metric) -> EffectStudy:
    """What edits do, each alone, with progress."""
    with progress.steps(what, len(edits), every=60) as advance:
        return measure_effects(reader, inputs, edits, on=on, on_edit=advance)


def _largest(effects: Sequence[float], count: int) -> list[int]:
    return sorted(range(len(effects)), key=lambda index: -abs(effects[index]))[:count]


def _control(
    reader: Reader, texts: Sequence[str], metric: Any, top: Sequence[Head], heads: Sequence[Head], seed: int
) -> Control:
    """The strongest heads together, and as many random others, `CONTROLS` times."""
    sets = random_sets(heads, top, len(top), seed)
    study = study_effects("Random heads", reader, texts, [silence(*some) for some in (top, *sets)], metric)
    return Control(tuple(top), study.effects[0], tuple(study.effects[1:]))


def random_sets(heads: Sequence[Head], without: Sequence[Head], size: int, seed: int) -> list[list[Head]]:
    """`CONTROLS` random sets of other heads; none where there are too few of them."""
    generator, others = np.random.default_rng(seed), [head for head in heads if head not in without]
    sets = CONTROLS if len(others) >= size else 0
    return [[others[index] for index in generator.permutation(len(others))[:size]] for _ in range(sets)]


def _direct_and_first_order(reader: Reader, chosen: Sequence[Prompt]) -> tuple[Numbers | None, Numbers | None, int]:
    """Mean contributions and first-order estimates over some prompts; None where the model does not allow them."""
    texts, answers, others = ([*column] for column in zip(*chosen, strict=True))
    direct = estimate = None
    with suppress(errors.Unsupported):  # blocks whose parts do not simply add up
        direct = np.mean(
            [contributions(reader, prompt.text, (prompt.answer, prompt.other)).heads for prompt in chosen], axis=0
        )
    with suppress(errors.Unsupported):  # PyTorch is missing, or transformers runs the model
        estimate = first_order(reader, texts, answers, others).mean(0)
    return direct, estimate, len(chosen)


# Edges


@dataclass(frozen=True, eq=False, repr=False)
class GridStudy:
    """What blocking edges or patching does, by layer and head, token or way of blocking."""

    title: str
    study: EffectStudy
    names: tuple[str, ...]  # one per edit
    notes: tuple[str, ...]
    shape: tuple[int, int]  # layers, and heads or ways of blocking
    columns: tuple[str, ...]
    along: str = "head"  # what the columns of a figure are
    marked: tuple[Head, ...] = ()

    def __repr__(self) -> str:
        return f"GridStudy({self.title} {self.study.model})"

    @property
    def effects(self) -> Numbers:
        """The effect of every edit, (layer, column)."""
        return np.array([effect.effect for effect in self.study.effects[: self.shape[0] * self.shape[1]]]).reshape(
            self.shape
        )

    def table(self, rows: int | None = None) -> Table:
        """Edits by the size of their effect."""
        order = _largest([effect.effect for effect in self.study.effects], len(self.names))[:rows]
        several = len(self.study.baseline) > 1
        cells = []
        for index in order:
            effect = self.study.effects[index]
            cells.append((self.names[index], effect.effect, *((effect.low, effect.high) if several else ())))
        names = ("effect", *(("low", "high") if several else ()))
        digits = min(digits_for([effect.effect for effect in self.study.effects], 3) + 1, 6)
        columns = (Column("edit", "word"), *(Column(name, "number", digits) for name in names))
        notes = (*self.notes, *omitted_rows(len(order), len(self.names), " edits"))
        return Table(self.title, columns, tuple(cells), notes, source=self.study.model)


def sinks(reader: Reader, texts: Sequence[str]) -> GridStudy:
    """What the first token is needed for: no later token may attend to it, in one layer or in all.

    As a mask, the softmax gives its weight to the other keys; after the softmax, its value is missing instead.
    """
    layers, later = len(reader.block_shapes), range(1, reader.longest)
    ways = {"masked": False, "zeroed": True}
    edits = [
        block(queries=later, keys=0, layers=[layer], after_softmax=way)
        for layer in range(layers)
        for way in ways.values()
    ]
    names = [f"layer {layer}, {way}" for layer in range(layers) for way in ways]
    edits += [block(queries=later, keys=0, after_softmax=way) for way in ways.values()]
    names += [f"all layers, {way}" for way in ways]
    metric = next_token_loss() if reader.writes else vector_distance()
    study = study_effects("Blocking the first token", reader, list(texts), edits, metric)
    first = reader.tokeniser.encode(texts[0]).texts[0]
    notes = (
        f"Measured: {study.metric}; baseline {study.baseline.mean():.4f}, the mean over "
        f"{errors.count(len(study.baseline), 'text')}.",
        f"Edit: no later token attends to the first one ({first}). masked: the softmax renormalises over the other "
        "keys; zeroed: its weight is set to zero after the softmax, the other weights stay.",
    )
    title = f"What is the first token needed for in {reader.name}?"
    return GridStudy(title, study, tuple(names), notes, (layers, len(ways)), tuple(ways), "way of blocking")


def sentence_vector(reader: Reader, text: str, query: str, key: str) -> GridStudy:
    """Which heads carry an edge, as from they to kids, into the text's vector: it is blocked in one head at a time."""
    shape, heads = (len(reader.block_shapes), reader.heads), all_heads(reader)
    edits = [block(queries=query, keys=key, heads=[head]) for head in heads]
    names = [head_name(head) for head in heads]
    edits.append(block(queries=query, keys=key))
    names.append("all heads")
    study = measure_effects(reader, text, edits, on=vector_distance())
    others = [word for word in _words(reader, text) if word not in (query, key)]
    control = measure_effects(
        reader, text, [block(queries=query, keys=word) for word in others], on=vector_distance()
    )  # fmt: skip
    effects = [effect.effect for effect in control.effects]
    notes = (
        f"Measured: {study.metric}; baseline 0, the unchanged vector; 1 prompt, {quoted(text)}",
        f"Edit: {query} may not attend to {key} in one head; the softmax renormalises.",
        f"Control: {query} cut off from one other word in all heads, {errors.count(len(effects), 'word')}: "
        f"{np.mean(effects):.4f} on average, at most {max(effects):.4f}.",
    )
    title = f"Which heads carry {query} → {key} into the text's vector?"
    return GridStudy(title, study, tuple(names), notes, shape, tuple(map(str, range(shape[1]))))


def patching(reader: Reader, text: str, other: str, toward: str, against: str) -> GridStudy:
    """Where an answer is decided: one token's residual stream, before one layer, is taken from another text.

    text, other       two prompts of equally many tokens, such as with names exchanged
    toward, against   tokens whose logit difference is measured, as after `text`
    """
    reading = reader.read(other)
    tokens, layers = reader.tokeniser.encode(text).texts, len(reader.block_shapes)
    cells = [(layer, token) for layer in range(layers) for token in range(len(tokens))]
    edits = [patch(reading, what="residual", layers=[layer], positions=token) for layer, token in cells]
    metric = logit_difference(toward, against)
    study = study_effects("Patching", reader, text, edits, metric)
    (there,) = measure_effects(reader, other, [silence((0, 0))], on=metric).baseline
    notes = (
        f"Measured: {study.metric}; baseline {study.baseline[0]:.2f}, 1 prompt, {quoted(text)}",
        f"Edit: before one layer, the residual stream of one token is that of {quoted(other)}, where the difference is "
        f"{there:.2f}.",
    )
    names = tuple(f"layer {layer}, {tokens[token]}, position {token}" for layer, token in cells)
    title = f"Where is {toward.strip()} or {against.strip()} decided?"
    return GridStudy(title, study, names, notes, (layers, len(tokens)), tuple(tokens), "token")


def head_patching(
    reader: Reader, text: str, other: str, toward: str | None = None, against: str | None = None
) -> GridStudy:
    """The output of each head, at every token, is taken from another text of equally many tokens.

    toward, against   tokens whose logit difference is measured after `text`; without them, how far the text's vector
                      moves
    """
    if (toward is None) != (against is None):
        raise errors.OptionError("Give both tokens, `toward` and `against`, or none to measure the text's vector.")
    metric = vector_distance() if toward is None or against is None else logit_difference(toward, against)
    reading = reader.read(other)
    shape = len(reader.block_shapes), max(block.heads for block in reader.block_shapes)
    heads = all_heads(reader)
    edits = [patch(reading, heads=[head]) for head in heads]
    if len(heads) != shape[0] * shape[1]:
        raise errors.unsupported(
            f"A map of {reader.name}, whose layers have different numbers of heads,", "Use `effect` with `each_head`."
        )
    edits.append(patch(reading, layers=range(shape[0])))
    study = study_effects("Patching heads", reader, text, edits, metric)
    notes = (
        f"Measured: {study.metric}; baseline {study.baseline[0]:.2f}, 1 prompt, {quoted(text)}",
        f"Edit: the output of one head, at every token, is that of {quoted(other)}; all heads together: "
        f"{study.effects[-1].effect:+.2f}.",
    )
    what = f"{toward.strip()} or {against.strip()}" if toward and against else "the text's vector"
    names = (*map(head_name, heads), "all heads")
    columns = tuple(map(str, range(shape[1])))
    return GridStudy(f"Which heads decide {what}?", study, names, notes, shape, columns)


def _words(reader: Reader, text: str) -> list[str]:
    """The words of a text that occur once, special tokens left out."""
    reading = reader.read(text)
    words = [word.text for word in reading.words if word.text.isalpha()]
    return [word for word in words if words.count(word) == 1]
