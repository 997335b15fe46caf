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
    calls: dict[int, int] = field(default_factory=dict)  # of attention, in the present forward of each module
    continues_parts: bool = False  # the present call is over a further part of the sequence of the call before
    begin: int = 0  # positions that the last self-attention was computed for: the first,
    end: int = 0  # the one after the last,
    back: int = 0  # and how many of those before it were taken back
    moved: bool = False  # whether this pass has set them
    parents: Tensor | None = None  # how the cache was reordered before this pass
    modules: list[Any] = field(default_factory=list)  # that run now, the innermost last

    def move(self, begin: int, count: int) -> None:
        """A call of self-attention, for positions from `begin` on."""
        if not self.moved or (self.begin, self.end) != (begin, begin + count):
            self.back = max(self.end - begin, 0) if begin else 0
            self.begin, self.end, self.moved = begin, begin + count, True

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
        self.sizes: dict[str, int] = {}  # of stacks
        for stack, number in self.places.values():
            self.sizes[stack] = max(self.sizes.get(stack, 0), number + 1)
        self.keep = keep
        self.model = model
        self.heads = _heads(heads)
        self.chosen = _chosen(layers)
        self.runs = runs
        self.state = Pass()
        self.thread = threading.get_ident()
        self.lock = threading.Lock()
        self.layers: dict[tuple[int, int, int], Layer] = {}  # by module, forward and call in it
        self.calls = 0  # of attention functions, watched or not
        self.forwards = 0  # of the model

    # Where a call comes from

    def enter_model(self) -> None:
        """A forward pass of the model begins."""
        state = self.state
        state.depth += 1
        self.forwards += 1
        state.moved = False
        state.forwards.clear()
        state.calls.clear()

    def leave_model(self) -> None:
        """It has ended."""
        self.state.depth -= 1

    def enter_module(self, module: Any) -> None:
        """A module begins its forward."""
        state, key = self.state, id(module)
        if not state.depth and not state.modules:  # called by itself, not by the model
            state.forwards.clear()
        state.forwards[key] = state.forwards.get(key, 0) + 1
        state.calls[key] = 0
        state.modules.append(module)

    def leave_module(self, module: Any) -> None:
        """It has ended, or failed."""
        modules = self.state.modules
        while modules and modules.pop() is not module:
            pass

    def layer_for(self, module: Any, is_part: bool = False) -> Layer:
        """The layer of this call, watched or not.

        A module that runs several times in one pass is several layers, and so are several calls in one forward of a
        module, unless they are over parts of one sequence.
        """
        state, key = self.state, id(module)
        again, call = max(state.forwards.get(key, 1) - 1, 0), state.calls.get(key, 0)
        state.calls[key] = call + 1
        state.continues_parts = bool(call) and is_part
        place = key, again, 0 if is_part else call
        with self.lock:
            self.calls += 1
            found = self.layers.get(place)
            if found is None:
                found = self._new_layer(module, place)
                self.layers[place] = found
        return found

    def _new_layer(self, module: Any, place: tuple[int, int, int]) -> Layer:
        name = self.names.get(id(module), type(module).__name__)
        stack, number = self.places.get(name, (name, 0))
        is_cross = bool(CROSS.search(name))
        if place[1:] != (0, 0):
            same = [layer.number for layer in self.layers.values() if layer.stack == stack]
            earlier = sum(key == place[0] for key, *_ in self.layers)
            number, name = max(same, default=number) + 1, f"{name} (call {earlier + 1})"
        return Layer(name, stack, number, self.heads, is_cross, self.thread if self.runs is not None else None)

    def watches(self, layer: Layer) -> bool:
        """Whether a layer is among the chosen ones."""
        if self.chosen is None:
            return True
        from fnmatch import fnmatch

        numbers = layer.number, layer.number - self.sizes.get(layer.stack, 0)  # from the first layer, from the last
        return any(fnmatch(layer.name, one) if isinstance(one, str) else one in numbers for one in self.chosen)

    def watched(self) -> list[Layer]:
        """All watched layers that were called."""
        return [layer for layer in self.layers.values() if layer.runs]

    # Recording

    def record(self, layer: Layer, call: Call, output: Tensor, computed: Computed | None) -> None:
        """One call of a watched layer, with its output (batch, query, head, value_dim)."""
        state = self.state
        before = layer.last_run(call)
        if before is not None and state.continues_parts:  # images or windows of one sequence
            self._record_part(before, layer, call, output, computed)
            return
        if call.cross:
            continues = before is not None and state.begin > 0
            if before is not None and continues and state.back:
                before.take_back(state.back)
        else:
            state.move(call.query_offset, call.queries.shape[2])
            continues = before is not None and before.continues(call)
        run = before if before is not None and continues else self._new_run(layer)
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

    def _new_run(self, layer: Layer) -> Run:
        """A run of this thread, in place of its oldest one and of those of threads that have ended."""
        me = threading.get_ident()
        run = Run(me)
        with self.lock:
            if self.runs is None:
                layer.recorded.append(run)
                return run
            alive = {self.thread, *(thread.ident for thread in threading.enumerate())}
            others = [one for one in layer.recorded if one.thread != me and one.thread in alive]
            mine = [*(one for one in layer.recorded if one.thread == me), run]
            layer.recorded = [*others, *mine[-self.runs :]]
        return run

    def _record_part(self, run: Run, layer: Layer, call: Call, output: Tensor, computed: Computed | None) -> None:
        """A further part of the sequence that the last call began."""
        call = call.of_heads(layer.heads)
        if layer.heads is not None:
            output = output[:, :, layer.heads]
        part = Run()
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
            run.received = None if run.received_problem else received
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
        recorder.record(layer, call, output, ready)
    return output, extra


def _chosen(layers: Any) -> list[Any] | None:
    """Numbers and patterns of names; None for all layers."""
    if layers is None:
        return None
    given = list(layers) if isinstance(layers, (list, tuple, set, range)) else [layers]
    if not given or not all(isinstance(one, str) or validate.is_integer(one) for one in given):
        raise errors.option("layers", layers, 'layer numbers, or patterns of module names such as "decoder.*"')
    return given


def _heads(given: Any) -> list[int] | None:
    if given is None:
        return None
    heads = [given] if isinstance(given, int) else list(given)
    if not heads or not all(validate.is_integer(head) and head >= 0 for head in heads):
        raise errors.option("heads", given, "a head or a list of heads, from 0")
    return [int(head) for head in heads]
