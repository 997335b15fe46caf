"""Ablation: silence heads, and measure what changes in the hidden states and in the loss of the next token.

A silenced head writes nothing: `regard.edits` sets its outputs to 0, and everything after it is computed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.arrays import numpy_of
from regard.edits.edit import silence
from regard.edits.metrics import next_token_losses, relative_change
from regard.errors import OptionError, Unsupported
from regard.heads.documents import TokenChunk, batches
from regard.heads.gates import gated_states, gates_of
from regard.reading.edit import Edit, Head
from regard.reading.reader import all_heads
from regard.tables import Column, Table, omitted_rows

if TYPE_CHECKING:
    from regard.reading.reader import Outcome, Reader

AnyReader = TypeVar("AnyReader", bound="Reader")

Numbers = NDArray[np.float64]

POINTS = 12  # of a pruning curve


def silenced(model: AnyReader, heads: Iterable[Head]) -> AnyReader:
    """The model with some heads, (layer, head), that write nothing.

    >>> from regard.models.model import model
    >>> bool(silenced(model("minilm"), [(2, 0)]).read("The cat sat.").outputs[2][0].any())
    False
    """
    return model.edited(silence(*heads))


def parse_heads(names: str, option: str, model: str, layers: int, heads: int) -> list[Head]:
    """Heads by name, of a model with so many: 2.0,3.1 are two, 2 is all of layer 2."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4})?(,\s*\d{1,4}(\.\d{1,4})?)*", names, re.ASCII):
        raise OptionError(f"{option} is {names!r}; expected heads such as 2.0,3.1 (layer.head), or a layer: 2.")
    chosen: list[Head] = []
    for name in names.split(","):
        layer, _, head = name.strip().partition(".")
        chosen += [(int(layer), int(head))] if head else [(int(layer), each) for each in range(heads)]
    for layer_number, head_number in chosen:
        if layer_number >= layers or head_number >= heads:
            sizes = f"{layers} layers × {heads} heads, counted from 0"
            raise OptionError(f"{option} names {layer_number}.{head_number}; {model} has {sizes}.")
    return chosen


def heads_named(names: str, model: Reader) -> list[Head]:
    """The heads of `--silence`: 2.0,3.1 are two, 2 is all of layer 2."""
    return parse_heads(names, "--silence", model.name, len(model.block_shapes), model.heads)


def silence_named(model: AnyReader, names: str) -> AnyReader:
    """The model without heads that are named as in 2.0,3.1, and with a name that says so."""
    return model.edited(silence(*heads_named(names, model)), name=f"{model.name} without {names}")


class Effect(NamedTuple):
    """What silencing some heads does."""

    heads: tuple[Head, ...]
    hidden: float  # mean over tokens of ‖h′ − h‖ / ‖h‖, for the last hidden states
    loss: float | None  # the rise of the next token's loss, in nats; None where the model has no next token
    estimate: float | None = None  # the same to first order, from one gradient

    @property
    def order(self) -> tuple[float, tuple[Head, ...]]:
        """The largest first: by the loss, or without a next token by the hidden states."""
        return -(self.hidden if self.loss is None else self.loss), self.heads


