"""While PyTorch trains, kernels run on its threads: same bits, also after a fork and with other numbers of threads."""

from __future__ import annotations

import os

import numpy as np
import pytest

import regard
from regard.engines import select

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(select.NATIVE_PROBLEM is not None, reason=str(select.NATIVE_PROBLEM))


def trained() -> list[bytes]:
    """Outputs and gradients of a product that is large enough for several threads, as bytes."""
    rng = np.random.default_rng(3)
    rows = torch.from_numpy(rng.normal(size=(3, 67, 3 * 2 * 16)).astype(np.float32)).requires_grad_()
    queries, keys, values = (part.unflatten(-1, (2, 16)).transpose(1, 2) for part in rows.split(32, dim=-1))
    output = regard.Attention(queries, keys, mask=regard.causal()) @ values
    (gradient,) = torch.autograd.grad(output.square().sum(), rows)
    return [output.detach().numpy().tobytes(), gradient.numpy().tobytes()]


def test_borrowed_threads_give_the_same_bits(monkeypatch):
    from regard.engines import torch_autograd

    class Own:
        def __enter__(self) -> None: ...
        def __exit__(self, *problem: object) -> None: ...

    borrowed = trained()
    monkeypatch.setattr(torch_autograd, "BORROWED", Own())
    assert trained() == borrowed


def test_another_number_of_pytorchs_threads_gives_the_same_bits():
    borrowed, count = trained(), torch.get_num_threads()
    try:
        torch.set_num_threads(count + 1)
        assert trained() == borrowed
    finally:
        torch.set_num_threads(count)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    expected = trained()
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # PyTorch's own operations would wait for threads that do not exist here
        os._exit(0 if trained() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
