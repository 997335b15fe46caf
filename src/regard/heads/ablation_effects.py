"""Ablation: silence heads, and measure what changes in the hidden states and in the loss of the next token.

A silenced head writes nothing: its rows of W_O are 0. Everything after it is computed again.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import validate
from regard.arrays import Array
from regard.errors import OptionError, Unsupported
from regard.heads.documents import TokenChunk
from regard.layers import Linear
from regard.models.forward import Packed, packed, run
from regard.tables import Column, Table

if TYPE_CHECKING:
    from regard.layers import Encoder, Transformer
    from regard.models.model import Model
    from regard.reading.reader import Reader

Numbers = NDArray[np.float64]
Head = tuple[int, int]  # layer, head

ROWS = 512  # tokens whose logits are computed at once
POINTS = 12  # of a pruning curve


def silenced(model: Model, heads: Iterable[Head]) -> Model:
    """The model with some heads, (layer, head), that write nothing.

    >>> from regard.models.model import model
    >>> minilm = model("minilm")
    >>> bool(silenced(minilm, [(2, 0)]).blocks[2].attention.w_o.weight[:, :32].any())
    False
    """
    return replace(model, transformer=without_heads(model.transformer, heads))


def without_heads(model: Transformer, heads: Iterable[Head]) -> Transformer:
    """The layers of a model with some heads, (layer, head), that write nothing."""
    by_layer: dict[int, list[int]] = {}
    blocks = list(model.encoders)
    for layer, head in heads:
        layer = validate.index("layer", layer, len(blocks))
        by_layer.setdefault(layer, []).append(validate.index("head", head, blocks[layer].attention.heads))
    for layer, chosen in by_layer.items():
        gates = np.ones(blocks[layer].attention.heads, np.float32)
        gates[chosen] = 0
        blocks[layer] = _gated(blocks[layer], gates)
    return replace(model, encoders=tuple(blocks))


def heads_named(names: str, model: Model) -> list[Head]:
    """Heads by name: 2.0,3.1 are two, 2 is all of layer 2."""
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4})?(,\s*\d{1,4}(\.\d{1,4})?)*", names, re.ASCII):
        raise OptionError(f"--silence is {names!r}; expected heads such as 2.0,3.1 (layer.head), or a layer: 2.")
    heads: list[Head] = []
    for name in names.split(","):
        layer, _, head = name.strip().partition(".")
        heads += [(int(layer), int(head))] if head else [(int(layer), each) for each in range(model.heads)]
    for layer_number, head_number in heads:
        if layer_number >= len(model.blocks) or head_number >= model.heads:
            sizes = f"{len(model.blocks)} layers × {model.heads} heads, counted from 0"
            raise OptionError(f"--silence names {layer_number}.{head_number}; {model.name} has {sizes}.")
    return heads


def silence_named(model: Reader, names: str) -> Model:
    """The model without heads that are named as in 2.0,3.1, and with a name that says so."""
    from regard.models.model import Model

    if not isinstance(model, Model):
        raise Unsupported(f"Heads are silenced in models that Regard computes itself; transformers runs {model.name}.")
    return replace(silenced(model, heads_named(names, model)), name=f"{model.name} without {names}")


def _gated(block: Encoder, gates: Any) -> Encoder:
    """The block with the output of every head multiplied by its gate, (head,)."""
    layer = block.attention
    if layer.w_o is None:
        raise Unsupported("Heads are silenced in W_O, which this layer does not have.")
    weight = layer.w_o.weight
    size = weight.shape[1] // layer.heads
    scaled = (weight.reshape(-1, layer.heads, size) * gates[:, None]).reshape(weight.shape)
    return replace(block, attention=replace(layer, w_o=Linear(scaled, layer.w_o.bias)))


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
    """A model on some documents, with the states before every block kept, so that only what changes is run again."""

    model: Model
    documents: tuple[TokenChunk, ...]
    together: Packed
    before: tuple[Array, ...]  # the input of every block
    last: Array  # hidden states at the end, normed
    loss: float | None  # mean loss of the next token

    @classmethod
    def of(cls, model: Model, documents: Sequence[TokenChunk]) -> Ablation:
        """Run the whole model once."""
        together = packed([document.ids for document in documents])  # type: ignore[misc]
        before, last = zip(*((step.given, step.result) for step in run(model.transformer, together)), strict=True)
        hidden = _normed(model.transformer, last[-1])
        loss = next_token_loss(model.transformer, together, hidden)
        return cls(model, tuple(documents), together, before, hidden, loss)

    def without(self, heads: Iterable[Head]) -> Effect:
        """Silence a head, a set of heads, or a layer."""
        chosen = tuple(heads)
        if not chosen:
            return Effect((), 0.0, None if self.loss is None else 0.0)
        changed = silenced(self.model, chosen).transformer
        first = min(layer for layer, _ in chosen)
        (step,) = deque(run(changed, self.together, first=first, states=self.before[first]), maxlen=1)
        last = _normed(changed, step.result)
        loss = next_token_loss(changed, self.together, last)
        moved = np.linalg.norm(last - self.last, axis=1) / np.maximum(np.linalg.norm(self.last, axis=1), 1e-30)
        rise = None if loss is None or self.loss is None else loss - self.loss
        return Effect(chosen, float(moved.mean(dtype=np.float64)), rise)

    def each(self, on_head: Callable[[int], None] | None = None) -> list[Effect]:
        """Every head alone, with the estimate of its effect on the loss where PyTorch is installed.

        on_head   called with the number of heads that are done
        """
        estimates, effects = self.estimates(), []
        for head in product(range(len(self.model.blocks)), range(self.model.heads)):
            estimate = None if estimates is None else float(estimates[head])
            effects.append(self.without([head])._replace(estimate=estimate))
            if on_head is not None:
                on_head(len(effects))
        return effects

    def layer(self, layer: int) -> Effect:
        """All heads of a layer."""
        return self.without([(layer, head) for head in range(self.model.heads)])

    def estimates(self) -> Numbers | None:
        """To first order, the rise of the loss without each head, (layer, head): minus its gradient by the head's gate.

        One backward pass for all heads (Michel et al., 2019). None without PyTorch, or without a next token.
        """
        if self.loss is None:
            return None
        try:
            tensors = self.model.transformer.to_torch()
        except Unsupported:
            return None
        embedded = tensors.embedding.weight
        gates = [embedded.new_ones(self.model.heads).requires_grad_() for _ in tensors.encoders]
        count = sum(len(document) - 1 for document in self.documents)
        for document in self.documents:
            if len(document) < 2:
                continue
            blocks = tuple(_gated(block, gate) for block, gate in zip(tensors.encoders, gates, strict=True))
            ids = embedded.new_tensor(document.ids.tolist()).long()
            logits = replace(tensors, encoders=blocks)(ids)[:-1].log_softmax(-1)
            (-logits.gather(1, ids[1:, None]).sum() / count).backward()
        estimates: Numbers = np.array([-gate.grad.numpy() for gate in gates], np.float64)
        return estimates

    def pruning(self, effects: Sequence[Effect], points: int = POINTS) -> list[tuple[int, Effect]]:
        """Heads kept, best first, and the effect of silencing all others; the best are those whose loss rises most.

        Without a next token, the change of the hidden states ranks them.
        """
        order = [effect.heads[0] for effect in sorted(effects, key=lambda effect: effect.order)]
        kept = sorted({round(point * len(order) / points) for point in range(points + 1)})
        return [(count, self.without(order[count:])) for count in kept]


def _normed(transformer: Transformer, states: Array) -> Array:
    return states if transformer.norm is None else transformer.norm(states)


def next_token_loss(transformer: Transformer, together: Packed, last: Array) -> float | None:
    """The mean of −log p(next token) over all tokens that have one; None without a head for it, or a causal mask."""
    if transformer.head is None or not transformer.encoders[0].attention.causal:
        return None
    with_next = np.concatenate([np.arange(span.start, span.stop - 1) for span in together.places])
    if not len(with_next):
        return None
    total = 0.0
    for first in range(0, len(with_next), ROWS):
        rows = with_next[first : first + ROWS]
        logits = np.asarray(transformer.head(last[rows]), np.float64)
        largest = logits.max(axis=1)
        normalisers = largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1))
        total += float((normalisers - logits[np.arange(len(rows)), together.ids[rows + 1]]).sum())
    return total / len(with_next)


# Tables


@dataclass(frozen=True, eq=False)
class AblationStudy:
    """What silencing the heads of a model does."""

    model: str
    loss: float | None  # of the next token, for the whole model
    effects: tuple[Effect, ...]  # of every head, or of all that were named together
    layers: tuple[Effect, ...] = ()
    curve: tuple[tuple[int, Effect], ...] = ()  # heads kept, and the effect of silencing all others

    def tables(self, rows: int | None = None) -> list[Table]:
        """Heads, layers and the pruning curve; of the first two the largest effects, so many rows of each."""
        tables = [effect_table(self.effects, self.loss, self.model, rows=rows)]
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
    if rows is not None and rows < len(ranked):
        notes.append(f"The first {rows} of {len(ranked):,}: --full shows all.")
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
