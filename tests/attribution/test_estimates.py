"""First-order estimates equal gradient × activation of transformers, and prompts are what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attribution import prompts
from regard.attribution.estimates import agreement, first_order

from ..models.checkpoints import torch
from ..small_models import encoder
from .cases import TEXT, readers


@pytest.mark.parametrize(("kind", "outputs", "heads"), [("gpt2", "attn.c_proj", 4), ("llama", "o_proj", 6)])
def test_estimates_equal_gradient_times_activation_in_transformers(
    folders: Any, kind: str, outputs: str, heads: int
) -> None:
    made = folders(kind)
    reader = readers(kind, made)[1]
    ids, (cat, mat) = reader.tokeniser.encode(TEXT).ids, reader.tokeniser.encode("cat mat", special=False).ids[:2]
    twin, inputs = made.twin.double(), []

    def keep(_module: Any, args: Any) -> Any:
        rows = args[0].detach().requires_grad_() if not args[0].requires_grad else args[0]
        rows.retain_grad()
        inputs.append(rows)
        return (rows,)

    hooks = [part.register_forward_pre_hook(keep) for name, part in twin.named_modules() if name.endswith(outputs)]
    try:
        logits = twin(torch.tensor([ids])).logits[0, -1]
        (logits[cat] - logits[mat]).backward()
    finally:
        for hook in hooks:
            hook.remove()
        twin.float()
    products = [-(rows.grad * rows.detach())[0].reshape(len(ids), heads, -1).sum((0, 2)).numpy() for rows in inputs]
    estimates = first_order(reader, [TEXT, "dogs ran"], ["cat", "cat"], ["mat", "mat"])
    assert estimates.shape == (2, 3, heads)
    np.testing.assert_allclose(estimates[0], products, atol=1e-4)


def test_gradients_that_were_not_recorded_are_refused_in_a_sentence(folders: Any) -> None:
    with pytest.raises(errors.Unsupported, match="gradients were not recorded"):
        first_order(readers("llama", folders("llama"))[0], [TEXT], ["cat"])
    with pytest.raises(errors.Unsupported, match="no unembedding"):
        first_order(encoder(), ["the kids left"], ["kids"])


def test_agreement_of_ranks_and_of_numbers() -> None:
    numbers = np.array([[3.0, 1.0], [2.0, 4.0]])
    assert agreement(numbers, numbers * 2 + 1) == pytest.approx((1, 1))
    assert agreement(numbers, -(numbers**3))[1] == pytest.approx(-1)


class WholeWords:
    """A reader whose words are all single tokens."""

    name = "whole words"

    @property
    def tokeniser(self) -> Any:
        return self

    def encode(self, text: str, *, special: bool = True) -> Any:
        from regard.reading.reader import Encoded

        words = text.split()
        return Encoded([hash(word) for word in words], words, [], [], [])


@pytest.mark.parametrize("kind", ["indirect_objects", "pronouns", "number_agreement", "induction"])
def test_prompts_differ_and_are_the_same_for_a_seed(kind: str) -> None:
    generate, reader = getattr(prompts, kind), WholeWords()
    chosen = generate(reader, 50, seed=3)
    assert len({prompt.text for prompt in chosen}) == 50 and chosen == generate(reader, 50, seed=3)
    assert chosen != generate(reader, 50, seed=4)
    for text, answer, other in chosen:
        assert answer != other and answer[0] == other[0] == " "
        if kind == "indirect_objects":
            assert text.count(answer.strip()) == 1 and text.count(other.strip()) == 2
        if kind == "induction":
            words = text.split()
            assert words[words.index(words[-1]) + 1] == answer.strip()


def test_words_of_several_tokens_are_left_out(folders: Any) -> None:
    with pytest.raises(errors.Unsupported, match="only 0 of 24 words"):
        prompts.indirect_objects(WholeLetters(), 10)  # type: ignore[arg-type]


class WholeLetters(WholeWords):
    """A reader whose tokens are letters."""

    def encode(self, text: str, *, special: bool = True) -> Any:
        return super().encode(" ".join(text))
