"""`Recorder`: takes the calls of watched layers, and decides for each who computes the output.

A layer of which only queries, keys and values are kept runs the model's own attention function, so the model computes
what it computes unwatched. Statistics ride along in one pass of Regard's engine, which then gives the output as well.
That engine also steps in where PyTorch's function would need an n² mask. With dropout or gradients, in training and in
eager models the model's own function always computes the output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from regard import errors, validate
from regard.edits.layer_edits import LayerEdits
from regard.engines.interface import ROW_STATISTICS
from regard.watch.call import Call, Computed
from regard.watch.call_edits import EDITED, ResidualHooks, WatchEdits, changes_weights
from regard.watch.call_frames import (
    THREAD,
    Marks,
    Running,
    arguments_of,
    is_alive,
    keys_come_from_elsewhere,
    owner,
    running_modules,
)
from regard.watch.layer import CROSS, WatchedLayer, stack_numbers
from regard.watch.run import Run
from regard.watch.tokens_seen import TokensSeen

BEFORE_DROPOUT = "The model ran with dropout: weights are those before dropout, outputs those after."
UNOBSERVED = "passes in other threads were seen by transformers' interface only"
TOP = 8  # keys of largest weight that a summary keeps for every query
CELLS = 64  # along each side of a pooled map
STATISTICS = (*ROW_STATISTICS, "top", "column_sums", "pooled")


@dataclass(frozen=True)
class Keep:
    """What is kept of every watched layer."""

    vectors: bool  # queries, keys, values and outputs
    rows: tuple[str, ...] = ()
    top: int = 0
    column_sums: bool = False
    pooled: bool = False
    nothing: bool = False  # the model is only edited

    @classmethod
    def of(cls, given: Any) -> Keep:
        """From "all", "summary" or a list of statistics; None keeps nothing."""
        if given is None:
            return cls(False, nothing=True)
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
        return cls(False, rows, TOP if "top" in given else 0, "column_sums" in given, "pooled" in given)

    @property
    def statistics(self) -> bool:
        """Whether anything is computed during the pass."""
        return not self.vectors


@dataclass
class Position:
    """Where a thread or task is in the text that it reads."""

    continues_parts: bool = False  # the present call is over a further part of the sequence of the call before
    begin: int = 0  # positions that the last self-attention was computed for: the first,
    end: int = 0  # the one after the last,
    back: int = 0  # and how many of those before it were taken back
    moved: bool = False  # whether this pass has set them
    parents: Tensor | None = None  # how the cache was reordered before this pass
    forward: int = 0  # the present forward of the outermost module
    models: frozenset[int] = frozenset()  # ids of the models that run

    def move(self, begin: int, count: int) -> None:
        """A call of self-attention, for positions from `begin` on."""
        if not self.moved or (self.begin, self.end) != (begin, begin + count):
            self.back = max(self.end - begin, 0) if begin else 0
            self.begin, self.end, self.moved = begin, begin + count, True


@dataclass(eq=False)
class ModuleCall:
    """What a recorder knows of one call of a module, as long as it runs."""

    number: int  # of all calls of modules that this recorder saw
    repeat: int | None = None  # how often the module ran before in the same pass
    attentions: int = 0  # computed in this call so far
    repeats: dict[int, int] = field(default_factory=dict)  # of modules inside, by id
    has_read: bool = False  # whether its token ids were looked at
    unseen_calls: dict[int, ModuleCall] = field(default_factory=dict)  # of modules that have no frame: compiled ones


@dataclass
class Count:
    """How many attentions a module computed."""

    ran: int = 0
    recorded: int = 0
    unchosen: int = 0  # of layers that were not to be recorded
    reasons: dict[str, None] = field(default_factory=dict)  # why others were not recorded

    @property
    def unseen(self) -> int:
        """How many were to be recorded and were not."""
        return self.ran - self.recorded - self.unchosen


class Recorder:
    """The layers of one `watch`, and what they computed."""

    def __init__(
        self,
        names: dict[int, str],
        keep: Keep,
        layers: Any,
        heads: Any,
        runs: int | None,
        model: str,
        roots: frozenset[int] = frozenset(),
        edits: WatchEdits | None = None,
    ) -> None:
        self.names = names  # of all modules, by id
        self.roots = roots  # ids of the model and of complete models inside it, whose forward is one pass
        self.numbers_of = stack_numbers(tuple(names.values()))
        self.sizes: dict[str, int] = {}  # of stacks
        for stack, number in self.numbers_of.values():
            self.sizes[stack] = max(self.sizes.get(stack, 0), number + 1)
        self.keep = keep
        self.model = model
        self.heads = _heads(heads)
        self.chosen = [] if keep.nothing else _chosen(layers)
        self.runs = runs
        self.owner = owner()
        self.lock = threading.Lock()
        self.positions: dict[tuple[int, int], Position] = {}  # by thread and task
        self.numbers = count(1)  # of calls of modules
        self.loose: Marks = {}  # of attention that no running module calls
        self.layers: dict[tuple[int, int, int], WatchedLayer] = {}  # by module, forward and call in it
        self.counts: dict[str, Count] = {}  # of attentions, watched or not, by module name
        self.has_run = False  # whether the model, or a part of it, was called
        self.was_called = False  # whether that was a model, when the first function of PyTorch was
        self.tokens = TokensSeen()
        self.notes: dict[str, None] = {}  # what could not be observed
        self.file: str | None = None  # the name of the file it was loaded from
        self.edits = edits or WatchEdits(None, None, torch.nn.Module())
        self.residual: ResidualHooks | None = None

    @property
    def state(self) -> Position:
        """Where the present thread or task is."""
        who = owner()
        if who not in self.positions:
            self.positions[who] = Position()
        return self.positions[who]

    @property
    def calls(self) -> int:
        """How many attentions ran, watched or not."""
        return sum(count.ran for count in self.counts.values())

    def count_of(self, module: Any) -> Count:
        """The count of a module."""
        name = self.names.get(id(module), type(module).__name__)
        return self.counts.setdefault(name, Count())

    # Where a call comes from

    def _module_call(self, marks: Marks) -> ModuleCall:
        call: ModuleCall | None = marks.get(self)
        if call is None:
            call = marks[self] = ModuleCall(next(self.numbers))
        return call

    def see_tokens(self, running: list[Running]) -> None:
        """Look at the token ids that the models among the running modules were called with, once for each call."""
        for module, marks in reversed(running):
            if id(module) in self.roots and not (call := self._module_call(marks)).has_read:
                call.has_read = True
                self.tokens.see(module, *arguments_of(module))

    def layer_for(
        self, module: Any, is_part: bool = False, *, crosses: bool | None = None, is_counted: bool = False
    ) -> WatchedLayer:
        """The layer of this call, watched or not.

        A module that runs several times in one pass is several layers, and so are several calls in one forward of a
        module, unless they are over parts of one sequence.

        crosses      whether keys come from elsewhere than queries; None: find out
        is_counted   whether the count of attentions that ran has this one already
        """
        running = running_modules()
        watched = [(inside, marks) for inside, marks in running if id(inside) in self.names]
        outermost = self._module_call((watched or running or [(None, self.loose)])[-1][1])
        models = [marks for inside, marks in watched if id(inside) in self.roots]
        whole = self._module_call(models[0]) if models else outermost
        state, key = self.state, id(module)
        state.forward = outermost.number
        state.models = frozenset(id(inside) for inside, _ in watched if id(inside) in self.roots)
        if not whole.repeats:  # the first attention of a pass
            state.moved = False
        mine = next((marks for inside, marks in watched if inside is module), None)
        if mine is None:
            call_of_module = whole.unseen_calls.setdefault(key, ModuleCall(0))
        else:
            call_of_module = self._module_call(mine)
        if call_of_module.repeat is None:
            call_of_module.repeat = whole.repeats.get(key, 0)
            whole.repeats[key] = call_of_module.repeat + 1
        again, call = call_of_module.repeat, call_of_module.attentions
        call_of_module.attentions += 1
        state.continues_parts = bool(call) and is_part
        layer_key = key, again, 0 if is_part else call
        with self.lock:
            self.has_run = True
            if not THREAD.is_observed:
                self.notes[UNOBSERVED] = None
            self.count_of(module).ran += not is_counted
            layer = self.layers.get(layer_key)
            if layer is None:
                layer = self._new_layer(module, layer_key, crosses)
                self.layers[layer_key] = layer
            if not self.watches(layer):
                self.count_of(module).unchosen += 1
        THREAD.inputs.clear()
        return layer

    def _new_layer(self, module: Any, key: tuple[int, int, int], crosses: bool | None) -> WatchedLayer:
        name = self.names.get(id(module), type(module).__name__)
        stack, number = self.numbers_of.get(name, (name, 0))
        is_cross = bool(CROSS.search(name)) or (keys_come_from_elsewhere(module) if crosses is None else crosses)
        if key[1:] != (0, 0):
            same = [layer.number for layer in self.layers.values() if layer.stack == stack]
            earlier = sum(of_module == key[0] for of_module, *_ in self.layers)
            number, name = max(same, default=number) + 1, f"{name} (call {earlier + 1})"
        return WatchedLayer(name, stack, number, self.heads, is_cross, self.owner if self.runs is not None else None)

    def watches(self, layer: WatchedLayer) -> bool:
        """Whether a layer is among the chosen ones."""
        if self.chosen is None:
            return True
        from fnmatch import fnmatch

        numbers = layer.number, layer.number - self.sizes.get(layer.stack, 0)  # from the first layer, from the last
        return any(fnmatch(layer.name, each) if isinstance(each, str) else each in numbers for each in self.chosen)

    def watched(self) -> list[WatchedLayer]:
        """All watched layers that were called."""
        return [layer for layer in self.layers.values() if layer.runs]

    # Recording

    def record(self, layer: WatchedLayer, call: Call, output: Tensor, computed: Computed | None) -> Run:
        """One call of a watched layer, with its output (batch, query, head, value_dim)."""
        state = self.state
        self.counts[layer.module].recorded += 1
        call, keep = call.of_heads(layer.heads), self.keep
        output = output if layer.heads is None else output[:, :, layer.heads]
        before = layer.last_run(call)
        if before is not None and state.continues_parts:  # images or windows of one sequence
            part = Run()
            if keep.statistics:
                self._add_statistics(part, call, computed, None)
            before.add_part(call, output, part, keep.vectors)
            return before
        if call.cross:
            continues = before is not None and state.begin > 0
            if before is not None and continues and state.back:
                before.take_back(state.back)
        else:
            state.move(call.query_offset, call.queries.shape[2])
            continues = before is not None and before.continues(call)
        run = before if before is not None and continues else self._new_run(layer)
        run.forward = state.forward
        run.texts = {key: text for key, text in self.tokens.texts.items() if key[0] in (state.models or self.roots)}
        if keep.statistics:
            self._add_statistics(run, call, computed, state.parents)
        run.add(call, output, keep.vectors, state.parents)
        if not call.cross:
            state.parents = run.parents[-1]
        return run

    def _new_run(self, layer: WatchedLayer) -> Run:
        """A run of this thread or task, in place of those of its oldest forward and of threads that have ended."""
        me = owner()
        run = Run(me, self.state.forward)
        with self.lock:
            layer.passes += 1
            if self.runs is None:
                layer.recorded.append(run)
                return run
            others = [kept_run for kept_run in layer.recorded if kept_run.owner != me]
            others = [kept_run for kept_run in others if kept_run.owner == self.owner or is_alive(kept_run.owner)]
            mine = [*(kept_run for kept_run in layer.recorded if kept_run.owner == me), run]
            kept = sorted({kept_run.forward for kept_run in mine})[-self.runs :]
            layer.recorded = [*others, *(kept_run for kept_run in mine if kept_run.forward in kept)]
        return run

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def _add_statistics(self, run: Run, call: Call, computed: Computed | None, parents: Tensor | None) -> None:
        keep, call = self.keep, call.trim()
        if computed is None:
            computed = call.compute(call.values[..., :1], rows_of(keep, call), keep.top, keep.column_sums)
        run.statistics.append({name: computed.rows[name] for name in rows_of(keep, call)})
        if computed.top is not None and keep.top:
            small = torch.int16 if call.keys.shape[2] < 1 << 15 else torch.int32  # most of what a summary keeps
            run.top.append((computed.top.index.to(small), computed.top.weight))
        if computed.column_sums is not None and keep.column_sums:
            self._add_column_sums(run, call, computed.column_sums, parents)
        if keep.pooled:  # of the first call only: the cells of a growing matrix would change
            cells = min(CELLS, call.queries.shape[2]), min(CELLS, call.keys.shape[2])
            run.pooled = None if run.calls else call.attention().pooled(cells)

    @staticmethod
    def _add_column_sums(run: Run, call: Call, column_sums: Tensor, parents: Tensor | None) -> None:
        if run.column_sums is None:
            run.column_sums = None if run.column_sums_problem else column_sums
            return
        before = run.column_sums
        parents = parents if call.cross else run._parents(call)
        if parents is not None:
            before = before[parents]
        start = 0 if call.cross else call.key_offset - run.calls[0].key_offset
        column_sums = torch.nn.functional.pad(column_sums, (start, 0))
        run.column_sums = torch.nn.functional.pad(before, (0, column_sums.shape[-1] - before.shape[-1])) + column_sums


def rows_of(keep: Keep, call: Call) -> tuple[str, ...]:
    """The row statistics of a call; distances between the tokens of two texts have no meaning."""
    return tuple(name for name in keep.rows if name != "distance" or not call.cross)


def compute_and_record(
    recorders: Sequence[tuple[Recorder, WatchedLayer]],
    call: Call,
    own: Callable[[], tuple[Tensor, Any]],
    *,
    dropout: float,
    costly: bool,
    own_only: bool = False,
    edits: LayerEdits | None = None,
) -> tuple[Tensor, Any]:
    """Compute the output of a call and record it.

    edits    change the output
    own      computes the output (batch, query, head, value_dim) as the model would unwatched
    costly   whether the model's own function would take n² memory for a mask
    own_only whether the output must be the model's own
    """
    inputs = (call.queries, call.keys, call.values)
    needs_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    replaceable = not dropout and not needs_gradient and not own_only
    if dropout:
        for _, layer in recorders:
            layer.notes[BEFORE_DROPOUT] = None
            layer.has_dropout = True
    keeps = [recorder.keep for recorder, layer in recorders if recorder.keep.statistics and layer.heads is None]
    keeps = [] if edits is not None and edits.edges else keeps  # statistics are those of the remaining edges
    computed: Computed | None = None
    if replaceable and (keeps or costly):
        trimmed = call.trim()
        computed = trimmed.compute(
            trimmed.values,
            tuple(dict.fromkeys(name for keep in keeps for name in rows_of(keep, call))),
            max((keep.top for keep in keeps), default=0),
            any(keep.column_sums for keep in keeps),
        )
        output, extra = computed.output.transpose(1, 2).contiguous(), None
    else:
        output, extra = own()
    if edits is not None:
        if dropout and changes_weights(edits):
            raise errors.unsupported("Blocking or patching attention with dropout", "Call model.eval().")
        output = edits.apply(output.transpose(1, 2)).transpose(1, 2)
        call = replace(call, edges=tuple(edits.edges))
        computed, extra = None if edits.edges else computed, None if changes_weights(edits) else extra
        for _, layer in recorders:
            layer.notes[EDITED] = None
            layer.is_edited = True
    # What is saved for gradients of recorded tensors is not counted among the layer's, which runs again without.
    with saved_tensors_hooks(_unchanged, _unchanged) if torch.is_grad_enabled() else nullcontext():
        for recorder, layer in recorders:
            ready = computed if recorder.keep.statistics and layer.heads is None else None
            recorder.record(layer, call, output, ready)
    return output, extra


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor


def _chosen(layers: Any) -> list[Any] | None:
    """Numbers and patterns of names; None for all layers."""
    if layers is None:
        return None
    chosen = list(layers) if isinstance(layers, (list, tuple, set, range)) else [layers]
    if not chosen or not all(isinstance(choice, str) or validate.is_integer(choice) for choice in chosen):
        raise errors.option("layers", layers, 'layer numbers, or patterns of module names such as "decoder.*"')
    return chosen


def _heads(given: Any) -> list[int] | None:
    if given is None:
        return None
    heads = [given] if isinstance(given, int) else list(given)
    if not heads or not all(validate.is_integer(head) and head >= 0 for head in heads):
        raise errors.option("heads", given, "a head or a list of heads, from 0")
    return [int(head) for head in heads]
