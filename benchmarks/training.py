"""A training step by Regard and by the same model on PyTorch's fused attention, by turns; writes TRAINING.md.

    python benchmarks/training.py                          # the large step: 4 layers, 8 heads, width 512, 1,024 tokens
    python benchmarks/training.py --text input.txt         # and nanoGPT's CPU recipe on a text
    python benchmarks/training.py --steps 100 --turn 5     # steps per model, steps per turn

Both models start from the same weights and see the same batches, so that their losses can be compared as well. They
take turns of a few steps in one process; wall time and CPU time of each are medians over the turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.training import Recipe, network, preset, task
from regard.training.loop import optimiser
from regard.training.network import parameters

BY_HAND = "## What the presets learn"  # from here on, the page holds results of `regard train` and `regard compare`


class Block(nn.Module):
    def __init__(self, encoder: Any) -> None:
        super().__init__()
        attention, fed = encoder.attention, encoder.feed_forward
        self.heads = attention.heads
        parts = (attention.w_q, attention.w_k, attention.w_v)
        weights, biases = [part.weight for part in parts], [part.bias for part in parts]
        self.qkv = linear(np.concatenate(weights), np.concatenate(biases))
        self.out = linear(attention.w_o.weight, attention.w_o.bias)
        self.up, self.down = linear(fed.up.weight, fed.up.bias), linear(fed.down.weight, fed.down.bias)
        self.norm_1, self.norm_2 = nn.LayerNorm(attention.width), nn.LayerNorm(attention.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Sdpa(nn.Module):
    """The model of `network`, as nanoGPT writes it: joined projections and scaled_dot_product_attention, eager."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.from_numpy(model.embedding.weight.copy()), freeze=False)
        self.positions = nn.Parameter(torch.from_numpy(model.positions.weight.copy()))
        self.blocks = nn.ModuleList(Block(encoder) for encoder in model.encoders)
        self.norm = nn.LayerNorm(model.embedding.width)
        self.head = linear(model.head.weight, None)
        if model.head.weight is model.embedding.weight:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def linear(weight: Any, bias: Any) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(np.ascontiguousarray(weight)))
        if bias is not None:
            made.bias.copy_(torch.from_numpy(bias))
    return made


@dataclass
class Side:
    """One of the two models, and what was measured of it."""

    name: str
    model: Any
    tensors: list[Tensor]
    recipe: Recipe
    losses: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.adam = optimiser(self.tensors, self.recipe)

    def turn(self, batches: list[tuple[Tensor, Tensor]]) -> None:
        """Train on some batches; their times are those per step."""
        wall, cpu = time.perf_counter(), time.process_time()
        for tokens, targets in batches:
            for group in self.adam.param_groups:
                group["lr"] = self.recipe.rate_at(len(self.losses))
            self.adam.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(self.tensors, self.recipe.clip)
            self.adam.step()
            self.losses.append(float(loss.detach()))
        self.wall.append((time.perf_counter() - wall) / len(batches))
        self.cpu.append((time.process_time() - cpu) / len(batches))


def sides(model: Any, recipe: Recipe) -> tuple[Side, Side]:
    ours = model.to_torch(gradients=True)
    theirs = Sdpa(model)
    return (
        Side("Regard", ours, list(parameters(ours).values()), recipe),
        Side("PyTorch sdpa", theirs, list(theirs.parameters()), recipe),
    )


def measured(what: str, model: Any, recipe: Recipe, batch_of: Any, turn: int) -> list[str]:
    """Lines of the page."""
    ours, theirs = sides(model, recipe)
    for start in range(0, recipe.steps, turn):
        batches = [batch_of(step) for step in range(start, min(start + turn, recipe.steps))]
        for side in (ours, theirs) if start // turn % 2 == 0 else (theirs, ours):
            side.turn(batches)
        print(what, start + len(batches), f"{ours.wall[-1]:.3f} s, {theirs.wall[-1]:.3f} s per step", flush=True)
    tokens = batch_of(0)[0].numel()
    difference = max(abs(one - other) for one, other in zip(ours.losses, theirs.losses, strict=True))
    lines = [
        f"## {what}", "", f"{recipe.steps} steps of {tokens:,} tokens, in turns of {turn}.", "",
        "| | wall per step | CPU per step | tokens per second | loss at the end |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for side in (ours, theirs):
        wall, cpu = statistics.median(side.wall), statistics.median(side.cpu)
        lines.append(
            f"| {side.name} | {wall * 1e3:.1f} ms | {cpu * 1e3:.1f} ms | {tokens / wall:,.0f} | {side.losses[-1]:.5f} |"
        )
    by_turn = [theirs_wall / ours_wall for ours_wall, theirs_wall in zip(ours.wall, theirs.wall, strict=True)]
    by_cpu = [theirs_cpu / ours_cpu for ours_cpu, theirs_cpu in zip(ours.cpu, theirs.cpu, strict=True)]
    lines += [
        "", f"Regard is {statistics.median(by_turn):.2f} times as fast (median over turns; by CPU time "
        f"{statistics.median(by_cpu):.2f}). The losses differ by at most {difference:.1e}.", "",
    ]  # fmt: skip
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--turn", type=int, default=2)
    options.add_argument("--text", help="a text file: also nanoGPT's recipe for a CPU")
    options.add_argument("--text-steps", type=int, default=200)
    options.add_argument("--out", default=str(Path(__file__).with_name("TRAINING.md")))
    given = options.parse_args()
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 256, (given.steps, 1, 1025))

    def random_tokens(step: int) -> tuple[Tensor, Tensor]:
        whole = torch.from_numpy(drawn[step])
        return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()

    lines = ["# Training: measured", ""]
    lines += [
        "A training step (forward, backward, clipping, AdamW) by Regard's layers on tensors and by the same model with",
        "PyTorch's `scaled_dot_product_attention`, eager, on the same weights and batches, by turns in one process.",
        f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads. `benchmarks/training.py` writes this page.",
        "",
    ]
    large = network(256, length=1024, layers=4, heads=8, width=512)
    recipe = Recipe(steps=given.steps, batch=1, rate=3e-4)
    lines += measured("4 layers, 8 heads, width 512, 1,024 tokens", large, recipe, random_tokens, given.turn)
    if given.text:
        one = task("text", path=given.text)
        chosen = preset(one)

        def of_text(step: int) -> tuple[Tensor, Tensor]:
            batch = one.batch(chosen.recipe.batch, step=step)
            return torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)

        recipe = Recipe(steps=given.text_steps, batch=12, rate=1e-3, betas=(0.9, 0.99), warmup=100)
        what = "nanoGPT's CPU recipe: 4 layers, 4 heads, width 128, 12 × 64 characters"
        lines += measured(what, chosen.network(one), recipe, of_text, 10)
    page = Path(given.out)
    kept = page.read_text(encoding="utf-8").partition(BY_HAND) if page.exists() else ("", "", "")
    page.write_text("\n".join(lines) + "".join(("\n", *kept[1:])), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
