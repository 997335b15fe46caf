"""`Recorder`: takes the calls of watched layers, and decides for each who computes the output.

A layer of which only queries, keys and values are kept runs the model's own attention function, so the model computes
what it computes unwatched. Statistics ride along in one pass of Regard's engine, which then gives the output as well.
That engine also steps in where the model's own function would build an n² mask or n² weights. With dropout or
gradients the model's own function always computes the output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard import errors, validate
from regard.watch.call import Call, Computed
from regard.watch.layer import CROSS, Layer, places
from regard.watch.run import ROW_STATISTICS, Run

BEFORE_DROPOUT = "The model ran with dropout: weights are those before dropout, outputs those after."
TOP = 8  # keys of largest weight that a summary keeps for every query
CELLS = 64  # along each side of a pooled map
STATISTICS = (*ROW_STATISTICS, "top", "received", "pooled")


@dataclass(frozen=True)
class Keep:
    """What is kept of every watched layer."""

    vectors: bool  # queries, keys, values and outputs
    rows: tuple[str, ...] = ()
    top: int = 0
    received: bool = False
    pooled: bool = False

    @classmethod
    def of(cls, given: Any) -> Keep:
        """From "all", "summary" or a list of statistics."""
        if given == "all":
            return cls(vectors=True)
        if given == "summary":
            return cls(False, ROW_STATISTICS, TOP)
        if isinstance(given, str) or not isinstance(given, (list, tuple, set, frozenset)) or not given:
            expected = f'"all", "summary", or a list of {", ".join(STATISTICS)}'
            raise errors.option("keep", given, expected)
        for name in given:
            validate.choice("keep", name, STATISTICS)
        rows = tuple(name for name in ROW_STATISTICS if name in given)
        return cls(False, rows, TOP if "top" in given else 0, "received" in given, "pooled" in given)

    @property
    def statistics(self) -> bool:
        """Whether anything is computed during the pass."""
        return not self.vectors


@dataclass
class Pass(threading.local):
    """Where this thread is in the model: one forward pass of the model or of a model inside it."""

    depth: int = 0
    forwards: dict[int, int] = field(default_factory=dict)  # how often each module was called in this pass, by id
    parts: dict[int, int] = field(default_factory=dict)  # attention calls in the present call of each module
    fresh: bool = True  # the last self-attention began at position 0
    parents: Tensor | None = None  # how the cache was reordered before this pass
    modules: list[Any] = field(default_factory=list)  # that run now, the innermost last

    @property
    def innermost(self) -> Any:
        """The module that runs now; None outside of all."""
        return self.modules[-1] if self.modules else None


class Recorder:
    """The layers of one `watch`, and what they computed."""

    def __init__(
        self, names: dict[int, str], keep: Keep, layers: Any, heads: Any, runs: int | None, model: str
    ) -> None:
        self.names = names  # of all modules, by id
        self.places = places(list(names.values()))
        self.keep = keep
        self.model = model
        self.heads = _heads(heads)
        self.chosen = layers if layers is None or isinstance(layers, (list, tuple, set, range)) else [layers]
        self.runs = runs
        self.state = Pass()
        self.thread = threading.get_ident()
        self.lock = threading.Lock()
        self.layers: dict[tuple[int, int], Layer] = {}  # by module and how often it was called before in the pass
        self.calls = 0  # of attention functions, watched or not
        self.forwards = 0  # of the model

    # Where a call comes from

    def enter_model(self) -> None:
        """A forward pass of the model begins."""
        state = self.state
        state.depth += 1
        self.forwards += 1
        state.forwards.clear()
        state.parts.clear()

    def leave_model(self) -> None:
        """It has ended."""
        self.state.depth -= 1

    def enter_module(self, module: Any) -> None:
        """A module begins its forward."""
        state, key = self.state, id(module)
        state.forwards[key] = state.forwards.get(key, 0) + 1
        state.parts[key] = 0
        state.modules.append(module)

    def leave_module(self, module: Any) -> None:
        """It has ended, or failed."""
        modules = self.state.modules
        while modules and modules.pop() is not module:
            pass

    def layer_for(self, module: Any, cross: bool | None = None) -> Layer:
        """The layer of this call, watched or not."""
        state, key = self.state, id(module)
        again = max(state.forwards.get(key, 1) - 1, 0)
        with self.lock:
            self.calls += 1
            found = self.layers.get((key, again))
            if found is None:
                found = self._new_layer(module, again, cross)
                self.layers[key, again] = found
        return found

    def _new_layer(self, module: Any, again: int, cross: bool | None) -> Layer:
        name = self.names.get(id(module), type(module).__name__)
        stack, number = self.places.get(name, (name, 0))
        is_cross = bool(CROSS.search(name)) if cross is None else cross
        if again:
            same = [layer.number for layer in self.layers.values() if layer.stack == stack]
            number, name = max(same) + 1, f"{name} (call {again + 1})"
        return Layer(name, stack, number, self.heads, is_cross)

    def watches(self, layer: Layer) -> bool:
        """Whether a layer is among the chosen ones."""
        if self.chosen is None:
            return True
        from fnmatch import fnmatch

        return any(fnmatch(layer.name, one) if isinstance(one, str) else layer.number == one for one in self.chosen)

    def watched(self) -> list[Layer]:
        """All watched layers that were called."""
        return [layer for layer in self.layers.values() if layer.runs]

    # Recording

    def record(self, layer: Layer, module: Any, call: Call, output: Tensor, computed: Computed | None) -> None:
        """One call of a watched layer, with its output (batch, query, head, value_dim)."""
        state, key = self.state, id(module)
        part = state.parts.get(key, 0)
        state.parts[key] = part + 1
        if call.cross:
            continues = bool(layer.runs) and not state.fresh
        else:
            state.fresh = call.query_offset == 0
            continues = bool(layer.runs) and layer.runs[-1].continues(call)
        if part and layer.runs:  # several calls in one forward of the module: images or windows of one sequence
            self._record_part(layer, call, output, computed)
            return
        if not continues:
            layer.runs.append(Run())
            if self.runs is not None:
                del layer.runs[: -self.runs]
        run = layer.runs[-1]
        call = call.of_heads(layer.heads)
        if layer.heads is not None:
            output = output[:, :, layer.heads]
        keep = self.keep
        if keep.statistics:
            with torch.no_grad():
                self._add_statistics(run, call, computed, state.parents)
        run.add(call, output, keep.vectors, state.parents)
        if not call.cross:
            state.parents = run.parents[-1]

    def _record_part(self, layer: Layer, call: Call, output: Tensor, computed: Computed | None) -> None:
        """A further part of the sequence that the last call began."""
        call = call.of_heads(layer.heads)
        if layer.heads is not None:
            output = output[:, :, layer.heads]
        run, part = layer.runs[-1], Run()
        if self.keep.statistics:
            with torch.no_grad():
                self._add_statistics(part, call, computed, None)
        run.add_part(call, output, part, self.keep.vectors)

    def _add_statistics(self, run: Run, call: Call, computed: Computed | None, parents: Tensor | None) -> None:
        keep, call = self.keep, call.trimmed()
        if computed is None:
            computed = call.computed(call.values[..., :1], rows_of(keep, call), keep.top, keep.received)
        run.statistics.append({name: computed.rows[name] for name in rows_of(keep, call)})
        if computed.top is not None and keep.top:
            small = torch.int16 if call.keys.shape[2] < 1 << 15 else torch.int32  # most of what a summary keeps
            run.top.append((computed.top.index.to(small), computed.top.weight))
        if computed.received is not None and keep.received:
            self._add_received(run, call, computed.received, parents)
        if keep.pooled:  # of the first call only: the cells of a growing matrix would change
            cells = min(CELLS, call.queries.shape[2]), min(CELLS, call.keys.shape[2])
            run.pooled = None if run.calls else call.attention().pooled(cells)

    @staticmethod
    def _add_received(run: Run, call: Call, received: Tensor, parents: Tensor | None) -> None:
        if run.received is None:
            run.received = received
            return
        before = run.received
        parents = parents if call.cross else run._parents(call)
        if parents is not None:
            before = before[parents]
        start = 0 if call.cross else call.key_offset - run.calls[0].key_offset
        received = torch.nn.functional.pad(received, (start, 0))
        run.received = torch.nn.functional.pad(before, (0, received.shape[-1] - before.shape[-1])) + received


def rows_of(keep: Keep, call: Call) -> tuple[str, ...]:
    """The row statistics of a call; distances between the tokens of two texts have no meaning."""
    return tuple(name for name in keep.rows if name != "distance" or not call.cross)


def observed(
    recorders: Sequence[tuple[Recorder, Layer]],
    module: Any,
    call: Call,
    own: Callable[[], tuple[Tensor, Any]],
    *,
    dropout: float,
    costly: bool,
    wants_weights: bool = False,
) -> tuple[Tensor, Any]:
    """Compute the output of a call and record it.

    own      computes the output (batch, query, head, value_dim) as the model would unwatched
    costly   whether the model's own function would take n² memory
    """
    inputs = (call.queries, call.keys, call.values)
    needs_gradient = torch.is_grad_enabled() and any(one.requires_grad for one in inputs)
    replaceable = not dropout and not needs_gradient and not wants_weights
    if dropout:
        for _, layer in recorders:
            layer.notes[BEFORE_DROPOUT] = None
    wanted = [recorder.keep for recorder, layer in recorders if recorder.keep.statistics and layer.heads is None]
    computed: Computed | None = None
    if replaceable and (wanted or costly):
        trimmed = call.trimmed()
        computed = trimmed.computed(
            trimmed.values,
            tuple(dict.fromkeys(name for keep in wanted for name in rows_of(keep, call))),
            max((keep.top for keep in wanted), default=0),
            any(keep.received for keep in wanted),
        )
        output, extra = computed.output.transpose(1, 2).contiguous(), None
    else:
        output, extra = own()
    for recorder, layer in recorders:
        ready = computed if recorder.keep.statistics and layer.heads is None else None
        recorder.record(layer, module, call, output, ready)
    return output, extra


def _heads(given: Any) -> list[int] | None:
    if given is None:
        return None
    heads = [given] if isinstance(given, int) else list(given)
    if not heads or not all(validate.is_integer(head) and head >= 0 for head in heads):
        raise errors.option("heads", given, "a head or a list of heads, from 0")
    return [int(head) for head in heads]