@dataclass(frozen=True, eq=False)
class Ablation:
    """A model on some documents: what changes without some of its heads."""

    model: Reader
    documents: tuple[TokenChunk, ...]
    loss: float | None  # mean loss of the next token

    @classmethod
    def of(cls, model: Reader, documents: Sequence[TokenChunk]) -> Ablation:
        """Run the whole model once."""
        ablation = cls(model, tuple(documents), None)
        total, count = 0.0, 0
        for batch in ablation._batches():
            (_, outcome), *_ = ablation._outcomes(batch, [])
            losses = _losses(outcome)
            total, count = total + float(losses.sum()), count + len(losses)
        return replace(ablation, loss=total / count if count else None)

    def _batches(self) -> list[list[TokenChunk]]:
        """The documents in groups that are computed together: memory does not grow with the corpus."""
        return [[self.documents[index] for index in batch] for batch in batches(self.documents)]

    def _outcomes(self, documents: Sequence[TokenChunk], edits: Sequence[Edit]) -> Iterator[tuple[int, Outcome]]:
        return self.model.outcomes(
            [document.ids.tolist() for document in documents], edits, all_logits=self.model.writes
        )

    def effects(self, sets: Sequence[Sequence[Head]], on_set: Callable[[int], None] | None = None) -> list[Effect]:
        """Silence each of several sets of heads; layers before the first that is changed are not computed again.

        on_set   called with the number of sets that are done
        """
        effects = [Effect((), 0.0, None if self.loss is None else 0.0)] * len(sets)
        chosen = [index for index, heads in enumerate(sets) if heads]
        edits = [silence(*sets[index]) for index in chosen]
        moved, losses, tokens, targets = np.zeros(len(chosen)), np.zeros(len(chosen)), 0, 0
        groups = self._batches()
        for group, documents in enumerate(groups):
            tokens += sum(map(len, documents))
            before: Any = None
            for done, (number, outcome) in enumerate(self._outcomes(documents, edits)):
                last, of_tokens = np.concatenate([numpy_of(x) for x in outcome.states]), _losses(outcome)
                if number < 0:
                    before, targets = last, targets + len(of_tokens)
                    continue
                moved[number] += relative_change(last, before).sum(dtype=np.float64)
                losses[number] += of_tokens.sum()
                if on_set is not None:
                    on_set((group * len(chosen) + done) // len(groups))
        for number, index in enumerate(chosen):
            rise = None if self.loss is None else float(losses[number] / targets) - self.loss
            effects[index] = Effect(tuple(sets[index]), float(moved[number] / tokens), rise)
        return effects

    def without(self, heads: Iterable[Head]) -> Effect:
        """Silence a head, a set of heads, or a layer."""
        return self.effects([tuple(heads)])[0]

    def each(self, on_head: Callable[[int], None] | None = None) -> list[Effect]:
        """Every head alone, with the estimate of its effect on the loss where PyTorch is installed.

        on_head   called with the number of heads that are done
        """
        estimates = self.estimates()
        heads = all_heads(self.model)
        effects = self.effects([(head,) for head in heads], on_head)
        if estimates is None:
            return effects
        return [effect._replace(estimate=float(estimates[head])) for effect, head in zip(effects, heads, strict=True)]

    def layers(self) -> list[Effect]:
        """All heads of each layer."""
        count = range(len(self.model.block_shapes))
        return self.effects([tuple((layer, head) for head in range(self.model.heads)) for layer in count])

    def estimates(self) -> Numbers | None:
        """To first order, the rise of the loss without each head, (layer, head): minus its gradient by the head's gate.

        One backward pass for all heads (Michel et al., 2019). None without PyTorch, or without a next token.
        """
        if self.loss is None or self.model.transformer is None:
            return None
        try:
            tensors = self.model.transformer.to_torch()
        except Unsupported:
            return None
        assert tensors.head is not None
        gates = gates_of(tensors)
        count = sum(len(document) - 1 for document in self.documents)
        for document in self.documents:
            if len(document) < 2:
                continue
            ids = tensors.embedding.weight.new_tensor(document.ids.tolist()).long()
            logits = tensors.head(gated_states(tensors, ids, gates)[:-1]).log_softmax(-1)
            (-logits.gather(1, ids[1:, None]).sum() / count).backward()
        estimates: Numbers = np.array([-gate.grad.numpy() for gate in gates], np.float64)
        return estimates

    def pruning(self, effects: Sequence[Effect], points: int = POINTS) -> list[tuple[int, Effect]]:
        """Heads kept, best first, and the effect of silencing all others; the best are those whose loss rises most.

        Without a next token, the change of the hidden states ranks them.
        """
        order = [effect.heads[0] for effect in sorted(effects, key=lambda effect: effect.order)]
        kept = sorted({round(point * len(order) / points) for point in range(points + 1)})
        return list(zip(kept, self.effects([order[count:] for count in kept]), strict=True))


def _losses(outcome: Outcome) -> Numbers:
    """−log p(next token) of all tokens that have one; empty where the model gives none."""
    long = [text for text, ids in enumerate(outcome.ids) if len(ids) > 1]
    if outcome.logits is None or not long:
        return np.zeros(0)
    return np.concatenate([next_token_losses(outcome, text) for text in long])


# Tables


@dataclass(frozen=True, eq=False)
class AblationStudy:
    """What silencing the heads of a model does."""

    model: str
    loss: float | None  # of the next token, for the whole model
    effects: tuple[Effect, ...]  # of every head, or of all that were named together
    layers: tuple[Effect, ...] = ()
    curve: tuple[tuple[int, Effect], ...] = ()  # heads kept, and the effect of silencing all others
    size: tuple[int, int] | None = None  # texts and tokens that were read

    def tables(self, rows: int | None = None) -> list[Table]:
        """Heads, layers and the pruning curve; of the first two the largest effects, so many rows of each."""
        tables = [effect_table(self.effects, self.loss, self.model, rows=rows)]
        if self.size is not None:
            texts, tokens = self.size
            read = f"Baseline: the whole model; {errors.count(texts, 'text')}, {errors.count(tokens, 'token')}."
            tables[0] = replace(tables[0], notes=(*tables[0].notes, read))
        if self.curve:
            tables.append(effect_table(self.layers, self.loss, self.model, "layers", rows=rows))
            tables.append(pruning_table(self.curve, self.loss, self.model))
        return tables


def effect_table(
    effects: Sequence[Effect], loss: float | None, model: str, what: str = "heads", *, rows: int | None = None
) -> Table:
    """Heads, or layers, by the size of their effect, largest first."""
    ranked = sorted(effects, key=lambda effect: effect.order)
    cells = [(name_of(effect.heads), *effect[1:]) for effect in ranked[:rows]]
    columns = [Column("silenced", "word"), Column("hidden state", "number", 4)]
    notes = ["hidden state: mean of ‖h′ − h‖ / ‖h‖ over tokens, after the last layer."]
    if loss is not None:
        columns.append(Column("loss", "number", 4))
        notes.append(f"loss: rise of the next token's loss in nats; the whole model's is {loss:.4f}.")
        if any(effect.estimate is not None for effect in effects):
            columns.append(Column("first order", "number", 4))
            notes.append("first order: the rise estimated from one gradient, for comparison.")
    notes += omitted_rows(rows, len(ranked))
    shown = tuple(row[: len(columns)] for row in cells)
    return Table(f"Effect of silencing {what} of {model}", tuple(columns), shown, tuple(notes))


def pruning_table(curve: Sequence[tuple[int, Effect]], loss: float | None, model: str) -> Table:
    """Loss over the number of heads kept."""
    rows = [
        (count, effect.hidden, *([] if loss is None or effect.loss is None else [loss + effect.loss]))
        for count, effect in curve
    ]
    columns = [Column("heads kept", "number", 0), Column("hidden state", "number", 3)]
    columns += [] if loss is None else [Column("loss", "number", 3)]
    return Table(f"Pruning {model}: the most important heads are kept", tuple(columns), tuple(rows))


def name_of(heads: Sequence[Head]) -> str:
    """2.0, or several of them."""
    if len(heads) > 4:
        layers = {layer for layer, _ in heads}
        return f"layer {next(iter(layers))}" if len(layers) == 1 else f"{len(heads)} heads"
    return ", ".join(f"{layer}.{head}" for layer, head in heads)
