"""Which engine computes, and how it is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import regard
from regard import errors
from regard.engines import select


def test_the_engine_is_named(engine_name: str) -> None:
    named = regard.engines.engine()
    assert named.name == engine_name
    assert engine_name in str(named) and "thread" in str(named)
    assert named.why.startswith("REGARD_ENGINE asks for it")


def test_an_unknown_engine_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "WANTED", "nativ")
    with pytest.raises(errors.OptionError, match="Did you mean 'native'"):
        regard.engines.engine()


def test_a_missing_native_module_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "NATIVE_PROBLEM", "the native module is not built: no compiler")
    monkeypatch.setattr(select, "WANTED", None)
    assert str(regard.engines.engine()).startswith("reference") and "no compiler" in str(regard.engines.engine())
    monkeypatch.setattr(select, "WANTED", "native")
    with pytest.raises(errors.Unsupported, match="no compiler"):
        regard.engines.engine()


@pytest.mark.skipif(select.NATIVE_PROBLEM is not None, reason=f"nothing to set: {select.NATIVE_PROBLEM}")
@pytest.mark.parametrize(("name", "value"), [("REGARD_ISA", "mmx"), ("REGARD_THREADS", "many")])
def test_a_setting_that_cannot_be_is_a_sentence(name: str, value: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "regard", "engine"], env={**os.environ, name: value}, capture_output=True, text=True
    )
    assert finished.returncode == 2
    assert f"{name}={value}" in finished.stderr
    assert "Traceback" not in finished.stderr
