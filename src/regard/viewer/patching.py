"""Activation patching and the logit lens, as a page asks for them.

Activations of another text of equally many tokens are put into this one, one head or one token at a time. The effect
is a share: 0 where nothing changes, 1 where the answer is that of the other text. Where the two texts have different
most likely next tokens, the answer is the difference of their logits; otherwise it is the word's last hidden state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard import errors
from regard.arrays import numpy_of
from regard.attribution import logit_lens
from regard.edits import patch
from regard.edits.effects import measure_effects
from regard.edits.metrics import Metric
from regard.reading import Reading
from regard.reading.reader import Outcome, Reader
from regard.viewer.frames import Parts
from regard.viewer.next_token import reader_of, transformer_of

BY = ("head", "position")
LONGEST = 256  # tokens of a text that is patched, or looked at through the lens
LONGEST_TEXT = 4_000  # characters


@dataclass(frozen=True, eq=False)
class OtherText:
    """A text that activations are taken from."""

    text: str
    reading: Reading
    outcome: Outcome


def other_text(reading: Reading, text: str) -> OtherText:
    """Read a text with the model that read this one; both have equally many tokens."""
    reader = reader_of(reading)
    transformer_of(reading)  # refuses what cannot be computed again
    _check_length(reading)
    count, there = len(reading.tokens), len(reader.tokeniser.encode(text).ids)
    if count != there:
        raise errors.OptionError(
            f"The other text has {errors.count(there, 'token')}, this one {count}: activations are taken token by "
            "token, so both need equally many. Replace words by others of as many pieces."
        )
    ((_, outcome),) = reader.outcomes([text], [])
    return OtherText(text, reader.read(text), outcome)


def effects(reading: Reading, other: OtherText, by: str, layer: int, query: int, stop: Callable[[], None]) -> Parts:
    """The effect of taking one layer's activations from another text.

    by      "head": the output of each head, at all tokens, (head,); "position": the hidden state of each token before
            the layer, (token,)
    query   the token whose answer is measured
    """
    if by == "head":
        heads = reading.seen[layer].attention.shape[0]
        edits = [patch(other.reading, heads=[(layer, head)]) for head in range(heads)]
    else:
        tokens = range(len(reading.tokens))
        edits = [patch(other.reading, what="residual", layers=[layer], positions=at) for at in tokens]
    reader = reader_of(reading)
    metric, measured = _share_of_the_way(reading, other, query)

    def on_edit(_: int) -> None:
        stop()

    study = measure_effects(reader, reading.text, edits, on=metric, on_edit=on_edit)
    header = {"layer": layer, "by": by, "query": query, "measured": measured}
    return header, {"effect": np.array([effect.effect for effect in study.effects], np.float32)}


def _share_of_the_way(reading: Reading, other: OtherText, query: int) -> tuple[Metric, dict[str, Any]]:
    """0 for this text's answer, 1 for that of the other text; and what the answer is."""
    reader = reader_of(reading)
    if reader.writes:
        states = numpy_of(reading.states[-1]), numpy_of(other.reading.states[-1])
        here, there = (numpy_of(reader.next_logits(state[[query]]))[0].astype(np.float64) for state in states)
        answers = int(here.argmax()), int(there.argmax())
        if answers[0] != answers[1]:
            start, end = (float(logits[answers[1]] - logits[answers[0]]) for logits in (here, there))

            def of_logits(_reader: Reader, outcome: Outcome, _baseline: Outcome) -> Any:
                assert outcome.logits is not None
                (row,) = numpy_of(outcome.logits(0, slice(query, query + 1))).astype(np.float64)
                return np.array([(row[answers[1]] - row[answers[0]] - start) / (end - start)])

            named = [reader.tokeniser.piece(answer) for answer in answers]
            tokens = [{"text": text, "begins": begins} for text, begins in named]
            return Metric("share of the logit difference", of_logits), {"kind": "logits", "tokens": tokens}
    end_state = numpy_of(other.outcome.states[0])[query].astype(np.float64)

    def of_state(_reader: Reader, outcome: Outcome, baseline: Outcome) -> Any:
        state, start_state = (numpy_of(run.states[0])[query].astype(np.float64) for run in (outcome, baseline))
        way = end_state - start_state
        return np.array([(state - start_state) @ way / max(float(way @ way), 1e-30)])

    return Metric("share of the way to the other text's hidden state", of_state), {"kind": "state"}


def lens(reading: Reading, stop: Callable[[], None]) -> Parts:
    """The most likely next token after every layer, the embedding first: see `regard.attribution.logit_lens`.

    probability (layer + 1, token) of it; rank of the token that follows, from 0, NaN after the last
    """
    _check_length(reading)
    seen = logit_lens(reader_of(reading), reading.text, on_layer=lambda _done, _of: stop())
    rank = np.where(seen.target_rank < 0, np.nan, seen.target_rank).astype(np.float32)
    return {"tops": seen.top_texts}, {"probability": seen.probability.astype(np.float32), "rank": rank}


def _check_length(reading: Reading) -> None:
    if len(reading.tokens) > LONGEST:
        raise errors.OptionError(f"The text has {len(reading.tokens)} tokens; this is computed for at most {LONGEST}.")
    ids = [token.id for token in reading.tokens]
    if reader_of(reading).tokeniser.encode(reading.text).ids != ids:
        raise errors.OptionError("The model wrote these tokens, and the text has others: read the text again.")
