"""The gradient of an activation is PyTorch's, at every magnitude, and can be differentiated again."""

import pytest

from regard.engines import native, select
from regard.layers import Linear

torch = pytest.importorskip("torch")
from regard.engines.torch_arrays import ACTIVATION  # noqa: E402

pytestmark = pytest.mark.skipif(select.NATIVE_PROBLEM is not None, reason=str(select.NATIVE_PROBLEM))

EVERY = torch.cat([torch.linspace(-60, 60, 1003), torch.tensor([0.0, 1e-30, -1e-30, 1e30, -1e30, 3e38, -3e38])])


@pytest.fixture(autouse=True)
def native_engine(monkeypatch):
    """PyTorch's own float32 functions, the other engine, are not exact: gelu(3e38) is inf, and slopes there are NaN."""
    monkeypatch.setattr(select, "WANTED", "native")
    monkeypatch.setattr(select, "_for_tensors", {})


def activated(x, activation):
    one = Linear(torch.ones(1, 1, dtype=x.dtype))
    return one(x[:, None], activation=activation)[:, 0]


@pytest.mark.parametrize("activation", native.SLOPED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_are_pytorchs_in_double_precision(activation, dtype):
    ours, theirs = EVERY.to(dtype).requires_grad_(), EVERY.double().requires_grad_()
    flow = torch.linspace(-1, 2, len(EVERY), dtype=dtype)
    made, expected = activated(ours, activation), ACTIVATION[activation](theirs)
    (gradient,) = torch.autograd.grad(made, ours, flow)
    (right,) = torch.autograd.grad(expected, theirs, flow.double())
    close = {"rtol": 2e-6, "atol": 5e-6} if dtype == torch.float32 else {"rtol": 1e-13, "atol": 1e-13}
    known = right.isfinite()  # PyTorch's own slope at ±1e30 and beyond may be NaN
    torch.testing.assert_close(made.double(), expected, **close)
    torch.testing.assert_close(gradient.double()[known], right[known], **close)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("activation", native.SLOPED)
def test_gradients_of_gradients_match_finite_differences(activation):
    x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: activated(x, activation), (x,))
    assert torch.autograd.gradgradcheck(lambda x: activated(x, activation), (x,))


@pytest.mark.parametrize("activation", native.SLOPED)
def test_nan_stays_nan(activation):
    x = torch.tensor([1.0, float("nan")], requires_grad=True)
    made = activated(x, activation)
    made.sum().backward()
    assert made.isnan().tolist() == x.grad.isnan().tolist() == [False, True]


def test_transposed_rows_and_gradients_keep_their_places():
    x = torch.linspace(-2, 2, 12).reshape(3, 4).requires_grad_()
    weight = torch.eye(3)
    made = Linear(weight)(x.T, activation="gelu_tanh").T
    flow = torch.linspace(0, 1, 12).reshape(4, 3).T
    (gradient,) = torch.autograd.grad(made, x, flow)
    y = x.detach().clone().requires_grad_()
    (right,) = torch.autograd.grad(torch.nn.functional.gelu(y, approximate="tanh"), y, flow)
    torch.testing.assert_close(gradient, right)
