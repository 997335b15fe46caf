"""The same task for networks that mix positions differently: attention, convolutions, a feed-forward network.

All networks are causal and have two blocks, the same number of parameters (±5%), the same batches and the same recipe.
They differ in how a position gets information from earlier ones:

feed-forward       one network over the flattened window of all tokens so far: a weight for every position
convolution        filters over 4 neighbouring tokens: a reach of 7 tokens with two layers
dilated            the same filters, with gaps of 4 tokens in the second layer: a reach of 16
gated convolution  a filter as long as the sequence, multiplied by a gate (BaseConv of Arora et al., 2023); not Hyena
one head, eight heads   attention: the weights are computed from the tokens
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard import errors, validate
from regard.layers import MultiHead
from regard.tables import Column, Table
from regard.training.loop import Recipe
from regard.training.measurement import held_out_batch
from regard.training.network import Module, initial_deviation
from regard.training.optimiser import AdamW
from regard.training.presets import preset
from regard.training.tasks import Batch, LookupTask, Task
from regard.training.tasks import task as make_task

NETWORKS = ("feed-forward", "convolution", "dilated", "gated convolution", "one head", "eight heads")
KERNEL = 4
WINDOW_WIDTH = 16  # width of the embedding in the feed-forward network
WIDTH = 64  # of the network with eight heads
TOLERANCE = 0.05  # of the number of parameters
RISING = 0.5  # share of the steps after which a task with levels is at full difficulty
TEST_SEQUENCES = 256
LEARNED = 0.5  # accuracy of the best network from which a comparison says something

# Zoology's setting of multi-query associative recall (Arora et al., 2023): networks of the same width, two mixers
# without feed-forward parts, one table of embeddings for input and output, one pair per 16 tokens of a sequence.
ZOOLOGY = ("feed-forward", "gated convolution", "one head")
ZOOLOGY_VOCABULARY, ZOOLOGY_TOKENS_PER_PAIR = 8192, 16
ZOOLOGY_RECIPE = Recipe(steps=2500, batch=128, rate=3e-3, betas=(0.9, 0.999), weight_decay=0.1, warmup=250)


class Convolution(nn.Module):  # type: ignore[misc]
    """A causal convolution over the tokens of (batch, token, width)."""

    def __init__(self, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.padding = (KERNEL - 1) * dilation
        self.filter = nn.Conv1d(width, width, KERNEL, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        """Each token from itself and the tokens within reach before it."""
        return self.filter(functional.pad(x.mT, (self.padding, 0))).mT


class GatedConvolution(nn.Module):  # type: ignore[misc]
    """W_out · (gate(x) ⊙ (filter ∗ x)): one filter per channel, as long as the sequence."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.filter = nn.Parameter(torch.randn(width, length) / math.sqrt(length))
        self.bias = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Each token from itself and all tokens before it."""
        count = x.shape[1]
        spectrum = torch.fft.rfft(self.filter[:, :count], n=2 * count)  # twice as long: no wrap-around
        mixed = torch.fft.irfft(torch.fft.rfft(x.mT, n=2 * count) * spectrum, n=2 * count)[..., :count].mT
        return self.out(self.gate(x) * (mixed + self.bias))


class MixerBlock(nn.Module):  # type: ignore[misc]
    """x + mixer(norm(x)), then x + feed-forward(norm(x)); without `hidden`, the mixer alone."""

    def __init__(self, mixer: nn.Module, width: int, hidden: int) -> None:
        super().__init__()
        self.mixer, self.norm_1 = mixer, nn.LayerNorm(width)
        self.feed_forward = None
        if hidden:
            self.norm_2 = nn.LayerNorm(width)
            self.feed_forward = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, token, width) in, and out."""
        x = x + self.mixer(self.norm_1(x))
        return x if self.feed_forward is None else x + self.feed_forward(self.norm_2(x))


