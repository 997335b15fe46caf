"""What edits change at the end of a model of transformers.

All texts are one padded batch. Blocks before the first one that an edit changes are not computed again: they return
what they returned without the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.reading.edit import Edit
from regard.reading.reader import Outcome
from regard.watch.call_edits import block_modules
from regard.watch.layer import stack_numbers
from regard.watch.reading import in_numpy
from regard.watch.session import watch
from regard.watch.support import support_of


@dataclass(frozen=True, eq=False)
class EditedForward:
    """A model of transformers, as far as edits are measured on it."""

    body: Any  # the module that reads tokens
    forward: Callable[[dict[str, Any]], Any]  # calls it
    tokenizer: Any
    writes: bool
    base: Edit | None  # that holds for all runs

    def outcomes(
        self, ids: Sequence[Sequence[int]], edits: Sequence[Edit], all_logits: bool
    ) -> Iterator[tuple[int, Outcome]]:
        """The outcome without an edit, −1, and with each one, by its index."""
        blocks = _blocks(self.body)
        inputs = _padded(ids, next(iter(self.body.parameters())).device)
        kept: dict[int, Any] = {}  # by number of the block: what it returned
        with hooked(blocks, lambda number: lambda _module, _args, output: kept.__setitem__(number, output)):
            outcome = self._outcome(inputs, ids, self.base, all_logits)
        yield -1, outcome
        for index, edit in enumerate(edits):
            with ExitStack() as stack:
                for number in range(min(min(edit.layers or (0,)), len(kept))):
                    stack.enter_context(_returning(blocks[number], kept[number]))
                both = edit if self.base is None else self.base & edit
                outcome = self._outcome(inputs, ids, both, all_logits, checked=self.base is None)
            yield index, outcome

    def _outcome(
        self, inputs: dict[str, Tensor], ids: Sequence[Sequence[int]], edit: Edit | None, all_logits: bool,
        checked: bool = True,
    ) -> Outcome:  # fmt: skip
        states: list[Tensor] = []
        base = getattr(self.body, "base_model", self.body)
        editing: Any = nullcontext()
        if edit is not None:
            editing = watch(self.body, keep=None, edit=edit, tokenizer=self.tokenizer)
            editing.is_checked = checked  # blocks that are not computed again have been edited before

        def keep(_number: int) -> Any:
            return lambda _module, _args, output: states.append(output[0])

        with hooked([base], keep), editing, torch.inference_mode():
            result = self.forward(dict(inputs))
        of_texts = tuple(in_numpy(states[0][row, : len(of_text)].float()) for row, of_text in enumerate(ids))
        logits = getattr(result, "logits", None)
        if logits is None or not self.writes:
            return Outcome(tuple(ids), of_texts, None)
        ends = torch.tensor([len(of_text) - 1 for of_text in ids])
        last = in_numpy(logits[torch.arange(len(ids)), ends].float())
        if not all_logits:
            return Outcome(tuple(ids), of_texts, lambda: last)
        return Outcome(tuple(ids), of_texts, lambda: last, lambda text, rows: in_numpy(logits[text, rows].float()))


def _padded(ids: Sequence[Sequence[int]], device: Any) -> dict[str, Tensor]:
    longest = max(map(len, ids))
    rows = torch.tensor([[*of_text, *[0] * (longest - len(of_text))] for of_text in ids], device=device)
    real = torch.tensor([[1] * len(of_text) + [0] * (longest - len(of_text)) for of_text in ids], device=device)
    return {"input_ids": rows, "attention_mask": real}


def _blocks(body: nn.Module) -> list[nn.Module]:
    """The blocks of a model with one stack of them, in order; none where there are several."""
    modules = block_modules(body, support_of(body).followed)
    numbers = stack_numbers(tuple(modules))
    if len({stack for stack, _ in numbers.values()}) != 1:
        return []
    by_number = {number: modules[name] for name, (_, number) in numbers.items()}
    in_order = [by_number[number] for number in sorted(by_number)]
    return in_order if sorted(by_number) == list(range(len(by_number))) else []


@contextmanager
def hooked(modules: Sequence[nn.Module], hook_of: Callable[[int], Any], **options: Any) -> Iterator[None]:
    """Call a hook after every forward of some modules: of each the one for its number."""
    hooks = [module.register_forward_hook(hook_of(number), **options) for number, module in enumerate(modules)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _returning(block: nn.Module, result: Any) -> Iterator[None]:
    """Let a block return a result instead of computing it."""
    block.forward = lambda *args, **options: result
    try:
        yield
    finally:
        del block.forward
