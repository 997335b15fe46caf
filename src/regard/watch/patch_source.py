"""What `regard.watch` has seen as a source of patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from torch import Tensor

from regard import errors
from regard.edits.sources import SourceLayer
from regard.watch.call_edits import real_keys
from regard.watch.layer import Part, WatchedLayer
from regard.watch.seen import Seen


@dataclass(frozen=True, eq=False)
class FromSeen:
    """The sequences of a batch that a watched model has read, padding left out."""

    seen: Seen

    def __repr__(self) -> str:
        return f"Seen({self.seen._recorder.model})"

    def _layer(self, layer: int, stack: str | None) -> WatchedLayer:
        if stack is None:
            return self.seen.layers[layer]
        layers = getattr(self.seen, stack) if stack in get_args(Part) else self.seen.stacks[stack]
        watched: WatchedLayer = layers[layer]
        return watched

    def texts(self) -> int:
        return int(next(iter(self.seen)).runs[-1].calls[0].batch)

    def layer(self, text: int, layer: int, stack: str | None) -> SourceLayer:
        watched = self._layer(layer, stack)
        call = watched._kept("patch").joined()
        keys = _real(real_keys(call)[text])
        queries = slice(None) if call.cross else keys
        return SourceLayer(
            call.queries[text, :, queries], call.keys[text, :, keys], call.values[text, :, keys],
            watched.output[text, :, queries],
        )  # fmt: skip

    def state(self, text: int, layer: int, stack: str | None) -> Tensor:
        watched = self._layer(layer, stack)
        states = self.seen.states_before(watched)
        if states is None:
            raise errors.OptionError(
                "The hidden states of the other run were not kept: watch it with regard.watch(model, states=True)."
            )
        real = real_keys(watched._kept("patch").joined())[text]
        return states[text, _real(real) if states.shape[1] == len(real) else slice(None)]


def _real(real: Tensor) -> slice:
    start = int(real.int().argmax())
    return slice(start, start + int(real.sum()))