class Stack(nn.Module):  # type: ignore[misc]
    """Embedded tokens and positions through blocks to logits."""

    def __init__(self, task: Task, width: int, blocks: Sequence[nn.Module], tied: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(task.vocabulary, width)
        self.positions = nn.Embedding(task.length, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.vocabulary, bias=False)
        for table in (self.embedding, self.positions, self.head):
            nn.init.normal_(table.weight, std=initial_deviation(width))
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, where: Tensor) -> Tensor:
        """Logits (position, vocabulary) of the scored positions."""
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[where])


class WindowNetwork(nn.Module):  # type: ignore[misc]
    """A feed-forward network over the flattened window up to a position: (token · width) → hidden → hidden → logits."""

    def __init__(self, task: Task, hidden: int) -> None:
        super().__init__()
        self.length = task.length
        self.embedding = nn.Embedding(task.vocabulary + 1, WINDOW_WIDTH)  # the last token: before the sequence
        self.layers = nn.Sequential(
            nn.Linear(task.length * WINDOW_WIDTH, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.head = nn.Linear(hidden, task.vocabulary, bias=False)

    def forward(self, tokens: Tensor, where: Tensor) -> Tensor:
        """Logits (position, vocabulary) of the scored positions, each from the tokens up to it."""
        before = functional.pad(tokens, (self.length - 1, 0), value=self.embedding.num_embeddings - 1)
        windows = before.unfold(1, self.length, 1)[where]  # (position, token)
        return self.head(self.layers(self.embedding(windows).flatten(1)))


def build(
    name: str, task: Task, width: int, layers: int = 2, *, hidden: int | None = None, tied: bool = False
) -> nn.Module:
    """A network by its name; `hidden`, the width of the feed-forward parts, is `width` by default, 0 for none."""
    hidden = width if hidden is None else hidden
    mixers: dict[str, Callable[[int], nn.Module]] = {
        "convolution": lambda layer: Convolution(width),
        "dilated": lambda layer: Convolution(width, KERNEL**layer),
        "gated convolution": lambda layer: GatedConvolution(width, task.length),
        "one head": lambda layer: _heads(width, 1, layer),
        "eight heads": lambda layer: _heads(width, 8, layer),
    }
    if name == "feed-forward":
        return WindowNetwork(task, width)
    if name not in mixers:
        hint = errors.did_you_mean(name, NETWORKS)
        raise errors.OptionError(f"`network` is {name!r}; expected one of {', '.join(NETWORKS)}.{hint}")
    return Stack(task, width, [MixerBlock(mixers[name](layer), width, hidden) for layer in range(layers)], tied)


def _heads(width: int, heads: int, layer: int) -> nn.Module:
    seed = int(torch.randint(2**31, ()))  # of PyTorch's generator, as the other networks' weights are
    return Module(MultiHead.seeded(width, heads, causal=True, seed=seed))


def parameter_count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def match_parameters(name: str, task: Task, count: int, layers: int = 2) -> nn.Module:
    """The network of this kind whose number of parameters is closest to `count`, within 5%."""
    step = 8 if name == "eight heads" else 1

    def size(width: int) -> int:
        with torch.random.fork_rng(devices=[]):
            return parameter_count(build(name, task, width, layers))

    low, high = step, step
    while size(high) < count:
        low, high = high, 2 * high
    while high - low > step:
        middle = (low + high) // 2 // step * step
        low, high = (middle, high) if size(middle) < count else (low, middle)
    best = min((low, high), key=lambda width: abs(size(width) - count))
    if abs(size(best) / count - 1) > TOLERANCE:
        raise errors.OptionError(f"No {name} network has within {TOLERANCE:.0%} of {count:,} parameters.")
    return build(name, task, best, layers)


@dataclass(frozen=True)
class TrainedNetwork:
    """One network after training with one seed."""

    network: str
    seed: int
    parameters: int
    accuracy: float
    by_distance: dict[int, float]  # from the lower end of each bin of distances, which double
    by_pairs: dict[int, float]  # of lookup: sequences with fewer pairs


@dataclass(frozen=True)
class Comparison:
    """What `compare` found: results by network and seed.

    >>> accuracies = {0: 0.9, 1: 1.0}
    >>> results = [TrainedNetwork("one head", seed, 100, accuracies[seed], {1: 1.0}, {}) for seed in accuracies]
    >>> print(Comparison("copy", 10, results).tables()[0])
    Accuracy on copy after 10 steps
    network   parameters   mean  lowest  highest
    one head         100  0.950   0.900    1.000
    2 seeds; test sequences are not among those of the training.
    """

    task: str
    steps: int
    results: list[TrainedNetwork]

    @property
    def networks(self) -> list[str]:
        return list(dict.fromkeys(result.network for result in self.results))

    def of(self, network: str) -> list[TrainedNetwork]:
        return [result for result in self.results if result.network == network]

    def curve(self, network: str, field: str) -> dict[int, tuple[float, float, float]]:
        """Mean, lowest and highest accuracy over the seeds, by distance (`by_distance`) or pairs (`by_pairs`)."""
        accuracies: dict[int, list[float]] = {}
        for result in self.of(network):
            for at, accuracy in getattr(result, field).items():
                accuracies.setdefault(at, []).append(accuracy)
        return {at: _spread(some) for at, some in sorted(accuracies.items())}

    def tables(self) -> list[Table]:
        """Accuracy with its spread over the seeds: overall, by distance, by number of pairs."""
        numbers = [Column(name, "number", 3) for name in ("mean", "lowest", "highest")]
        rows: list[tuple[Any, ...]] = []
        for name in self.networks:
            results = self.of(name)
            rows.append((name, results[0].parameters, *_spread([result.accuracy for result in results])))
        seeds = {result.seed for result in self.results}
        notes = [f"{errors.count(len(seeds), 'seed')}; test sequences are not among those of the training."]
        if max(row[2] for row in rows) < LEARNED:
            notes.append(
                f"{self.steps:,} steps are too few: no network has learned the task, so they cannot be compared."
            )
        columns = Column("network", "word"), Column("parameters", "number", 0), *numbers
        tables = [Table(f"Accuracy on {self.task} after {self.steps:,} steps", columns, tuple(rows), tuple(notes))]
        for field, title in (("by_distance", "distance to the right key, from"), ("by_pairs", "number of pairs")):
            curves = {name: self.curve(name, field) for name in self.networks}
            positions = sorted({at for curve in curves.values() for at in curve})
            if positions:
                rows = [
                    (name, *(curve[at][0] if at in curve else None for at in positions))
                    for name, curve in curves.items()
                ]
                columns = Column("network", "word"), *(Column(str(at), "number", 3) for at in positions)
                tables.append(Table(f"Mean accuracy by {title}", columns, tuple(rows)))
        return tables


def _spread(accuracies: Sequence[float]) -> tuple[float, float, float]:
    """Mean, lowest and highest."""
    return float(np.mean(accuracies)), min(accuracies), max(accuracies)


def setting(name: str, *, zoology: bool = False, **options: Any) -> tuple[Task, Recipe, tuple[str, ...]]:
    """A task with `options`, its recipe, and the networks to compare on it; with `zoology`, as in its paper.

    >>> task, recipe, networks = setting("lookup", zoology=True, length=64)
    >>> task.vocabulary, recipe.batch, len(networks)
    (8192, 128, 3)
    """
    if not zoology:
        task = make_task(name, **options)
        return task, preset(task).recipe, NETWORKS
    if name != "lookup":
        raise errors.OptionError(f"Zoology's setting is one of the task lookup, not of {name}: leave out --zoology.")
    length = options.setdefault("length", 64)
    pairs = max(1, length // ZOOLOGY_TOKENS_PER_PAIR)
    return make_task(name, **{"pairs": pairs, "vocabulary": ZOOLOGY_VOCABULARY} | options), ZOOLOGY_RECIPE, ZOOLOGY


def compare(
    task: Task,
    recipe: Recipe | None = None,
    *,
    networks: Sequence[str] = NETWORKS,
    seeds: Sequence[int] = (0, 1, 2),
    width: int = WIDTH,
    layers: int = 2,
    zoology: bool = False,
    on_step: Callable[[], Any] | None = None,
) -> Comparison:
    """Train each network with each seed on the same batches.

    width    of the network with eight heads; the other widths follow from its number of parameters
    zoology  the same width for all networks, instead of the same number of parameters, and mixers alone: without
             feed-forward parts, with the embedding as output, without a curriculum
    on_step  called after every step of every run

    >>> from regard.training import task
    >>> options = {"networks": ["convolution"], "seeds": [0], "width": 16}
    >>> compare(task("copy", length=8), Recipe(steps=2, batch=2), **options).networks
    ['convolution']
    """
    recipe = recipe or Recipe()
    if validate.integer("width", width, 8) % 8:
        raise errors.option("width", width, "a multiple of 8, the number of heads")
    for name in networks:
        build(name, task, 8, layers)  # an unknown name is an error before anything is trained
    with torch.random.fork_rng(devices=[]):
        count = parameter_count(build("eight heads", task, width, layers))
    results = []
    for name in networks:
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                if zoology:
                    network = build(name, task, width, layers, hidden=width if name == "feed-forward" else 0, tied=True)
                else:
                    network = match_parameters(name, task, count, layers)
            fit(network, task, recipe, seed, on_step, curriculum=not zoology)
            results.append(_measure(name, seed, network, task))
    return Comparison(task.name, recipe.steps, results)


def fit(
    network: nn.Module, task: Task, recipe: Recipe, seed: int, on_step: Callable[[], Any] | None = None, *,
    curriculum: bool = True,
) -> None:  # fmt: skip
    """Train a network; the level of difficulty rises with the step, so that all networks see the same batches."""
    adam = AdamW(network.parameters(), betas=recipe.betas, weight_decay=recipe.weight_decay)
    for step in range(recipe.steps):
        level = 1.0
        if curriculum:
            level = task.levels[min(len(task.levels) - 1, int(step / recipe.steps / RISING * len(task.levels)))]
        batch = task.batch(recipe.batch_at(level, task), seed=seed, step=step, level=level)
        logits, targets = _scored_logits(network, batch)
        adam.clear()
        functional.cross_entropy(logits, targets).backward()
        adam.step(recipe.rate_at(step), recipe.clip)
        if on_step is not None:
            on_step()


def _scored_logits(network: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    where, targets = torch.from_numpy(batch.targets >= 0), torch.from_numpy(batch.targets)
    return network(torch.from_numpy(batch.tokens), where), targets[where]


def right_ones(network: nn.Module, batch: Batch) -> Any:
    """Whether the most likely token is the target, for each scored position in reading order."""
    with torch.no_grad():
        logits, targets = _scored_logits(network, batch)
        return (logits.argmax(dim=-1) == targets).numpy()


def _measure(name: str, seed: int, network: nn.Module, task: Task) -> TrainedNetwork:
    batch = held_out_batch(task, TEST_SEQUENCES, seed)
    right = right_ones(network, batch)
    by_pairs = {}
    if isinstance(task, LookupTask):
        for pairs in sorted({max(1, task.pairs >> power) for power in range(task.pairs.bit_length())}):
            fewer = LookupTask(pairs, vocabulary=task.vocabulary).batch(TEST_SEQUENCES, seed=seed, split="test")
            by_pairs[pairs] = float(right_ones(network, fewer).mean())
    parameters = parameter_count(network)
    return TrainedNetwork(name, seed, parameters, float(right.mean()), by_distance(batch, right), by_pairs)


def by_distance(batch: Batch, right: Any) -> dict[int, float]:
    """Accuracy of scored positions by the distance to the right key, in bins from 1, 2, 4, 8, …"""
    rows, queries = np.nonzero(batch.targets >= 0)
    keys = batch.keys[rows, queries]
    distance = np.where(keys >= 0, queries - keys, 0)
    lows = [2**power for power in range(int(distance.max(initial=0)).bit_length())]
    bins = {low: (distance >= low) & (distance < 2 * low) for low in lows}
    return {low: float(right[inside].mean()) for low, inside in bins.items() if inside.any()}
