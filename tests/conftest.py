"""Shared by all tests: the available engines, reproducible random numbers, and the plain dense formulas."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from numpy.typing import NDArray

from .dense import dense_weights
from .effort import FUZZING
from .engine_names import NUMPY_ENGINES, TORCH_ENGINES, using

Array = NDArray[Any]
Draw = Callable[..., Array]

# No deadline and no check for slow data: a test that shares its cores with others is slow, not wrong.
_QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# `make test` draws the same examples on every machine; `make fuzz` (tests/fuzz.py) draws new ones from a seed.
settings.register_profile("regard", derandomize=True, **_QUIET)
settings.register_profile("fuzz", derandomize=False, database=None, print_blob=True, **_QUIET)
settings.load_profile("fuzz" if FUZZING else "regard")
# Hypothesis mixes in constants that it finds in the source of whatever local modules are loaded, so that the examples
# would depend on which tests ran before in the same process. (An internal name: without it, nothing is lost but this.)
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(params=NUMPY_ENGINES)
def engine_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once with each engine that computes NumPy arrays here."""
    with using(request.param):
        yield request.param


@pytest.fixture(params=TORCH_ENGINES)
def tensor_engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test once with each engine that computes PyTorch tensors here."""
    with using(request.param):
        yield request.param


@pytest.fixture
def draw() -> Draw:
    """Normal numbers of any shape, the same in every run."""
    rng = np.random.default_rng(20240229)

    def draw(*shape: int, dtype: Any = np.float64) -> Array:
        return rng.normal(size=shape).astype(dtype)

    return draw


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser per process: Playwright refuses to be started a second time beside a running one."""
    from .chromium import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
def weights() -> Callable[..., Array]:
    """The plain formula for all weights, in float64 and n² memory."""
    return dense_weights


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`make fuzz` ends on time: what has not begun by then is skipped."""
    if time.time() > float(os.environ.get("REGARD_FUZZ_UNTIL", "inf")):
        pytest.skip("the time of `make fuzz` is over")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted or measured: their properties "ran" and "measured"."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    noted = {
        text
        for report in reports
        for name, text in getattr(report, "user_properties", ())
        if name in ("ran", "measured") and getattr(report, "when", "") == "call"
    }
    for text in sorted(noted):
        terminalreporter.write_line(text)
