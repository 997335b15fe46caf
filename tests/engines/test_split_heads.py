"""Queries, keys and values as parts of one product: gradients are those of `torch.split`, and not copied."""

from __future__ import annotations

import pytest

import regard

torch = pytest.importorskip("torch")

from regard.engines import torch_autograd  # noqa: E402

WIDTHS, HEADS = [12, 6, 6], [4, 2, 2]  # grouped heads


def rows(*shape: int, dtype=None):
    return torch.randn(*shape, 24, generator=torch.Generator().manual_seed(1), dtype=dtype, requires_grad=True)


def plainly(given):
    parts = zip(given.split(WIDTHS, dim=-1), HEADS, strict=True)
    return [part.unflatten(-1, (count, -1)).transpose(-3, -2) for part, count in parts]


@pytest.mark.parametrize("shape", [(7,), (3, 7), (1, 1), (3, 0)])
@pytest.mark.parametrize("used", [(0, 1, 2), (0, 2), (1,)])
def test_values_and_gradients_are_those_of_a_plain_split(shape, used):
    given = rows(*shape)
    found, expected = torch_autograd.split_heads(given, WIDTHS, HEADS), plainly(given)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()
    gradients = [
        torch.autograd.grad(sum((place + 1) * parts[place].pow(3).sum() for place in used), given)[0]
        for parts in (found, expected)
    ]
    assert torch.equal(*gradients)


def test_the_gradients_of_attention_are_not_copied(monkeypatch):
    given = rows(3, 7)
    queries, keys, values = torch_autograd.split_heads(given, [8, 8, 8], [2, 2, 2])
    output = regard.Attention(queries, keys, mask=regard.causal()) @ values
    assert output.transpose(1, 2).is_contiguous()  # heads are joined without a copy

    def copied(*parts, **options):
        raise AssertionError("copied")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "cat", copied)
        (gradient,) = torch.autograd.grad(output.sum(), given, retain_graph=True)
    plain = [part.unflatten(-1, (2, 4)).transpose(-3, -2) for part in given.split(8, dim=-1)]
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(*plain, attn_mask=mask)
    (right,) = torch.autograd.grad(expected.sum(), given)
    torch.testing.assert_close(gradient, right)


def test_second_derivatives_and_batched_gradients_are_right():
    given = rows(2, 3, dtype=torch.float64)

    def cubes(given):
        return sum(part.pow(3).sum() for part in torch_autograd.split_heads(given, WIDTHS, HEADS))

    assert torch.autograd.gradgradcheck(cubes, (given,))
    flows = torch.randn(5, 2, 2, 3, 3, dtype=torch.float64)
    parts = torch_autograd.split_heads(given, WIDTHS, HEADS)
    (batched,) = torch.autograd.grad(parts[1], given, flows, is_grads_batched=True, retain_graph=True)
    one_by_one = [torch.autograd.grad(parts[1], given, flow, retain_graph=True)[0] for flow in flows]
    assert torch.equal(batched, torch.stack(one_by_one))
    assert torch.equal(torch.func.grad(cubes)(given.detach()), 3 * given.detach().square())
