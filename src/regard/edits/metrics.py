"""What `effect` measures: numbers of a model's end, one per text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard import errors, validate
from regard.arrays import Array, chunks, numpy_of

if TYPE_CHECKING:
    from regard.reading.reader import Outcome, Reader

Numbers = NDArray[np.float64]
ROWS = 512  # tokens whose logits are computed at once


@dataclass(frozen=True, eq=False)
class Metric:
    """One number per text: `measure(reader, outcome, baseline)`, the baseline being the unchanged model's outcome."""

    name: str
    measure: Callable[[Reader, Outcome, Outcome], Numbers]
    all_logits: bool = False  # whether it reads the logits of every token

    def __repr__(self) -> str:
        return self.name


Answer = int | str | Sequence[int | str]  # a token by its text or id; or one for each prompt


def logit_difference(answer: Answer, other: Answer) -> Metric:
    """The logit of one next token minus that of another, after each prompt. A list has one token for each prompt.

    A word is its one token after a blank: "Mary" is " Mary" where the tokeniser tells them apart.

    >>> logit_difference("Mary", "John")
    logit of 'Mary' − logit of 'John'
    """
    return _of_last_logits(
        f"logit of {_named(answer)} − logit of {_named(other)}",
        lambda reader, logits: _chosen(reader, logits, answer) - _chosen(reader, logits, other),
    )


def logit(answer: Answer) -> Metric:
    """The logit of a next token after each prompt."""
    return _of_last_logits(f"logit of {_named(answer)}", lambda reader, logits: _chosen(reader, logits, answer))


def probability(answer: Answer) -> Metric:
    """The probability of a next token after each prompt."""
    return _of_last_logits(
        f"probability of {_named(answer)}",
        lambda reader, logits: np.exp(_chosen(reader, logits, answer) - _log_sums(logits)),
    )


def accuracy(answer: Answer) -> Metric:
    """1 for each prompt after which a token has the largest logit of all, otherwise 0; its mean is the accuracy."""
    return _of_last_logits(
        f"{_named(answer)} is the most likely next token",
        lambda reader, logits: np.asarray(_chosen(reader, logits, answer) >= logits.max(axis=1), np.float64),
    )


def next_token_loss() -> Metric:
    """The mean of −log p(next token) over the tokens of each text, in nats."""

    def measure(reader: Reader, outcome: Outcome, baseline: Outcome) -> Numbers:
        if outcome.logits is None:
            _last_logits(reader, outcome)
        assert outcome.logits is not None
        losses = []
        for text, ids in enumerate(outcome.ids):
            if len(ids) < 2:
                raise errors.OptionError("The loss of the next token needs texts of at least two tokens.")
            losses.append(next_token_losses(outcome, text).mean())
        return np.array(losses)

    return Metric("loss of the next token", measure, all_logits=True)


def next_token_losses(outcome: Outcome, text: int) -> Numbers:
    """−log p(next token) after every token of a text but the last."""
    ids = np.asarray(outcome.ids[text])
    losses = []
    for rows in chunks(len(ids) - 1, ROWS):
        assert outcome.logits is not None
        logits = numpy_of(outcome.logits(text, rows)).astype(np.float64)
        losses.append(_log_sums(logits) - logits[np.arange(len(logits)), ids[rows.start + 1 : rows.stop + 1]])
    return np.concatenate(losses)


def vector_distance() -> Metric:
    """How far an edit moves the vector of a text, the mean over its tokens: 1 − cosine with the unchanged vector."""

    def measure(reader: Reader, outcome: Outcome, baseline: Outcome) -> Numbers:
        vectors, unchanged = (
            np.stack([numpy_of(x).astype(np.float64).mean(0) for x in end.states]) for end in (outcome, baseline)
        )
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(unchanged, axis=1)
        distances: Numbers = 1 - (vectors * unchanged).sum(1) / np.maximum(lengths, 1e-30)
        return distances

    return Metric("1 − cosine with the unchanged text vector", measure)


def state_distance() -> Metric:
    """How far an edit moves the hidden states after the last layer: the mean of ‖h′ − h‖ / ‖h‖ over tokens."""

    def measure(reader: Reader, outcome: Outcome, baseline: Outcome) -> Numbers:
        pairs = zip(outcome.states, baseline.states, strict=True)
        return np.array([relative_change(*map(numpy_of, pair)).mean(dtype=np.float64) for pair in pairs])

    return Metric("mean of ‖h′ − h‖ / ‖h‖", measure)


def relative_change(states: Array, before: Array) -> Array:
    """‖h′ − h‖ / ‖h‖ of every token, from states (token, width)."""
    lengths = np.maximum(np.linalg.norm(before, axis=1), 1e-30)
    return np.linalg.norm(states - before, axis=1) / lengths


def token_id(reader: Reader, answer: int | str) -> int:
    """The id of a token, given by its text or id: a text must be one token of this model."""
    if validate.is_integer(answer):
        return validate.index("token", answer, reader.vocabulary)
    if not isinstance(answer, str) or not answer:
        raise errors.option("token", answer, 'a token by its text or id, such as "Mary"')
    texts = [answer] if answer.startswith(" ") else [f" {answer}", answer]
    for text in texts:
        ids = reader.tokeniser.encode(text, special=False).ids
        if len(ids) == 1:
            return int(ids[0])
    raise errors.OptionError(
        f"{answer!r} is {errors.count(len(ids), 'token')} of {reader.name}, and a next token is one: give another word "
        "or a token id."
    )


def _chosen(reader: Reader, logits: Numbers, answer: Answer) -> Numbers:
    """The logits (text, vocabulary) of one token, or of one for each text."""
    if isinstance(answer, (int, str)) or validate.is_integer(answer):
        tokens = [token_id(reader, answer)] * len(logits)  # type: ignore[arg-type]
    else:
        tokens = [token_id(reader, token) for token in answer]
    if len(tokens) != len(logits):
        raise errors.OptionError(f"There are {len(tokens)} answers for {errors.count(len(logits), 'prompt')}.")
    chosen: Numbers = logits[np.arange(len(logits)), np.array(tokens)]
    return chosen


def _of_last_logits(name: str, numbers: Callable[[Reader, Numbers], Numbers]) -> Metric:
    """A metric of the logits of the next token, (text, vocabulary)."""
    return Metric(name, lambda reader, outcome, _baseline: numbers(reader, _last_logits(reader, outcome)))


def _last_logits(reader: Reader, outcome: Outcome) -> Numbers:
    if outcome.last_logits is None:
        raise errors.unsupported(
            f"Logits of the next token with {reader.name}",
            "It is bidirectional, or has no language-model head: measure vector_distance() or state_distance().",
        )
    logits: Numbers = numpy_of(outcome.last_logits()).astype(np.float64)
    return logits


def _log_sums(logits: Numbers) -> Numbers:
    largest = logits.max(axis=1)
    sums: Numbers = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    return sums


def _named(answer: Any) -> str:
    if isinstance(answer, str) or validate.is_integer(answer):
        return repr(answer)
    return "each prompt's answer"
