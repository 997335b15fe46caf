"""One model by Regard's layers, and the same as nanoGPT writes it, on PyTorch's fused attention."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.training import Batch, Recipe, Task, network, preset, task
from regard.training.loop import TrainingRun
from regard.training.measurement import new_record
from regard.training.tasks import NONE

VOCABULARY, LENGTH = 256, 1024  # of the large case: random tokens


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
        q, k, v = self.qkv(self.norm_1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).contiguous().view(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Sdpa(nn.Module):
    """The model of `network` as nanoGPT writes it: joined projections and scaled_dot_product_attention, eager."""

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


class RandomTokens(Task):
    """Sequences of random tokens: nothing to learn, but as much to compute as in any other text."""

    name = "random tokens"

    def __init__(self) -> None:
        self.words, self.length = tuple(map(str, range(VOCABULARY))), LENGTH

    def _draw(self, count: int, rng: np.random.Generator, split: Any, level: float) -> Batch:
        whole = rng.integers(0, VOCABULARY, (count, LENGTH + 1))
        tokens, targets = np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, 1:])
        return Batch(tokens, targets, np.full_like(tokens, NONE), np.full_like(tokens, NONE))


def given(case: str, steps: int, text: str | None) -> tuple[Task, Any, Recipe]:
    """The task, the model with its initial weights, and the recipe."""
    if case == "large":
        model = network(VOCABULARY, length=LENGTH, layers=4, heads=8, width=512)
        return RandomTokens(), model, Recipe(steps=steps, batch=1, rate=3e-4)
    one = task("text", path=text)
    return one, preset(one).network(one), preset(one).recipe  # nanoGPT's


class Ours:
    """The loop of `regard train`: it draws the batch, checks loss and gradients, clips and updates."""

    def __init__(self, case: str, steps: int, text: str | None) -> None:
        one, model, recipe = given(case, steps, text)
        self.run = TrainingRun(model, one, recipe, new_record(one, 0))

    def step(self) -> float:
        """One update; its loss."""
        loss = self.run.update()
        self.run.step += 1
        return loss


class Theirs:
    """nanoGPT's loop on a PyTorch model, with the same batches."""

    def __init__(self, case: str, steps: int, text: str | None) -> None:
        self.task, model, self.recipe = given(case, steps, text)
        self.model = Sdpa(model)
        self.tensors = list(self.model.parameters())
        decaying = [tensor for tensor in self.tensors if tensor.ndim > 1]
        groups = [
            {"params": decaying, "weight_decay": self.recipe.weight_decay},
            {"params": [tensor for tensor in self.tensors if tensor.ndim < 2], "weight_decay": 0.0},
        ]
        self.adam = torch.optim.AdamW(groups, lr=self.recipe.rate, betas=self.recipe.betas, fused=True)
        self.done = 0

    def step(self) -> float:
        """One step: a batch, forward, backward, clipping, AdamW; its loss."""
        batch = self.task.batch(self.recipe.batch, seed=self.recipe.seed, step=self.done)
        tokens, targets = torch.from_numpy(batch.tokens), torch.from_numpy(batch.targets)
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.rate_at(self.done)
        self.adam.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.tensors, self.recipe.clip)
        self.adam.step()
        self.done += 1
        return float(loss.detach())
