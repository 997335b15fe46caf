"""The choice of an engine: by the kind of the arrays, by what is built, and by REGARD_ENGINE.

REGARD_ENGINE is read once, when Regard is imported: `reference`, `native` or `torch`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from regard import errors, validate
from regard.engines.interface import Engine

NAMES = ("reference", "native", "torch")
WANTED = os.environ.get("REGARD_ENGINE", "").strip().lower() or None

NATIVE_PROBLEM: str | None = None  # why the native module cannot be used
SETTING_PROBLEM: str | None = None  # what is wrong with REGARD_ISA or REGARD_THREADS
try:
    _core: Any = import_module("regard._core")
    _core.instructions(), _core.threads()  # reads both settings; here, because torch.compile cannot trace these calls
except ImportError as problem:
    NATIVE_PROBLEM = f"the native module is not built: {problem}"
except RuntimeError as problem:
    SETTING_PROBLEM = str(problem)


def _never(queries: Any, keys: Any) -> bool:
    return False


# Whether `Attention` takes queries and keys without further checks. Not to be called while PyTorch compiles.
are_usual = _never if NATIVE_PROBLEM is not None else _core.are_usual

_for_numpy: Engine | None = None  # engines are imported when first used
_for_tensors: dict[bool, Engine] = {}  # by whether the tensor is on the CPU


def engine_for(array: Any) -> Engine:
    """The engine that computes with an array like this one."""
    if not isinstance(array, np.ndarray) and sys.modules["torch"].compiler.is_compiling():
        return _tensor_engine(array.is_cpu)  # a graph would be compiled again whenever the dictionary below changes
    return eager_engine_for(array)


def eager_engine_for(array: Any) -> Engine:
    """The same where PyTorch is known not to compile."""
    if isinstance(array, np.ndarray):
        return _for_numpy or _load_for_numpy()
    return _for_tensors.get(array.is_cpu) or _load_for_tensors(array.is_cpu)


def _load_for_numpy() -> Engine:
    global _for_numpy
    if _use_native():
        from regard.engines import native

        _for_numpy = cast(Engine, native)
    else:
        from regard.engines import generic

        _for_numpy = cast(Engine, generic)
    return _for_numpy


def _load_for_tensors(on_cpu: bool) -> Engine:
    return _for_tensors.setdefault(on_cpu, _tensor_engine(on_cpu))


def _tensor_engine(on_cpu: bool) -> Engine:
    if on_cpu and _use_native() and WANTED != "torch":
        from regard.engines import torch_native

        return cast(Engine, torch_native)
    from regard.engines import torch_engine

    return cast(Engine, torch_engine)


def native_engine() -> Any:
    """The native engine where it computes with NumPy arrays, for passes that other engines do not have; else None."""
    engine = eager_engine_for(_EMPTY)
    return engine if hasattr(engine, "head_sums") else None


_EMPTY = np.empty(0)


def _use_native() -> bool:
    if WANTED is not None:
        validate.choice("REGARD_ENGINE", WANTED, NAMES)
    if WANTED == "native" and NATIVE_PROBLEM is not None:
        raise errors.unsupported("REGARD_ENGINE=native", f"{NATIVE_PROBLEM.capitalize()}.")
    if WANTED == "reference" or NATIVE_PROBLEM is not None:
        return False
    if SETTING_PROBLEM is not None:
        raise errors.OptionError(SETTING_PROBLEM)
    return True


@dataclass(frozen=True)
class EngineInUse:
    """Which engine computes, and why."""

    name: str  # "native", "reference" or "torch"
    why: str
    instructions: str  # the instruction set or the library in use
    threads: int

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        return f"{self.name} ({self.instructions}, {threads}): {self.why}"

    __repr__ = __str__


def engine(array: Any = None) -> EngineInUse:
    """Which engine computes with NumPy arrays, or with arrays like the one given, and why.

    >>> engine().name in ("native", "reference", "torch")
    True
    """
    if array is not None and not isinstance(array, np.ndarray):
        return _engine_for_tensor(array)
    if _use_native():
        why = "REGARD_ENGINE asks for it" if WANTED == "native" else "the fastest engine for NumPy arrays"
        return _native(why)
    why = "REGARD_ENGINE asks for it" if WANTED == "reference" else str(NATIVE_PROBLEM)
    return EngineInUse("reference", why, "NumPy in float64", _cores())


def _engine_for_tensor(array: Any) -> EngineInUse:
    on_cpu = array.device.type == "cpu"
    if on_cpu and _use_native() and WANTED != "torch":
        return _native("the fastest engine for PyTorch tensors on the CPU")
    torch = sys.modules["torch"]
    if not on_cpu:
        why = f"the tensor is on {array.device}"
    elif WANTED is not None:
        why = f"REGARD_ENGINE={WANTED} asks for it"
    else:
        why = str(NATIVE_PROBLEM)
    return EngineInUse("torch", why, f"PyTorch {torch.__version__}", torch.get_num_threads())


def _native(why: str) -> EngineInUse:
    return EngineInUse("native", f"{why}, {_core.why()}", _core.instructions().upper(), _core.threads())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
