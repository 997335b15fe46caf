"""What the model that read a text computes again: next tokens, changes and where they arrive, patching, the lens.

A change silences heads, blocks an edge of the attention matrix, or alters one head's divisor, temperature or mask;
everything after it is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard import errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.attribution import logit_lens
from regard.edits import patch
from regard.edits.edit import block, silence
from regard.edits.effects import measure_effects
from regard.edits.layer_edits import RunEdits
from regard.edits.metrics import Metric
from regard.edits.texts import TextSpan
from regard.layers import Heads, MultiHead, Transformer
from regard.layers.encoder import result_of
from regard.masks import causal
from regard.models.forward import packed, run
from regard.reading import Reading
from regard.reading.edit import Edit
from regard.reading.reader import Outcome, Reader
from regard.reading.weights import WordWeights
from regard.viewer import params
from regard.viewer.frames import Parts

NAMED = 200  # of the most likely tokens, whose texts are sent
LONGEST = 2048  # tokens of a text whose layers are computed again
ROWS = 256  # tokens whose logits are computed at once
MASKS = ("model", "none", "causal")


@dataclass(frozen=True)
class Changes:
    """What is changed: silenced heads and blocked edges, and one head's divisor, temperature and mask."""

    edits: tuple[Edit, ...] = ()
    layer: int = 0
    head: int = 0
    divisor: float | None = None
    temperature: float = 1.0
    mask: str = "model"

    @property
    def of_head(self) -> bool:
        """Whether one head attends differently."""
        return self.divisor is not None or self.temperature != 1.0 or self.mask != "model"

    @property
    def first(self) -> int | None:
        """The first layer that is changed; None without a change."""
        layers = [min(edit.layers) if edit.layers else 0 for edit in self.edits]
        return min([*layers, *([self.layer] if self.of_head else [])], default=None)


def reader_of(reading: Reading) -> Reader:
    """The model that read the text."""
    if reading.reader is None:
        raise errors.Unsupported("The model that read this text is not at hand: read the text again.")
    return reading.reader


def transformer_of(reading: Reading) -> Transformer:
    """The layers of the model that read the text."""
    transformer = reader_of(reading).transformer
    if reading.is_edited:
        raise errors.unsupported(f"Computing layers of {reading.model} again", "Read the text without the edit.")
    if transformer is None:
        raise errors.unsupported(
            f"Computing layers of {reading.model} again", "Read the text with a model that Regard computes itself."
        )
    return transformer


def changes_of(reading: Reading, values: Mapping[str, Any]) -> Changes:
    """The changes that a page asks for, checked."""
    layer = params.place("layer", values.get("layer", 0), reading.layers)
    heads = reading.seen[layer].attention.shape[0]
    silenced = _head_pairs(reading, "silenced", values.get("silenced", []))
    edits = (silence(*silenced),) if silenced else ()
    blocked = values.get("blocked")
    divisor = values.get("divisor")
    return Changes(
        edits if blocked is None else (*edits, _blocked_edge(reading, blocked)),
        layer,
        params.place("head", values.get("head", 0), heads),
        None if divisor is None else validate.number("divisor", divisor, above=0),
        validate.number("temperature", values.get("temperature", 1.0), above=0),
        params.word("mask", values.get("mask"), MASKS),
    )


def _head_pairs(reading: Reading, name: str, pairs: Any) -> list[tuple[int, int]]:
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise errors.option(name, pairs, "a list of [layer, head]")
    heads = []
    for pair in pairs:
        layer = params.place(name, pair[0], reading.layers)
        heads.append((layer, params.place(name, pair[1], reading.seen[layer].attention.shape[0])))
    return sorted(set(heads))


