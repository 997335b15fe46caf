"""Generated prompts, each with the token that should follow and one that should not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from regard import errors, validate
from regard.reading.reader import Reader

WOMEN = ("Mary", "Anna", "Sarah", "Emma", "Laura", "Julia", "Alice", "Lisa", "Kate", "Jane", "Helen", "Susan")
MEN = ("John", "Tom", "James", "David", "Peter", "Paul", "Mark", "Jack", "Daniel", "Robert", "Michael", "George")
PLACES = ("store", "park", "school", "office", "station", "beach", "library", "market", "garden", "hospital")
THINGS = ("drink", "book", "ring", "letter", "ball", "key", "gift", "hat", "camera", "ticket")
# No template begins with a name: without a token that begins a text, the first one serves as the attention sink, and a
# name there is mostly lost. "Mary smiled because" gives SmolLM2 no pronoun of her gender, "My friend Mary" does.
IOI_TEMPLATES = (
    "When {a} and {b} went to the {place}, {s} gave a {thing} to",
    "After {a} and {b} arrived at the {place}, {s} handed a {thing} to",
    "While {a} and {b} were at the {place}, {s} offered a {thing} to",
    "Then {a} and {b} had a long talk at the {place}, and {s} gave a {thing} to",
    "When {a} and {b} got a {thing} at the {place}, {s} decided to give it to",
    "Afterwards, {a} and {b} went to the {place}. {s} gave a {thing} to",
)
PRONOUN_TEMPLATES = (
    "My friend {name} lives near the {place}, and",
    "Yesterday {name} called from the {place} to say that",
    "This is {name}. Yesterday at the {place}",
    "We met {name} at the {place}, where",
)
NOUNS = (
    ("key", "keys"), ("picture", "pictures"), ("door", "doors"), ("car", "cars"), ("teacher", "teachers"),
    ("doctor", "doctors"), ("girl", "girls"), ("dog", "dogs"), ("friend", "friends"), ("window", "windows"),
)  # fmt: skip
AGREEMENT_TEMPLATES = (
    "The {subject} near the {other}",
    "The {subject} behind the {other}",
    "The {subject} of the {other}",
)
VERBS = ((" is", " are"), (" was", " were"))
WORDS = (
    "apple", "river", "house", "green", "music", "stone", "paper", "light", "horse", "winter", "table", "bread",
    "cloud", "glass", "train", "market", "silver", "garden", "water", "school", "yellow", "mountain", "letter", "king",
)  # fmt: skip
PERIOD = 12  # words before the sequence is repeated
MOST_PIECES = 4096  # of a vocabulary that are looked at for words


class Prompt(NamedTuple):
    """A text, the token that should follow it, and one that should not."""

    text: str
    answer: str
    other: str


def indirect_objects(reader: Reader, count: int = 100, seed: int = 0) -> list[Prompt]:
    """Two people, one of whom acts: the other is the indirect object, as in Wang et al. (2022)."""
    names = single_tokens(reader, (*WOMEN, *MEN))

    def draw(generator: np.random.Generator) -> Prompt:
        a, b = (names[index] for index in generator.permutation(len(names))[:2])
        template, location, thing = (_pick(generator, options) for options in (IOI_TEMPLATES, PLACES, THINGS))
        subject, answer = (a, b) if generator.random() < 0.5 else (b, a)
        return Prompt(template.format(a=a, b=b, s=subject, place=location, thing=thing), f" {answer}", f" {subject}")

    return _distinct(draw, count, seed)


def pronouns(reader: Reader, count: int = 100, seed: int = 0) -> list[Prompt]:
    """A person's name, and then the pronoun that fits it."""
    genders = [single_tokens(reader, names) for names in (WOMEN, MEN)]

    def draw(generator: np.random.Generator) -> Prompt:
        gender = int(generator.integers(2))
        name = _pick(generator, genders[gender])
        template, location = _pick(generator, PRONOUN_TEMPLATES), _pick(generator, PLACES)
        answer, other = ((" she", " he"), (" he", " she"))[gender]
        return Prompt(template.format(name=name, place=location), answer, other)

    return _distinct(draw, count, seed)


