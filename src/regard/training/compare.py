"""The same task for networks that mix positions in different ways: attention, convolutions, a feed-forward network.

All networks are causal, embed tokens and positions alike, and are given the same number of parameters (±5%), the same
batches, steps and recipe. What differs is how a position gets at the tokens before it:

feed-forward       one network over the flattened window of all tokens so far: a fixed weight for every place
convolution        kernels of a few tokens, stacked: a fixed reach
dilated            kernels with gaps that double from layer to layer: a reach of 2^layers, still fixed
gated convolution  a filter as long as the text times a gate (BaseConv of Arora et al., 2023); it is not Hyena
one head, …        attention: the weights follow from the tokens
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

from regard import errors
from regard.layers import MultiHead
from regard.training.loop import Recipe
from regard.training.network import Module
from regard.training.tasks import Batch, Task

KERNEL = 4
NETWORKS = ("feed-forward", "convolution", "dilated", "gated convolution", "one head", "eight heads")
TOLERANCE = 0.05


class Convolution(nn.Module):
    """A causal convolution over the tokens, (batch, token, width)."""

    def __init__(self, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.padding = (KERNEL - 1) * dilation
        self.filter = nn.Conv1d(width, width, KERNEL, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.filter(functional.pad(x.mT, (self.padding, 0))).mT


class GatedConvolution(nn.Module):
    """A filter over all tokens so far, one per channel, times a gate: linear(x) · (filter ∗ x)."""

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, width)
        self.filter = nn.Parameter(torch.randn(width, length) / math.sqrt(length))
        self.bias = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[1]
        spectrum = torch.fft.rfft(self.filter[:, :count], n=2 * count)  # twice as long: no wrap-around
        mixed = torch.fft.irfft(torch.fft.rfft(x.mT, n=2 * count) * spectrum, n=2 * count)[..., :count].mT
        return self.out(self.gate(x) * (mixed + self.bias))


class Block(nn.Module):
    """x + mixer(norm(x)), then x + feed-forward(norm(x)), as in a pre-norm transformer."""

    def __init__(self, mixer: nn.Module, width: int, hidden: int) -> None:
        super().__init__()
        self.mixer, self.norm_1 = mixer, nn.LayerNorm(width)
        self.hidden = hidden
        if hidden:
            self.norm_2 = nn.LayerNorm(width)
            self.feed_forward = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x)) if self.hidden else x


class Stack(nn.Module):
    """Embedded tokens and positions through blocks to logits."""

    def __init__(self, task: Task, width: int, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(task.vocabulary, width)
        self.positions = nn.Embedding(task.length, width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, task.vocabulary, bias=False)
        for table in (self.embedding, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor, where: Tensor) -> Tensor:
        """Logits at the positions that are scored."""
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[where])  # type: ignore[no-any-return]


class Window(nn.Module):
    """A feed-forward network over the flattened window that ends at a position: (token · width) → hidden → logits."""

    def __init__(self, task: Task, width: int, hidden: int) -> None:
        super().__init__()
        self.length = task.length
        self.embedding = nn.Embedding(task.vocabulary + 1, width, padding_idx=task.vocabulary)  # the last: before the text
        self.layers = nn.Sequential(
            nn.Linear(task.length * width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.head = nn.Linear(hidden, task.vocabulary, bias=False)

    def forward(self, tokens: Tensor, where: Tensor) -> Tensor:
        """Logits at the positions that are scored, each from the window before it."""
        before = functional.pad(tokens, (self.length - 1, 0), value=self.embedding.num_embeddings - 1)
        windows = before.unfold(1, self.length, 1)[where]  # (position, token)
        return self.head(self.layers(self.embedding(windows).flatten(1)))  # type: ignore[no-any-return]


def build(name: str, task: Task, width: int, layers: int = 2, *, hidden: int | None = None) -> nn.Module:
    """A network by its name; `hidden`, the width of the feed-forward parts, is 4 · width by default, 0 for none."""
    hidden = 4 * width if hidden is None else hidden
    if name == "feed-forward":
        return Window(task, 16, width)
    mixers: dict[str, Callable[[int], nn.Module]] = {
        "convolution": lambda layer: Convolution(width),
        "dilated": lambda layer: Convolution(width, KERNEL**layer),
        "gated convolution": lambda layer: GatedConvolution(width, task.length),
        "one head": lambda layer: Module(MultiHead.seeded(width, 1, causal=True, seed=layer)),
        "eight heads": lambda layer: Module(MultiHead.seeded(width, 8, causal=True, seed=layer)),
    }
    if name not in mixers:
        raise errors.OptionError(f"`network` is {name!r}; expected one of {', '.join(NETWORKS)}.")
    return Stack(task, width, [Block(mixers[name](layer), width, hidden) for layer in range(layers)])


def parameter_count(network: nn.Module) -> int:
    """How many numbers are learned."""
    return sum(parameter.numel() for parameter in network.parameters())


def matched(name: str, task: Task, count: int, layers: int) -> nn.Module:
    """The network of this kind whose number of parameters is nearest to `count`, within 5%."""
    step = 8 if name == "eight heads" else 1
    low, high = step, step
    while _count(name, task, high, layers) < count:
        high *= 2
    while high - low > step:
        middle = (low + high) // 2 // step * step
        if middle in (low, high):
            break
        low, high = (middle, high) if _count(name, task, middle, layers) < count else (low, middle)
    best = min((low, high), key=lambda width: abs(_count(name, task, width, layers) - count))
    if abs(_count(name, task, best, layers) / count - 1) > TOLERANCE:
        raise errors.OptionError(f"No {name} network has within {TOLERANCE:.0%} of {count:,} parameters.")
    return build(name, task, best, layers)


def _count(name: str, task: Task, width: int, layers: int) -> int:
    with torch.random.fork_rng(devices=[]):
        return parameter_count(build(name, task, width, layers))


@dataclass(frozen=True, eq=False)
class Result:
    """One network after training with one seed."""

    network: str
    seed: int
    parameters: int
    accuracy: float
    by_distance: tuple[tuple[int, int, float], ...]  # from, up to, accuracy
    losses: tuple[float, ...]


def compare(
    task: Task,
    recipe: Recipe,
    *,
    networks: Sequence[str] = NETWORKS,
    seeds: Sequence[int] = (0, 1, 2),
    width: int = 64,
    layers: int = 2,
    on_step: Callable[[str, int, int, float], None] | None = None,
) -> list[Result]:
    """Train each network with each seed on the same batches; widths follow from the parameters of eight heads."""
    count = _count("eight heads", task, width, layers)
    results = []
    for name in networks:
        for seed in seeds:
            torch.manual_seed(seed)
            network = matched(name, task, count, layers)
            losses = _fit(network, task, recipe, seed, lambda step, loss, n=name, s=seed: on_step and on_step(n, s, step, loss))  # type: ignore[misc]
            results.append(_measured(name, seed, network, task, losses))
    return results


def _fit(network: nn.Module, task: Task, recipe: Recipe, seed: int, told: Callable[[int, float], Any]) -> list[float]:
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=recipe.rate, betas=recipe.betas, weight_decay=recipe.weight_decay, fused=True
    )
    losses = []
    for step in range(recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate_at(step)
        batch = task.batch(recipe.batch, seed=seed, step=step, level=recipe.level_at(step))
        where = torch.from_numpy(batch.targets >= 0)
        logits = network(torch.from_numpy(batch.tokens), where)
        loss = functional.cross_entropy(logits, torch.from_numpy(batch.targets)[where])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), recipe.clip or math.inf)
        optimiser.step()
        losses.append(float(loss.detach()))
        told(step + 1, losses[-1])
    return losses


@torch.no_grad()
def _measured(name: str, seed: int, network: nn.Module, task: Task, losses: list[float]) -> Result:
    batch = task.batch(256, seed=seed, split="test")
    where = batch.targets >= 0
    likeliest = network(torch.from_numpy(batch.tokens), torch.from_numpy(where)).argmax(dim=-1).numpy()
    right = likeliest == batch.targets[where]
    return Result(
        name, seed, parameter_count(network), float(right.mean()), by_distance(batch, right), tuple(losses)
    )


def by_distance(batch: Batch, right: Any, bins: int = 8) -> tuple[tuple[int, int, float], ...]:
    """Accuracy of scored positions by how far back the deciding key is, in bins that double."""
    rows, queries = np.nonzero(batch.targets >= 0)
    keys = batch.keys[rows, queries]
    distance = np.where(keys >= 0, queries - keys, -1)
    found = []
    for place in range(bins):
        low, high = 2**place, 2 ** (place + 1)
        inside = (distance >= low) & (distance < high)
        if inside.any():
            found.append((low, high - 1, float(right[inside].mean())))
    return tuple(found)
