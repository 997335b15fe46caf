"""`WatchedLayer`: one attention layer of a watched model; `Layers`: those of one stack, by number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, overload

import torch
from torch import Tensor

from regard import errors
from regard.attention import Attention, PooledMap, Top
from regard.engines.interface import ROW_STATISTICS
from regard.watch.call import Call
from regard.watch.call_frames import owner
from regard.watch.run import Run

Part = Literal["encoder", "decoder", "cross", "vision", "text"]  # of a model with several stacks
CROSS = re.compile(r"cross|encoder_attn|encdec|enc_dec|multihead_attn|inter_attention", re.IGNORECASE)
VISION = re.compile(r"vision|visual|image|pixel", re.IGNORECASE)


@dataclass(eq=False)
class WatchedLayer:
    """What one attention layer computed while it was watched.

    `attention` needs keep="all"; every statistic is available in both modes.
    """

    name: str  # of the module inside the model
    stack: str  # the name with * in place of layer numbers
    number: int  # in its stack, from 0
    heads: list[int] | None = None  # that are kept; None: all
    cross: bool = False
    owner: tuple[int, int] | None = None  # thread and task whose runs are shown; None: those of all
    recorded: list[Run] = field(default_factory=list)  # of all threads
    notes: dict[str, None] = field(default_factory=dict)  # what to know about these numbers, in order
    passes: int = 0  # how many there were, kept or not
    is_recognised: bool = False  # in the code of the module itself
    has_dropout: bool = False  # its outputs are those of other weights
    is_edited: bool = False  # its outputs are changed by an edit

    def __repr__(self) -> str:
        kind = "cross-attention" if self.cross else "self-attention"
        if not self.runs:
            return f"WatchedLayer({self.name}: {kind}, not called)"
        call = self._run.calls[0]
        batch, heads = call.queries.shape[:2]
        recognised = ", recognised in the module's own code: n² memory" if self.is_recognised else ""
        return f"WatchedLayer({self.name}: {kind}, batch {batch}, head {heads}, query {self._run.tokens}{recognised})"

    @property
    def runs(self) -> list[Run]:
        """The forward passes that are kept: of the thread that watches, or else of the one that ran the model last."""
        if self.owner is None or not self.recorded:
            return self.recorded
        mine = [run for run in self.recorded if run.owner == self.owner]
        return mine or [run for run in self.recorded if run.owner == self.recorded[-1].owner]

    @property
    def module(self) -> str:
        """The name of the module, whichever of its calls this layer is."""
        return self.name.partition(" (call ")[0]

    def last_run(self, call: Call | None = None) -> Run | None:
        """The last run of the present thread; of several, the one whose keys a call has."""
        me = owner()
        mine = [run for run in self.recorded if run.owner == me]
        if call is not None and len(mine) > 1 and call.query_offset and not call.cross:
            return next((run for run in reversed(mine) if run.has_keys_of(call)), mine[-1])
        return mine[-1] if mine else None

    @property
    def _run(self) -> Run:
        if not self.runs:
            raise errors.OptionError(
                f"The layer {self.name} was not called inside the `with` block.\n"
                "Call the model there, and read the layers then or afterwards."
            )
        return self.runs[-1]

    @property
    def attention(self) -> Attention:
        """The attention (batch, head, query, key), computed where it is read.

        After `generate` it covers the prompt and all generated tokens; the last token is generated, never read.
        """
        return self._kept("attention").attention()

    @property
    def values(self) -> Tensor:
        """The values (batch, key head, key, value_dim)."""
        return self._kept("values").joined().values

    @property
    def output(self) -> Tensor:
        """The outputs of all heads (batch, head, query, value_dim), as the model used them, dropout included."""
        run = self._kept("output")
        run.joined()  # raises if the steps cannot be joined
        return run.gather(run.outputs, None, axis=1).transpose(1, 2)

    def _kept(self, what: str) -> Run:
        run = self._run
        if run.statistics and not run.outputs:
            raise errors.OptionError(
                f"`{what}` was not kept: this layer was watched for statistics only.\n"
                'Watch with keep="all" for queries, keys and values, at O(n · head_dim) memory.'
            )
        return run

    # Statistics

    def entropy(self) -> Tensor:
        """The entropy of every row in nats, (batch, head, query)."""
        return self._row_statistic("entropy")

    def peak(self) -> Tensor:
        """The largest weight of every row, (batch, head, query)."""
        return self._row_statistic("peak")

    def logsumexp(self) -> Tensor:
        """The logarithm of every row's sum of exponentials, (batch, head, query)."""
        return self._row_statistic("logsumexp")

    def distance(self) -> Tensor:
        """The expected distance of every row in tokens, (batch, head, query)."""
        return self._row_statistic("distance")

    def max_logit(self) -> Tensor:
        """The largest logit of every row, (batch, head, query): log-sum-exp plus the logarithm of the peak."""
        return self.logsumexp() + self.peak().log()

    def top(self, k: int = 8) -> Top:
        """The k keys of largest weight for every query, strongest first."""
        run = self._run
        run.check()
        if not run.top:
            return self._kept("top").attention().top(k)
        if run.top[0][0].shape[-1] < min(k, run.calls[0].keys.shape[2]):
            raise errors.option("k", k, f"at most {run.top[0][0].shape[-1]}, which were kept")
        index, weight = run.strongest()
        return Top(index[..., :k].long(), weight[..., :k])

    def column_sums(self) -> Tensor:
        """The total weight that every key receives from all queries that are not padding, (batch, head, key)."""
        run = self._run
        run.check()
        if run.column_sums is not None:
            return run.column_sums
        if run.column_sums_problem is not None:
            raise errors.Unsupported(f'`column_sums` is not known: {run.column_sums_problem}.\nWatch with keep="all".')
        return self._kept("column_sums").attention().column_sums(run.real_queries())

    def pooled(self, shape: tuple[int, int] = (64, 64)) -> PooledMap:
        """The matrix pooled into cells; with keep=["pooled"], the cells that were kept."""
        run = self._run
        if run.pooled is not None:
            return run.pooled  # type: ignore[no-any-return]
        attention = self._kept("pooled").attention()
        return attention.pooled((min(shape[0], attention.shape[-2]), min(shape[1], attention.shape[-1])))

    def _row_statistic(self, name: str) -> Tensor:
        run = self._run
        run.check()
        if run.statistics and name in run.statistics[0]:
            return run.row_statistic(name)
        return getattr(self._kept(name).attention(), name)()

    def means(self) -> dict[str, Tensor]:
        """Per head, (head,): means of the row statistics over real queries of all passes, and shares of all weight.

        "received" is the largest share that one key receives and "key" that key, in the sequence where it is largest;
        "first" is the share of the first real key, "sink" that of a learned sink.
        """
        of_runs: tuple[dict[str, Tensor], ...]
        of_runs, sizes = zip(*map(self._means_of, self.runs), strict=True)
        if len(of_runs) == 1:
            return of_runs[0]
        names = [name for name in of_runs[-1] if all(name in means for means in of_runs)]
        means = {
            name: sum(means[name] * size for means, size in zip(of_runs, sizes, strict=True)) / sum(sizes)
            for name in names
            if name not in ("received", "key")
        }
        if "received" in names:  # of the pass where it is largest
            means["received"], largest = torch.stack([means["received"] for means in of_runs]).max(0)
            means["key"] = torch.stack([means["key"] for means in of_runs]).gather(0, largest[None])[0]
        return means

    def _means_of(self, run: Run) -> tuple[dict[str, Tensor], int]:
        """The means of one pass, and the number of queries in it."""
        run.check()
        if run.statistics:
            rows, column_sums = {name: run.row_statistic(name) for name in run.statistics[0]}, run.column_sums
        else:  # all in one pass
            self._kept("statistics")
            call = run.joined()
            names = tuple(name for name in ROW_STATISTICS if name != "distance" or not call.cross)
            with torch.no_grad():
                computed = call.compute(call.values[..., :1], names, column_sums=True)
            rows, column_sums = computed.rows, computed.column_sums
        if "logsumexp" in rows and "peak" in rows:
            rows["max_logit"] = rows["logsumexp"] + rows["peak"].log()
        real = run.real_queries()
        means = {name: _mean(statistic, real) for name, statistic in rows.items()}
        size = int(real.sum()) if real is not None else run.calls[0].batch * run.tokens
        if column_sums is not None:
            means |= _shares(run.joined(), column_sums, real)
        return means, size


