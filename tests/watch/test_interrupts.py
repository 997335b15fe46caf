"""Threads, tasks, copies and interrupts: whatever happens inside or around the block, nothing is left behind."""

import asyncio
import copy
import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import regard
from regard.watch import interface, session, torch_calls
from regard.watch.call_frames import ACTIVE

from .models import llama, tokens
from .test_recogniser import Own, by_matmul, draw


def left_behind(*models):
    """All that watching may leave: modes, registered recorders, configurations, hooks."""
    hooks = [one for model in models for one in model.modules() if one._forward_hooks or one._forward_pre_hooks]
    names = [model.config._attn_implementation for model in models if hasattr(model, "config")]
    return [
        *_get_current_function_mode_stack(), *interface.RECORDERS, *interface.ORIGINALS, *hooks,
        *(name for name in names if name == interface.NAME), *(one for one in ACTIVE.get()),
    ]  # fmt: skip


class Interrupted(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt


def test_an_interrupt_inside_a_forward_leaves_nothing():
    model = nn.Sequential(Own(by_matmul), Interrupted()).eval()
    with pytest.raises(KeyboardInterrupt), regard.watch(model):
        model(draw(1, 5, 32))
    assert not left_behind(model)
    with regard.watch(model) as seen:  # caught inside: the block goes on
        with pytest.raises(KeyboardInterrupt):
            model(draw(1, 5, 32))
        model[0](draw(1, 6, 32))
    assert seen.layers[0].attention.shape[-1] == 6 and not left_behind(model)


class Counter(TorchFunctionMode):
    """A mode of the user's own."""

    calls = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.calls += 1
        return function(*args, **(kwargs or {}))


def test_modes_of_others_stay_in_place():
    model, other = Own(by_matmul).eval(), Counter()
    watching = regard.watch(model)
    seen = watching.__enter__()
    other.__enter__()
    model(draw(1, 5, 32))
    watching.__exit__(None, None, None)
    assert _get_current_function_mode_stack() == [other]
    other.__exit__(None, None, None)
    assert len(list(seen)) == 1 and other.calls


def interrupt(model, at, event):
    """Raise KeyboardInterrupt at one line, or call, of the code that enters and leaves a block; which there were."""
    files = {session.__file__, torch_calls.__file__}
    names = {
        "__enter__", "__exit__", "_leave", "start", "stop", "_register", "_unregister", "_switch", "_restore",
        "observe", "stop_observing",
    }  # fmt: skip
    lines = []

    def trace(frame, kind, _):
        if frame.f_code.co_filename not in files or frame.f_code.co_name not in names:
            return None
        if kind == event:
            lines.append((frame.f_code.co_name, frame.f_lineno))
            if len(lines) == at:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        with regard.watch(model), regard.watch(model, keep="summary"):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("event", ["line", "call"])
def test_an_interrupt_at_any_line_of_entering_or_leaving_leaves_nothing(event):
    from transformers import LlamaConfig, LlamaModel

    model = LlamaModel(
        LlamaConfig(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    )
    lines = interrupt(model, None, event)
    assert len(lines) > 10 and not left_behind(model)
    for at, line in enumerate(lines, 1):
        if lines[:at].count(line) <= 2:  # loops over modules repeat theirs
            interrupt(model, at, event)
            assert not left_behind(model), line
            assert not interface.LOCK._is_owned()  # type: ignore[attr-defined]


def test_tasks_record_their_own_passes():
    model, block = llama(), Own(by_matmul).eval()
    seen = {}

    async def read(length):
        with regard.watch(model) as mine, regard.watch(block) as own:
            await asyncio.sleep(0)
            model(tokens(1, length))
            await asyncio.sleep(0)
            block(draw(1, length, 32))
            await asyncio.sleep(0)
            seen[length] = mine, own
        await asyncio.sleep(0)

    async def everything():
        await asyncio.gather(*(read(length) for length in (4, 5, 6, 7)))

    with ThreadPoolExecutor(1) as thread:  # in this one, Playwright's loop may be running
        thread.submit(lambda: asyncio.run(everything())).result()
    for length, pair in seen.items():
        for one in pair:
            assert all(len(layer.recorded) == 1 for layer in one)
            assert {layer.attention.shape[-1] for layer in one} == {length}
    assert not left_behind(model, block)


def test_threads_see_layers_under_their_own_names():
    model = nn.Sequential(*(Own(by_matmul) for _ in range(3))).eval()
    found, start = [], threading.Barrier(6)

    def read():
        start.wait()
        for _ in range(10):
            with regard.watch(model) as seen, torch.no_grad():
                model(draw(1, 4, 32))
            found.append([(layer.name, layer.number, len(layer.recorded)) for layer in seen])

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[("0", 0, 1), ("1", 1, 1), ("2", 2, 1)]] * 60
    assert not left_behind(model)


@pytest.mark.parametrize("make", [llama, lambda: nn.Sequential(Own(by_matmul)).eval()])
def test_a_copy_made_inside_the_block_is_an_ordinary_model(make):
    model = make()
    given = tokens(1, 4) if hasattr(model, "config") else draw(1, 4, 32)
    file = io.BytesIO()
    with regard.watch(model) as seen, torch.no_grad():
        model(given)
        other = copy.deepcopy(model)
        if hasattr(model, "config"):  # a lambda cannot be pickled
            torch.save(model, file)
        other(given)
    assert all(len(layer.recorded) == 1 for layer in seen)
    assert not left_behind(model, other)
    torch.save(other if hasattr(model, "config") else other.state_dict(), io.BytesIO())
    if hasattr(model, "config"):
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        assert not left_behind(loaded) and torch.equal(loaded(given).logits, model(given).logits)
