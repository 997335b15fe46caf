"""`torch.compile(fullgraph=True)`: one graph for all lengths, forwards and backwards, that says what the code says.

Compiling takes seconds, so that each case brings together what can be compiled together.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import regard
from regard.engines import select

from .torch_cases import one_thread

torch = pytest.importorskip("torch")

Function = Callable[..., Any]
CLOSE: Any = {"rtol": 1e-5, "atol": 1e-5}  # float32, sums of at most a hundred terms of order one
# PyTorch's compiler warns about itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(select, "_for_tensors", {})
    torch.manual_seed(20240229)
    torch._dynamo.reset()
    with one_thread():
        yield
    torch._dynamo.reset()


def arrays(query: int, key: int, needs_gradient: bool) -> list[Any]:
    """Queries, keys and values: grouped heads, values of another size."""
    shapes = (3, 4, query, 8), (3, 2, key, 8), (3, 2, key, 6)
    return [torch.randn(shape, requires_grad=needs_gradient) for shape in shapes]


def says_the_same(
    function: Function, counts: list[tuple[int, int]], backend: str = "aot_eager", needs_gradient: bool = True
) -> None:
    """Compiled once for all counts of queries and keys, a function gives what it gives, and its gradients."""
    graphs = []

    def counting(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, examples)

    compiled = torch.compile(function, fullgraph=True, dynamic=len(counts) > 1, backend=counting)
    for query, key in counts:
        given = arrays(query, key, needs_gradient)
        expected, found = function(*given), compiled(*given)
        torch.testing.assert_close(found, expected, **CLOSE)
        if needs_gradient:
            flow = [torch.randn_like(output) for output in expected]
            ours, theirs = (
                torch.autograd.grad(outputs, given, flow, allow_unused=True) for outputs in (found, expected)
            )
            torch.testing.assert_close(ours, theirs, **CLOSE)
    assert len(graphs) == 1


COUNTS = [(5, 7), (11, 13), (13, 17)]
SLOPES = torch.rand(4)
TABLE = torch.randn(8, 4)


def test_outputs_of_one_shape() -> None:
    says_the_same(lambda q, k, v: (regard.Attention(q, k) @ v,), COUNTS[:1])


def test_outputs_of_any_length() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        offset = k.shape[2] - q.shape[2]
        plain = regard.Attention(q, k) @ v
        intervals = regard.Attention(q, k, mask=regard.causal() & regard.padding([3, 5, 7]), offset=offset) @ v
        sinks_and_window = regard.Attention(q, k, mask=regard.masks.first(1) | regard.window(2), offset=offset) @ v
        return plain, intervals, sinks_and_window

    says_the_same(attend, COUNTS)


def test_everything_that_changes_scores() -> None:
    slopes, table = SLOPES.clone().requires_grad_(), TABLE.clone().requires_grad_()
    bucketed = regard.biases.relative_positions(table, buckets=8, max_distance=16)

    def attend(q: Any, k: Any, v: Any) -> Any:
        allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(2)
        dense = regard.Attention(q, k, mask=regard.masks.allowed(allowed), bias=q.mean(-1, keepdim=True)) @ v
        sinks = regard.Attention(q, k, sinks=q.mean((0, 2, 3)), softcap=2.0) @ v
        by_slope = regard.Attention(q, k, bias=regard.biases.alibi(slopes), offset=2) @ v
        by_bucket = regard.Attention(q, k, bias=bucketed, similarity="cosine", scale=3.0, offset=0) @ v
        return dense, sinks, by_slope, by_bucket

    says_the_same(attend, COUNTS)


def test_gradients_reach_what_a_lazy_bias_is_made_of() -> None:
    given, slopes = arrays(5, 7, True), SLOPES.clone().requires_grad_()

    def loss(*given: Any) -> Any:
        return (regard.Attention(*given[:2], bias=regard.biases.alibi(slopes), offset=2) @ given[2]).square().sum()

    expected = torch.autograd.grad(loss(*given), slopes)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*given), slopes)
    torch.testing.assert_close(found, expected, **CLOSE)


ODD = regard.masks.where(lambda query, key: (query - key) % 3 != 1)


@pytest.mark.slow
def test_functions_of_positions_and_statistics() -> None:
    """A graph has no place for a Python function as an operand of `@`; `attend` is followed into."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        found = regard.Attention(q, k, mask=ODD, offset=0).attend(v, ("entropy", "distance"), top=3)
        assert found.top is not None
        return found.output, found.entropy, found.distance, found.top.weight

    says_the_same(attend, COUNTS)
    says_the_same(attend, COUNTS, needs_gradient=False)


@pytest.mark.slow
def test_statistics_alone() -> None:
    def look(q: Any, k: Any, v: Any) -> Any:
        A = regard.Attention(q, k, mask=regard.causal(), offset=0)
        return A.logsumexp(), A.column_sums(), A.mT @ q

    says_the_same(look, COUNTS)


FIRST_CALL = """
import torch, regard
graphs = []
def look(q, k):
    A = regard.Attention(q, k, mask=regard.causal(), offset=0)
    return A.logsumexp(), A.column_sums(), A.mT @ q
compiled = torch.compile(look, fullgraph=True, dynamic=True, backend=lambda graph, _: graphs.append(graph) or graph)
for count in (5, 7):
    q, k = torch.randn(2, 4, count, 8), torch.randn(2, 2, count, 8)
    torch.testing.assert_close(compiled(q, k), look(q, k))
assert len(graphs) == 1, len(graphs)
"""


def test_the_first_call_of_a_process_is_compiled_once() -> None:
    """The engine is chosen while PyTorch traces, and loading it later does not invalidate the graph."""
    finished = subprocess.run([sys.executable, "-c", FIRST_CALL], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr[-2000:]


@pytest.mark.slow
def test_with_generated_code() -> None:
    """PyTorch's usual backend, which writes and compiles C++ around the operators."""
    says_the_same(
        lambda q, k, v: (regard.Attention(2 * q, k, mask=regard.causal(), offset=0) @ v.relu() + 1,),
        COUNTS,
        backend="inductor",
    )


def test_operators_keep_their_promises() -> None:
    """Shapes, strides, types and gradients that the graph is told are those that come out."""
    from regard.engines import torch_compile
    from regard.engines.interface import Scores

    for kind, needs_gradient in ((torch.float64, True), (torch.bfloat16, False)):
        queries, keys, values = (array.detach().to(kind).requires_grad_(needs_gradient) for array in arrays(5, 7, True))
        scores = Scores(queries, keys, 0.5, sinks=torch.randn(4, dtype=kind, requires_grad=needs_gradient))
        fixed, tensors = torch_compile.take_apart(scores, values, whole=True)
        given = (*tensors, fixed.scale, fixed.softcap, fixed.relative_zero, fixed.offset)
        torch.library.opcheck(torch_compile._attend, (*given, True))
        with torch.no_grad():
            torch.library.opcheck(
                torch_compile._statistics,
                (*given, "logsumexp,entropy", 3),
                test_utils=("test_schema", "test_faketensor"),
            )