def _mean(rows: Tensor, real: Tensor | None) -> Tensor:
    """The mean over sequences and queries that are real and see a key, (batch, head, query) → (head,)."""
    rows = rows.detach().double()
    counted = torch.isfinite(rows) if real is None else torch.isfinite(rows) & real[:, None].to(rows.device)
    total = torch.where(counted, rows, rows.new_zeros(())).sum((0, 2))
    return total / counted.sum((0, 2)).clamp(min=1)


def _shares(call: Call, column_sums: Tensor, real: Tensor | None) -> dict[str, Tensor]:
    """Shares of all weight, (batch, head, key) → (head,) each."""
    column_sums = column_sums.detach().double()
    total = column_sums.sum(-1)
    if call.sinks is not None:  # what rows lack to 1 is the sink's
        count = call.queries.shape[2] if real is None else real.sum(-1)[:, None]
        total = torch.as_tensor(count, device=total.device).double().expand_as(total)
    share = column_sums / total.clamp(min=torch.finfo(torch.float64).tiny)[..., None]
    largest, key = share.max(-1)
    first = torch.zeros(len(column_sums), dtype=torch.int64, device=column_sums.device)
    if real is not None and real.shape[1] == column_sums.shape[2]:
        first = real.int().argmax(1)
    shares = {
        "received": largest.mean(0),
        "key": key.gather(0, largest.argmax(0)[None])[0],
        "first": share.gather(2, first[:, None, None].expand(-1, share.shape[1], 1)).mean((0, 2)),
    }
    return shares if call.sinks is None else {**shares, "sink": 1 - share.sum(-1).mean(0)}


