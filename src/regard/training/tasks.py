"""Tasks to train on: tokens, the next token, and the key that each scored query should attend to.

A batch is a function of seed, split and step, so that a resumed run sees the same batches. Position i predicts
`targets[i]` from the tokens up to i: models are causal.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from regard import errors, input_file, validate
from regard.training import grammar

Integers = NDArray[np.int64]
Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
NONE = -1  # no target, no right key, no relation at this position
MOST_TOKENS = 1 << 20  # of a vocabulary or sequence: the words alone would fill the memory


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences with what each position should predict and attend to; all arrays are (batch, token)."""

    tokens: Integers
    targets: Integers  # the next token, NONE where nothing is scored
    keys: Integers  # position of the key that a query should attend to, NONE where there is no single one
    relations: Integers  # which of the task's relations that is, NONE where there is none

    def __len__(self) -> int:
        return len(self.tokens)


class Task(ABC):
    """A source of batches.

    words      the vocabulary: the text of every token
    length     tokens in a sequence
    relations  what relates a query to its right key; () where no single key is right
    levels     difficulties of a curriculum, the last one 1

    >>> batch = task("copy", length=8).batch(2, seed=0)
    >>> batch.tokens.shape, batch.keys[0].tolist()
    ((2, 8), [-1, -1, -1, -1, 0, 1, 2, 3])
    """

    name: ClassVar[str]
    words: tuple[str, ...]
    length: int
    relations: tuple[str, ...] = ()
    levels: tuple[float, ...] = (1.0,)
    separator: ClassVar[str] = " "  # between the words of a text
    padding: ClassVar[str | None] = None  # the word that fills up short sequences

    @property
    def vocabulary(self) -> int:
        return len(self.words)

    def batch(self, count: int, *, seed: int = 0, step: int = 0, split: Split = "train", level: float = 1.0) -> Batch:
        """`count` sequences; `level`, up to 1, is the share of the full difficulty."""
        validate.integer("count", count, 1)
        name = zlib.crc32(f"{self.name} {split}".encode())
        return self._draw(count, np.random.default_rng([seed, name, step]), split, level)

    def length_at(self, level: float) -> int:
        """Tokens in a sequence of a level."""
        return self.length

    @abstractmethod
    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch: ...

    def digest(self) -> str:
        """Tells tasks with other words, options or texts apart."""
        about = [self.name, self.length, self.words, self.relations, self.levels]
        digest = hashlib.sha256(json.dumps(about).encode())
        for array in self._samples():
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _samples(self) -> Iterator[Integers]:
        """Arrays that differ wherever the batches of two tasks do."""
        for split, level in product(SPLITS, self.levels):
            batch = self._draw(8, np.random.default_rng(0), split, level)
            yield from (batch.tokens, batch.targets, batch.keys, batch.relations)

    @cached_property
    def number_of(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def text(self, tokens: Any) -> str:
        """Tokens as people read them."""
        return self.separator.join(self.words[int(token)] for token in tokens)

    def encode(self, text: str) -> list[int]:
        """A text as tokens, capitals as small letters in tasks with words; unknown words are refused."""
        words = re.findall(r"\w+|[^\w\s]+", text.lower()) if self.separator else list(text)
        for word in words:
            if word not in self.number_of:
                raise errors.OptionError(f"`text` contains {word!r}, which is not in the vocabulary of {self.name}.")
        if not 0 < len(words) <= self.length:
            raise errors.OptionError(f"`text` has {len(words)} tokens; the task {self.name} has 1 to {self.length}.")
        return [self.number_of[word] for word in words]


def _empty(tokens: Integers) -> tuple[Integers, Integers, Integers]:
    """Targets, keys and relations with nothing scored."""
    return np.full_like(tokens, NONE), np.full_like(tokens, NONE), np.full_like(tokens, NONE)


def _distinct(rng: np.random.Generator, count: int, number: int, limit: int) -> Integers:
    """`number` different integers below `limit` for each of `count` rows, in random order."""
    if number * number > limit:  # most rows of independent draws would repeat a number
        return rng.random((count, limit)).argsort(axis=1)[:, :number]
    draws = rng.integers(0, limit, (count, number))
    while len(again := np.flatnonzero((np.diff(np.sort(draws, axis=1), axis=1) == 0).any(axis=1))):
        draws[again] = rng.integers(0, limit, (len(again), number))
    return draws


LEAST_PAIRS, LEAST_KEYS = 4, 8  # of the easiest level


class LookupTask(Task):
    """Multi-query associative recall (MQAR, Arora et al., 2023): pairs of key and value, then the keys again.

    A sequence starts with `pairs` pairs "k v". Each key occurs once more, and its value is the target there. Distances
    follow the paper's power law; the positions between hold random tokens that are not keys of the sequence.

    pairs       how many pairs a sequence holds
    length      tokens in a sequence; 4 · pairs by default
    vocabulary  half of it keys, half of it values
    power       exponent of the power law

    >>> lookup = LookupTask(pairs=2, vocabulary=8)
    >>> batch = lookup.batch(1, seed=1)
    >>> lookup.text(batch.tokens[0])
    'k3 v1 k1 v0 k1 . k3 v1'
    """

    name = "lookup"
    relations = ("value of the key",)

    def __init__(self, pairs: int = 32, length: int | None = None, vocabulary: int = 128, power: float = 0.01) -> None:
        validate.integer("pairs", pairs, 1)
        self.pairs, self.length, self.power = pairs, 4 * pairs if length is None else length, power
        if self.length < 4 * pairs:
            raise errors.OptionError(
                f"`length` is {self.length}: {pairs} pairs and their queries take {4 * pairs} tokens or more."
            )
        if vocabulary < 2 * pairs + 2 or vocabulary % 2:
            raise errors.OptionError(
                f"`vocabulary` is {vocabulary}; {pairs} pairs need an even number from {2 * pairs + 2} on."
            )
        half = vocabulary // 2
        steps = max(1, (half // LEAST_KEYS).bit_length())
        self.levels = tuple(2.0**-power for power in reversed(range(steps)))
        self.words = (".", *(f"k{n}" for n in range(1, half)), *(f"v{n}" for n in range(vocabulary - half)))

    def length_at(self, level: float) -> int:
        return self.length * self._pairs_at(level) // self.pairs

    def _pairs_at(self, level: float) -> int:
        return max(min(LEAST_PAIRS, self.pairs), round(self.pairs * level))

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        half = self.vocabulary // 2
        pairs, length = self._pairs_at(level), self.length_at(level)
        # Lower levels have fewer different keys, too: then 32 pairs take 2,500 steps; with all keys from the start, 4
        # pairs are not learned in 3,500.
        used = min(half - 1, max(2 * pairs, round(half * level)))
        keys = 1 + _distinct(rng, count, pairs, used)
        values = half + _distinct(rng, count, pairs, used)
        tokens = half * rng.integers(0, 2, (count, length)) + rng.integers(0, used + 1, (count, length))
        tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
        slots = (length - 2 * pairs) // 2
        likely = np.arange(1, slots + 1) ** (self.power - 1)
        gumbel = np.log(likely) - np.log(-np.log(rng.random((count, slots))))
        gaps = np.argsort(-gumbel, axis=1)[:, :pairs]  # (batch, pair): a weighted draw without replacement
        at = 2 * pairs + 2 * gaps
        # Filler must not repeat a key of the sequence: a query without a target.
        filler = tokens[:, 2 * pairs :]
        is_known = np.zeros((count, self.vocabulary), bool)
        np.put_along_axis(is_known, keys, True, axis=1)
        filler[np.take_along_axis(is_known, filler, axis=1)] = 0
        np.put_along_axis(tokens, at, keys, axis=1)
        targets, right, relations = _empty(tokens)
        np.put_along_axis(targets, at, values, axis=1)
        np.put_along_axis(right, at, np.broadcast_to(2 * np.arange(pairs) + 1, at.shape), axis=1)
        np.put_along_axis(relations, at, 0, axis=1)
        return Batch(tokens, targets, right, relations)


class Induction(Task):
    """A B … A → B: different tokens, then pieces of the same text in random order; inside a piece, the next is known.

    The task of induction heads (Olsson et al., 2022). Pieces have 2 to 6 tokens and no fixed distance to their first
    occurrence, so that only the tokens themselves lead to the answer. Two heads, one after the other, find it: at B, a
    previous-token head attends to A; then, at the second A, an induction head attends to B, where A was noted.

    >>> Induction(length=8, vocabulary=8).batch(1, seed=1).tokens
    array([[3, 1, 4, 7, 4, 7, 3, 1]])
    """

    name = "induction"
    relations = ("induction", "previous token")

    def __init__(self, length: int = 64, vocabulary: int = 64) -> None:
        if length < 8 or length % 2:
            raise errors.OptionError(f"`length` is {length}; expected an even number from 8 on.")
        if vocabulary < length // 2:
            raise errors.OptionError(f"`vocabulary` is {vocabulary}; a length of {length} needs {length // 2} or more.")
        self.length = length
        self.words = tuple(f"t{n}" for n in range(vocabulary))
        self.levels = tuple(2.0**-power for power in reversed(range(max(1, (length // 16).bit_length()))))

    def length_at(self, level: float) -> int:
        return max(8, round(self.length * level))

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        half = self.length_at(level) // 2  # lower levels are shorter and have fewer different tokens
        first = _distinct(rng, count, half, max(half, round(self.vocabulary * level)))
        order = np.stack([_pieces(rng, half) for _ in range(count)])  # (batch, half): positions in the first half
        tokens = np.concatenate([first, np.take_along_axis(first, order, axis=1)], axis=1)
        targets, right, relations = _empty(tokens)
        follows = np.zeros((count, half), bool)
        follows[:, :-1] = np.diff(order, axis=1) == 1
        at = np.concatenate([np.zeros_like(follows), follows], axis=1)
        targets[at], relations[at] = np.roll(tokens, -1, axis=1)[at], 0
        right[at] = (order + 1)[follows]
        rows, keys = np.nonzero(at)[0], right[at]
        right[rows, keys], relations[rows, keys] = keys - 1, 1
        return Batch(tokens, targets, right, relations)


def _pieces(rng: np.random.Generator, length: int) -> Integers:
    """Positions 0 to length − 1, cut into pieces of 2 to 6 that are put into random order."""
    cuts = [0]
    while length - cuts[-1] > 3:
        cuts.append(cuts[-1] + int(rng.integers(2, min(6, length - cuts[-1] - 2) + 1)))
    pieces = np.split(np.arange(length), cuts[1:])
    return np.concatenate([pieces[number] for number in rng.permutation(len(pieces))])


class Copy(Task):
    """A list of random symbols, a separator, then the same list.

    >>> copy = Copy(length=6, vocabulary=9)
    >>> copy.text(copy.batch(1, seed=0).tokens[0])
    '4 5 3 > 4 5'
    """

    name = "copy"
    relations = ("next symbol",)
    sorts: ClassVar[bool] = False

    def __init__(self, length: int = 32, vocabulary: int = 32) -> None:
        if length < 4:
            raise errors.OptionError(f"`length` is {length}; expected 4 or more.")
        self.length = length
        self.symbols = length // 2
        least = self.symbols + 1 if self.sorts else 3  # numbers to sort are all different
        if vocabulary < least:
            raise errors.OptionError(f"`vocabulary` is {vocabulary}; a length of {length} needs {least} or more.")
        self.words = (">", *(str(n) for n in range(vocabulary - 1)))

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        number = max(1, round(self.symbols * level))
        if self.sorts:
            symbols = 1 + _distinct(rng, count, number, self.vocabulary - 1)
            order = symbols.argsort(axis=1)
        else:
            symbols = rng.integers(1, self.vocabulary, (count, number))
            order = np.tile(np.arange(number), (count, 1))
        written = np.take_along_axis(symbols, order, axis=1)
        tokens = np.concatenate([symbols, np.zeros((count, 1), np.int64), written[:, :-1]], axis=1)
        targets, right, relations = _empty(tokens)  # (batch, 2 · number)
        targets[:, number:], right[:, number:], relations[:, number:] = written, order, 0
        return Batch(tokens, targets, right, relations)


class Sort(Copy):
    """A list of different numbers, then the list in ascending order.

    >>> sort = Sort(length=6, vocabulary=9)
    >>> sort.text(sort.batch(1, seed=0).tokens[0])
    '5 0 2 > 0 2'
    """

    name = "sort"
    sorts = True

    def __init__(self, length: int = 32, vocabulary: int = 64) -> None:
        super().__init__(length, vocabulary)


class Relations(Task):
    """English-like sentences in which words name their partner: an earlier word that they stand in a relation to.

    "the keys on the table belong to sarah": table → keys, sarah → keys. The relations are those of `grammar`: where,
    whose, who (subject), whom (object), when, and what "they" refers to, which only a verb decides. The test split
    scores combinations of words that no training passage contains.

    >>> relations = Relations()
    >>> relations.relations
    ('where', 'whose', 'who', 'whom', 'when', 'they = subject', 'they = object')
    """

    name = "relations"
    relations = grammar.RELATIONS
    length = grammar.LENGTH
    padding = grammar.PAD

    def __init__(self) -> None:
        self.words = grammar.WORDS

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        tokens = np.full((count, self.length), self.number_of[grammar.PAD])
        targets, right, relations = _empty(tokens)
        for row in range(count):
            start = 0
            for clause in grammar.passage(rng, held_out=split == "test"):
                numbers = [self.number_of[word] for word in clause.words]
                tokens[row, start : start + len(numbers)] = numbers
                for fact in clause.facts:
                    if split == "train" or fact.held_out:
                        query = start + fact.query_at
                        targets[row, query] = numbers[fact.key_at]
                        right[row, query] = start + fact.key_at
                        relations[row, query] = grammar.RELATIONS.index(fact.relation)
                start += len(numbers)
        return Batch(tokens, targets, right, relations)


KINDS = {
    "where": ("kitchen", "garden", "garage"),
    "whose": ("sarah", "tom", "anna"),
    "what": ("lost", "found", "sold"),
    "when": ("yesterday", "today", "tomorrow"),
}


class Facts(Task):
    """News about the keys, one word at a time: what holds now? Four questions at once, from every word.

    Each word replaces the last of its kind: where the keys are, whose, what happened, when. From the first position at
    which all four are known, the target is one token that names the latest of each kind. The latest words of four
    kinds can be anywhere: one weighted sum, whose weights depend on distance, cannot hold all four.

    >>> facts = Facts(length=8)
    >>> batch = facts.batch(1, seed=0)
    >>> facts.text(batch.tokens[0])
    'kitchen garage lost sold today tom sold found'
    >>> facts.words[batch.targets[0, -1]]
    'garage·tom·found·today'
    """

    name = "facts"
    relations = tuple(KINDS)

    def __init__(self, length: int = 24) -> None:
        validate.integer("length", length, len(KINDS))
        self.length = length
        single = tuple(word for words in KINDS.values() for word in words)
        self.words = (*single, *("·".join(words) for words in product(*KINDS.values())))

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        each = len(next(iter(KINDS.values())))
        tokens = rng.integers(0, each * len(KINDS), (count, self.length))
        kind, position = tokens // each, np.arange(self.length)
        # (batch, token, kind): where the latest word of each kind is, NONE before the first
        is_kind = kind[:, :, None] == np.arange(len(KINDS))
        latest = np.maximum.accumulate(np.where(is_kind, position[:, None], NONE), axis=1)
        is_known = (latest != NONE).all(axis=2)
        values = np.take_along_axis(tokens, latest.clip(0).reshape(count, -1), axis=1).reshape(latest.shape) % each
        joint = each * len(KINDS) + values @ each ** np.arange(len(KINDS))[::-1]
        question = (kind + rng.integers(1, len(KINDS), kind.shape)) % len(KINDS)  # of the other three kinds
        right = np.take_along_axis(latest, question[:, :, None], axis=2)[:, :, 0]
        return Batch(tokens, *(np.where(is_known, answer, NONE) for answer in (joint, right, question)))


class Text(Task):
    """The next character of a UTF-8 text file; the last tenth of the text is for testing."""

    name = "text"
    separator = ""

    def __init__(self, path: str | Path, length: int = 64) -> None:
        text = _read_text(path)
        validate.integer("length", length, 1)
        self.words = tuple(sorted(set(text)))
        self.length = length
        numbers = np.array([self.number_of[character] for character in text], np.int64)
        end = int(len(numbers) * 0.9)
        self.parts: dict[Split, Integers] = {"train": numbers[:end], "test": numbers[end:]}
        if min(map(len, self.parts.values())) < length + 1:
            raise errors.OptionError(
                f"{path} has {len(numbers):,} characters; a tenth of it must hold `length` + 1 = {length + 1}."
            )

    def _draw(self, count: int, rng: np.random.Generator, split: Split, level: float) -> Batch:
        text = self.parts[split]
        at = rng.integers(0, len(text) - self.length, count)[:, None] + np.arange(self.length + 1)
        whole = text[at]
        tokens, targets = np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:])
        _, right, relations = _empty(tokens)
        return Batch(tokens, targets, right, relations)

    def _samples(self) -> Iterator[Integers]:
        yield from self.parts.values()

    def windows(self, count: int, split: Split = "test") -> Integers:
        """`count` evenly spaced windows of length + 1 characters: the same text for every evaluation."""
        text = self.parts[split]
        start = np.linspace(0, len(text) - self.length - 1, count).astype(np.int64)
        return np.asarray(text[start[:, None] + np.arange(self.length + 1)], np.int64)


def _read_text(path: str | Path) -> str:
    text = input_file.read_text(path)
    if "\0" in text:
        raise errors.OptionError(f"{str(path)!r} is not a text: it contains NUL bytes.")
    if not text.strip():
        raise errors.OptionError(f"{str(path)!r} is empty; expected a text to learn from.")
    return text


TASKS: dict[str, type[Task]] = {task.name: task for task in (LookupTask, Relations, Facts, Induction, Copy, Sort, Text)}


def task(name: str, **options: Any) -> Task:
    """A task by its name: lookup, relations, facts, induction, copy, sort or text; or a text file, for the last one.

    >>> task("lookup", pairs=4).length
    16
    """
    if name not in TASKS:
        if not os.path.isfile(name):  # noqa: PTH113  (False, not an error, for what cannot be a path)
            hint = errors.did_you_mean(str(name), TASKS)
            raise errors.OptionError(f"`task` is {name!r}; expected one of {', '.join(TASKS)}, or a text file.{hint}")
        name, options = "text", {"path": name, **options}
    parameters = signature(TASKS[name]).parameters
    if unknown := [option for option in options if option not in parameters]:
        takes = ", ".join(parameters) or "no options"
        raise errors.OptionError(f"The task {name} has no option {', '.join(unknown)}; it takes {takes}.")
    if name == "text" and "path" not in options:
        raise errors.OptionError("The task text needs path. Give the text file instead of the word text.")
    for option in ("length", "pairs", "vocabulary"):
        if options.get(option) is not None:
            validate.integer(option, options[option], 1, MOST_TOKENS)
    return TASKS[name](**options)