def _blocked_edge(reading: Reading, content: Any) -> Edit:
    """The tokens of one word may not attend to those of another, in some layers, in some heads, or everywhere."""
    edge = params.parameters(content, ("queries", "keys", "layers", "heads"))
    count = len(reading.tokens)
    queries, keys = (params.places(name, edge.get(name), count) for name in ("queries", "keys"))
    if edge.get("heads") is not None:
        heads = _head_pairs(reading, "heads", edge["heads"])
        return block(queries=queries, keys=keys, heads=heads)
    layers = None if edge.get("layers") is None else params.places("layers", edge["layers"], reading.layers)
    return block(queries=queries, keys=keys, layers=layers)


def likelihood(reading: Reading, stop: Callable[[], None]) -> Parts:
    """How likely the model found each token after those before it: probability and rank, from 0; the first has none."""
    model, states = reader_of(reading), numpy_of(reading.states[-1])
    ids = [token.id for token in reading.tokens]
    count = len(ids)
    numbers = np.full((2, count), np.nan, np.float32)
    for first in range(0, count - 1, ROWS):
        stop()
        rows = slice(first, min(first + ROWS, count - 1))
        logits = numpy_of(model.next_logits(states[rows])).astype(np.float64)
        of_next = logits[np.arange(len(logits)), ids[rows.start + 1 : rows.stop + 1]][:, None]
        top = logits.max(axis=1, keepdims=True)
        columns = slice(rows.start + 1, rows.stop + 1)
        numbers[0, columns] = (np.exp(of_next - top) / np.exp(logits - top).sum(axis=1, keepdims=True))[:, 0]
        numbers[1, columns] = (logits > of_next).sum(axis=1)
    return {}, {"probability": numbers[0], "rank": numbers[1]}


def flow(reading: Reading, changes: Changes, query: int, stop: Callable[[], None], word: slice | None = None) -> Parts:
    """How far a change moves one token's vector after every layer; and where the model writes, the next token.

    moved (layer + 1,): ‖h′ − h‖ / ‖h‖ of the embedding and after each layer.
    weight (layer, head, word): with `word`, its weights in every layer from the first that is changed; NaN for heads
    that a layer does not have.
    """
    if len(reading.tokens) > LONGEST:
        raise errors.OptionError(
            f"The text has {len(reading.tokens):,} tokens; changes are followed through texts of at most {LONGEST:,}."
        )
    if word is not None and changes.of_head:
        raise errors.OptionError("Weights after a change are computed for silenced heads and blocked edges only.")
    states, attentions = _run_changed(reading, changes, stop)
    moved = []
    for before, after in zip(reading.states, states, strict=True):
        before_row, other = (numpy_of(rows)[query].astype(np.float64) for rows in (before, after))
        moved.append(float(np.linalg.norm(other - before_row)) / max(float(np.linalg.norm(before_row)), 1e-30))
    answer: Parts = ({"query": query}, {})
    if reader_of(reading).writes:
        answer = next_token(reading, query, states[-1])
    arrays = {**answer[1], "moved": np.array(moved, np.float32)}
    if word is None:
        return answer[0], arrays
    most = max((attention.shape[0] for attention in attentions), default=0)
    rows = np.full((len(attentions), most, len(reading.words)), np.nan, np.float32)
    weights = WordWeights(tuple(attentions), reading.words)
    for index, attention in enumerate(attentions):
        stop()
        rows[index, : attention.shape[0]] = weights.row(word, index, range(attention.shape[0]))
    layers = list(range(reading.layers - len(attentions), reading.layers))
    return {**answer[0], "layers": layers}, {**arrays, "weight": rows}