class Layers(Sequence[WatchedLayer]):
    """Attention layers by number: `layers[9]`. Iterating gives the watched ones in order."""

    def __init__(self, layers: Sequence[WatchedLayer], what: str = "layers") -> None:
        self._layers = tuple(layers)
        self._what = what

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[WatchedLayer]:
        return iter(self._layers)

    @overload
    def __getitem__(self, number: int | str) -> WatchedLayer: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[WatchedLayer, ...]: ...
    def __getitem__(self, number: int | str | slice) -> WatchedLayer | tuple[WatchedLayer, ...]:
        if isinstance(number, slice):
            return self._layers[number]
        if isinstance(number, str):
            matching = [layer for layer in self._layers if layer.name == number]
        else:
            highest = max((layer.number for layer in self._layers), default=-1)
            number = number + highest + 1 if number < 0 else number
            matching = [layer for layer in self._layers if layer.number == number]
        if len(matching) == 1:
            return matching[0]
        if not matching:
            numbers = sorted({layer.number for layer in self._layers})
            expected = f"{numbers[0]} to {numbers[-1]}" if numbers else "none"
            raise errors.OutOfRange(f"Layer {number} of `{self._what}` is not among the watched ones: {expected}.")
        stacks = ", ".join(f"seen.stacks[{layer.stack!r}]" for layer in matching)
        raise errors.OutOfRange(f"Layer {number} is in several stacks of this model.\nChoose one: {stacks}.")

    def __repr__(self) -> str:
        return f"Layers({', '.join(layer.name for layer in self._layers)})"


def in_part(part: str, layer: WatchedLayer) -> bool | None:
    """Whether a layer belongs to a part of a model that has a name; None for other names."""
    if part == "cross":
        return layer.cross
    if part in ("vision", "text"):
        return bool(VISION.search(layer.name)) == (part == "vision") and not layer.cross
    return part in layer.name.split(".") and not layer.cross if part in ("encoder", "decoder") else None


@lru_cache(maxsize=16)
def stack_numbers(names: tuple[str, ...]) -> Mapping[str, tuple[str, int]]:
    """The stack and number of each module name.

    A stack is the name with * in place of numbers; the number is the one that differs within the stack, or the
    place in the stack where several differ.

    >>> stack_numbers(("h.0.attn", "h.1.attn", "block.0.layer.1.attn", "block.1.layer.1.attn"))["block.1.layer.1.attn"]
    ('block.*.layer.1.attn', 1)
    """
    by_pattern: dict[str, list[str]] = {}
    for name in names:
        pattern = ".".join("*" if part.isdigit() else part for part in name.split("."))
        by_pattern.setdefault(pattern, []).append(name)
    number_of = {}
    for members in by_pattern.values():
        numbers = [[part for part in name.split(".") if part.isdigit()] for name in members]
        differing = [axis for axis in range(len(numbers[0])) if len({row[axis] for row in numbers}) > 1]
        for index, (name, row) in enumerate(zip(members, numbers, strict=True)):
            axis = -1
            parts = []
            for part in name.split("."):
                axis += part.isdigit()
                parts.append("*" if part.isdigit() and axis in differing else part)
            alone = len(members) == 1 and len(row) == 1
            number = int(row[differing[0]]) if len(differing) == 1 else int(row[0]) if alone else index
            number_of[name] = (".".join(parts), number)
    return number_of