def number_agreement(reader: Reader, count: int = 100, seed: int = 0) -> list[Prompt]:
    """A subject and a noun of the other number between it and the verb: "The key near the doors" is, not are."""

    def draw(generator: np.random.Generator) -> Prompt:
        subject, other = (NOUNS[index] for index in generator.permutation(len(NOUNS))[:2])
        number = int(generator.integers(2))
        template, verb = _pick(generator, AGREEMENT_TEMPLATES), VERBS[int(generator.integers(len(VERBS)))]
        return Prompt(
            template.format(subject=subject[number], other=other[1 - number]), verb[number], verb[1 - number]
        )  # fmt: skip

    return _distinct(draw, count, seed)


class Repeated(NamedTuple):
    """Words, then some of them again: the word after the first occurrence of the last one should follow."""

    text: str
    answer: str
    other: str
    corrupted: str  # the same text with another word where the last one occurred first
    at: int  # where that is, among the words


AnyPrompt = TypeVar("AnyPrompt", Prompt, Repeated)


def induction(reader: Reader, count: int = 100, seed: int = 0) -> list[Prompt]:
    """Words in random order, repeated up to some word: the word that followed it should follow again."""
    return [Prompt(prompt.text, prompt.answer, prompt.other) for prompt in repeated_words(reader, count, seed)]


def repeated_words(reader: Reader, count: int = 100, seed: int = 0) -> list[Repeated]:
    """The prompts of `induction`, each with a text in which the answer cannot be looked up.

    A model that has not learned these words, such as one of `regard train induction`, reads words of its own
    vocabulary, as many as can be repeated.
    """
    words, period = _single(reader, WORDS), PERIOD
    if len(words) <= PERIOD:
        pieces = [reader.tokeniser.piece(number)[0] for number in range(min(reader.vocabulary, MOST_PIECES))]
        words = single_tokens(reader, [piece for piece in dict.fromkeys(pieces) if piece.isalnum()])
        period = min(reader.longest // 2, len(words) - 1)

    def draw(generator: np.random.Generator) -> Repeated:
        *chosen, replacement = [words[index] for index in generator.permutation(len(words))[: period + 1]]
        at = int(generator.integers(2, period - 1))
        answer = chosen[at + 1]
        others = [word for word in chosen[: at + 1] if word != answer]
        other = _pick(generator, others)
        corrupted = [*chosen[:at], replacement, *chosen[at + 1 :], *chosen[: at + 1]]
        return Repeated(
            " " + " ".join([*chosen, *chosen[: at + 1]]), f" {answer}", f" {other}", " " + " ".join(corrupted), at
        )  # fmt: skip

    return _distinct(draw, count, seed)


def single_tokens(reader: Reader, words: Sequence[str]) -> list[str]:
    """Those words that are one token after a space, a token of their own: unknown words share one."""
    single = _single(reader, words)
    if len(single) < 4:
        raise errors.unsupported(
            f"Prompts for {reader.name}, for which only {len(single)} of {len(words)} words are single tokens,",
            "Use a model with a larger vocabulary, such as smollm2.",
        )
    return single


def _single(reader: Reader, words: Sequence[str]) -> list[str]:
    ids = {word: tuple(reader.tokeniser.encode(f" {word}", special=False).ids) for word in words}
    spelled = list(ids.values())
    return [word for word in words if len(ids[word]) == 1 and spelled.count(ids[word]) == 1]


def _pick(generator: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(generator.integers(len(options)))]


def _distinct(draw: Callable[[np.random.Generator], AnyPrompt], count: int, seed: int) -> list[AnyPrompt]:
    """`count` prompts, no two alike."""
    count = validate.integer("prompts", count, 2)
    generator, prompts = np.random.default_rng(seed), dict[str, AnyPrompt]()
    for prompt in _draws(draw, generator, 100 * count):
        prompts.setdefault(prompt.text, prompt)
        if len(prompts) == count:
            return list(prompts.values())
    raise errors.option("prompts", count, f"at most {len(prompts)}: there are no more distinct ones")


def _draws(
    draw: Callable[[np.random.Generator], AnyPrompt], generator: np.random.Generator, most: int
) -> Iterator[AnyPrompt]:
    for _ in range(most):
        yield draw(generator)