def _run_changed(reading: Reading, changes: Changes, stop: Callable[[], None]) -> tuple[list[Array], list[Attention]]:
    """The states after every layer, and the attentions, computed again from the first layer that is changed."""
    first = changes.first
    if first is None:
        return list(reading.states), []
    model = transformer_of(reading)
    text = TextSpan(0, 0, 0, len(reading.tokens), lambda: reading.words)
    edit = RunEdits(changes.edits, (text,))
    together = packed([[token.id for token in reading.tokens]])
    states, attentions, at = list(reading.states[: first + 1]), [], first
    if changes.of_head:
        for step in run(model, together, changes.layer, first=at, states=states[-1], edit=edit):
            stop()
            states.append(step.result)
        encoder = model.encoders[changes.layer]
        states.append(result_of(encoder.observe(states[-1], attend=_attend_changed(changes, edit))))
        at = changes.layer + 1
    for layer, step in enumerate(run(model, together, first=at, states=states[-1], edit=edit), at):
        stop()
        states.append(step.result)
        attentions.append(step.seen(model.encoders[layer].attention, together.spans[0]).attention)
    return states, attentions


def _attend_changed(changes: Changes, edit: RunEdits) -> Callable[[MultiHead, Array], Heads]:
    def attend(layer: MultiHead, x: Array) -> Heads:
        attention, values = layer.attention(x)
        outputs = np.array(attention @ values)
        group = attention.shape[0] // len(values)
        changed = changed_head(attention.select(head=changes.head), changes)
        outputs[changes.head] = changed @ values[changes.head // group]
        if edit.touches(changes.layer):
            edit.of_call(changes.layer, layer.look(attention.queries[None], attention.keys[None]), values[None]).apply(
                outputs[None]
            )
        return Heads(layer.concatenate(outputs), None)

    return attend


def changed_head(attention: Attention, changes: Changes) -> Attention:
    """One head's attention with another divisor, temperature or mask; the temperature divides what softmax gets."""
    scale = attention.scores.scale if changes.divisor is None else 1 / changes.divisor
    if changes.temperature != 1.0 and (attention.softcap is not None or attention.bias is not None):
        raise errors.unsupported("A temperature for scores with a bias or a softcap", "Change the divisor instead.")
    mask = {"model": attention.mask, "none": None, "causal": causal()}[changes.mask]
    return replace(attention, scale=scale / changes.temperature, mask=mask)


def next_token(reading: Reading, query: int, states: Array | None = None) -> Parts:
    """The logits of the token after one position, largest first, and the texts of the most likely tokens.

    states   of all tokens after the last layer, where they are not those of the reading
    """
    model, last = reader_of(reading), numpy_of(reading.states[-1] if states is None else states)
    logits = numpy_of(model.next_logits(last[query][None]))[0].astype(np.float32)
    order = np.argsort(-logits, kind="stable")
    follows = query + 1 < len(reading.tokens)
    rank = int(np.nonzero(order == reading.tokens[query + 1].id)[0][0]) if follows else None
    named = [*order[:NAMED].tolist(), *([reading.tokens[query + 1].id] if follows else [])]
    pieces = [model.tokeniser.piece(number) for number in named]
    header = {
        "query": query,
        "tokens": [{"text": text, "begins": begins} for text, begins in pieces[: min(NAMED, len(order))]],
        "ids": order[:NAMED].tolist(),
        "follows": {"text": pieces[-1][0], "begins": pieces[-1][1], "rank": rank} if follows else None,
    }
    return header, {"logits": logits[order]}


# Activation patching and the logit lens
#
# Activations of another text of equally many tokens are put into this one, one head or one token at a time. The effect
# is a share: 0 where nothing changes, 1 where the answer is that of the other text. Where the two texts have different
# most likely next tokens, the answer is the difference of their logits; otherwise it is the word's last hidden state.

BY = ("head", "position")
MOST_PATCHED = 256  # tokens of a text that is patched, or looked at through the lens
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
    if len(reading.tokens) > MOST_PATCHED:
        raise errors.OptionError(
            f"The text has {len(reading.tokens)} tokens; this is computed for at most {MOST_PATCHED}."
        )
    ids = [token.id for token in reading.tokens]
    if reader_of(reading).tokeniser.encode(reading.text).ids != ids:
        raise errors.OptionError("The model wrote these tokens, and the text has others: read the text again.")
