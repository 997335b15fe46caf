"""AdamW updates as PyTorch's own optimiser class does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from regard.training.optimiser import AdamW  # noqa: E402


def drawn(seed: int, *shape: int):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("clip", [None, 0.5, 1000.0])
def test_updates_are_those_of_pytorchs_class(clip):
    starts = [drawn(1, 3, 4), drawn(2, 5), drawn(3, 2, 3)]
    ours, theirs = ([start.clone().requires_grad_() for start in starts] for _ in range(2))
    adam = AdamW(ours, betas=(0.9, 0.95), weight_decay=0.1)
    groups = [{"params": [theirs[0], theirs[2]], "weight_decay": 0.1}, {"params": [theirs[1]], "weight_decay": 0.0}]
    peer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    for step in range(6):
        rate = 0.1 / (step + 1)
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if (place, step) != (2, 0):  # a tensor without a gradient is left alone
                one.grad, other.grad = (drawn(10 * step + place, *one.shape) for _ in range(2))
        expected = torch.nn.utils.clip_grad_norm_(theirs, float("inf") if clip is None else clip)
        for group in peer.param_groups:
            group["lr"] = rate
        peer.step()
        assert adam.step(rate, clip) == pytest.approx(float(expected), rel=1e-6)
        adam.clear()
        peer.zero_grad()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_updates_nothing(wrong):
    tensor = torch.ones(2, 2, requires_grad=True)
    adam = AdamW([tensor], betas=(0.9, 0.95), weight_decay=0.1)
    tensor.grad = torch.tensor([[1.0, wrong], [0.0, 0.0]])
    norm = adam.step(0.1)
    assert norm != norm or norm == float("inf")
    assert torch.equal(tensor, torch.ones(2, 2)) and not adam.moments[0].exp_avg.any()
