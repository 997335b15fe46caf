"""Where edits take activations from: other runs (`Reading`, `Seen`), and means over a corpus."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from regard import errors
from regard.arrays import Array, numpy_of
from regard.reading import Reading

if TYPE_CHECKING:
    from regard.reading.reader import Reader


class SourceLayer(NamedTuple):
    """What one layer computed for one text, padding left out."""

    queries: Array  # (head, token, head_dim)
    keys: Array  # (key head, token, head_dim)
    values: Array  # (key head, token, value_dim)
    outputs: Array  # (head, token, value_dim)


class PatchSource(Protocol):
    """Another run, text by text."""

    def texts(self) -> int:
        """How many texts it has; one is taken for every text of the run that is patched."""

    def layer(self, text: int, layer: int, stack: str | None) -> SourceLayer:
        """What one layer computed for a text."""

    def state(self, text: int, layer: int, stack: str | None) -> Array:
        """The hidden states before a layer, (token, width)."""


@dataclass(frozen=True, eq=False)
class FromReadings:
    """One reading for each text, or one for all."""

    readings: tuple[Reading, ...]

    def __repr__(self) -> str:
        first = repr(self.readings[0])
        return first if len(self.readings) == 1 else f"[{len(self.readings)} readings]"

    def texts(self) -> int:
        return len(self.readings)

    def _layer_index(self, reading: Reading, layer: int) -> int:
        if layer not in reading.layer_numbers:
            raise errors.OutOfRange(
                f"The other run has no layer {layer}; it has layers {_listed(reading.layer_numbers)}."
            )
        return reading.layer_numbers.index(layer)

    def layer(self, text: int, layer: int, stack: str | None) -> SourceLayer:
        reading = self.readings[text]
        index = self._layer_index(reading, layer)
        attention, values = reading.seen[index]
        outputs = reading.outputs[index] if reading.outputs else attention @ values
        return SourceLayer(attention.queries, attention.keys, values, outputs)

    def state(self, text: int, layer: int, stack: str | None) -> Array:
        reading = self.readings[text]
        if not reading.states:
            raise errors.OptionError(
                f"The other run, {reading.model}, has no hidden states to patch the residual stream with.\n"
                "Take a reading of a model that Regard computes itself, or regard.watch(model, states=True)."
            )
        return reading.states[self._layer_index(reading, layer)]


def source_of(other: Any) -> PatchSource:
    """The argument of `patch`: a reading, readings, or what `regard.watch` has seen."""
    if isinstance(other, Reading):
        return FromReadings((other,))
    if isinstance(other, (list, tuple)) and other and all(isinstance(reading, Reading) for reading in other):
        return FromReadings(tuple(other))
    watch: Any = sys.modules.get("regard.watch.patch_source")
    if watch is not None and isinstance(other, watch.Seen):
        source: PatchSource = watch.FromSeen(other)
        return source
    raise errors.option(
        "other", other, "what another run computed: a Reading, one for each text, or what regard.watch has seen"
    )


@dataclass(frozen=True, eq=False)
class Means:
    """The mean output of every head over some tokens; `mean_outputs` computes it."""

    of_layers: Mapping[int, Array]  # by layer: (head, value_dim)
    tokens: int

    def __repr__(self) -> str:
        return f"Means({len(self.of_layers)} layers, {self.tokens:,} tokens)"


def mean_outputs(model: Reader, texts: str | Sequence[str]) -> Means:
    """The mean output of every head over all tokens of some texts, for `silence(…, to=…)`.

    >>> import regard
    >>> from regard.edits import mean_outputs, silence
    >>> minilm = regard.model("minilm")
    >>> silence((5, 2), to=mean_outputs(minilm, ["The cat sat.", "A dog ran."]))
    silence((5, 2), to=Means(6 layers, 12 tokens))
    """
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not texts:
        raise errors.option("texts", texts, "at least one text")
    ids = [np.asarray(encoded.ids) for encoded in model.tokeniser.encode_many(texts)]
    sums: dict[int, Any] = {}
    for observed in model.observe(ids):
        of_layer = observed.of_layer
        if not of_layer.kept.get("in mean_outputs"):  # several groups of texts share it
            of_layer.kept["in mean_outputs"] = True
            total = numpy_of(of_layer.outputs).astype(np.float64).sum(axis=0)
            sums[of_layer.layer] = sums.get(of_layer.layer, 0) + total
    tokens = sum(map(len, ids))
    return Means({layer: (total / tokens).astype(np.float32) for layer, total in sums.items()}, tokens)


def _listed(numbers: Sequence[int]) -> str:
    return f"{numbers[0]} to {numbers[-1]}"
