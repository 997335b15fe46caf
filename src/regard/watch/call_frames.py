"""Which modules run now, read from the frames of their calls.

No hook is registered on any module: a copy of a watched model has none, an interrupt cannot leave one behind, and
threads and tasks cannot mix, because each has its own frames. What is known of one call of a module is kept in the
keyword arguments of PyTorch's `_wrapped_call_impl`, which nothing reads any more once the call has begun, and goes
with the frame.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType

from torch import Tensor, nn

CALL = nn.Module._wrapped_call_impl.__code__
MARKS = "_regard"
ACTIVE: ContextVar[tuple[Any, ...]] = ContextVar("regard_watch", default=())  # recorders of this thread or task

Marks = dict[Any, Any]  # what each recorder knows of one call of a module
Running = tuple[Any, Marks]  # a module and the marks of its call


def running_modules() -> list[Running]:
    """The modules whose forward runs in this thread, the innermost first, each with the marks of this call."""
    modules = []
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is CALL:
            local = frame.f_locals
            modules.append((local["self"], local["kwargs"].setdefault(MARKS, {})))
        frame = frame.f_back  # type: ignore[assignment]
    return modules


def arguments_of(module: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the forward of a running module was called with; nothing if it does not run."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is CALL and frame.f_locals["self"] is module:
            local = frame.f_locals
            return local["args"], {name: value for name, value in local["kwargs"].items() if name != MARKS}
        frame = frame.f_back  # type: ignore[assignment]
    return (), {}


def owner() -> tuple[int, int]:
    """The thread that runs now, and the asyncio task in it; 0 for none."""
    loop = asyncio._get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    return threading.get_ident(), 0 if task is None else id(task)


def is_alive(who: tuple[int, int]) -> bool:
    """Whether a thread and task may still run the model; tasks of other threads are not asked."""
    thread, task = who
    if not any(runner.ident == thread for runner in threading.enumerate()):
        return False
    loop = asyncio._get_running_loop()
    if not task or loop is None or thread != threading.get_ident():
        return True
    return any(id(runner) == task for runner in asyncio.all_tasks(loop))


class _Thread(threading.local):
    """What is known of the calls of PyTorch's functions in this thread."""

    def __init__(self) -> None:
        self.is_observed = False  # whether they are observed at all
        self.inputs: deque[ReferenceType[Any]] = deque(maxlen=16)  # that entered linear layers since the last attention


THREAD = _Thread()


def keys_come_from_elsewhere(module: Any) -> bool:
    """Whether a running module projects one of its arguments to queries and another one to keys and values.

    The first argument is projected once, the other one at least as often: an embedding of positions, which some models
    project as well, enters once beside three projections of the first argument.
    """
    inputs = [reference() for reference in THREAD.inputs]
    args, options = arguments_of(module)
    counts = [
        (sum(tensor is argument for tensor in inputs), argument.shape)
        for argument in (*args, *options.values())
        if isinstance(argument, Tensor) and argument.is_floating_point() and argument.ndim >= 2
    ]
    projected = [(count, shape) for count, shape in counts if count]
    return any(
        count >= projected[0][0] and shape[0] == projected[0][1][0] and len(shape) == len(projected[0][1])
        for count, shape in projected[1:]
    )
