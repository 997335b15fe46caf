"""Several threads at once, `fork` at any time, and the variables that choose threads and instructions."""

from __future__ import annotations

import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import regard
from regard.engines.select import NATIVE_PROBLEM

from .engine_names import ENGINES, as_numpy, for_engine, using
from .properties.cases import KINDS, Case
from .properties.truth import Truth
from .scripts import printed, run

needs_native = pytest.mark.skipif(NATIVE_PROBLEM is not None, reason="threads are the native engine's")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="counts threads and cores as Linux shows them")

ATTEND = """
import os, sys, threading
import numpy as np
import regard

def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)

def attend(seed=0, tokens=600):
    q, k, v = numbers(3, 1, 4, tokens, 32, seed=seed)
    A = regard.Attention(q, k, mask=regard.causal())
    attended = A.attend(v, ("entropy",), top=4)
    return [A @ v, attended.output, attended.entropy, attended.top.index, A.column_sums(), A.pooled((16, 16)).array]

def same(one, other):
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_call_at_once_get_what_they_would_get_alone(engine: str) -> None:
    def attend(seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        shape = (1, 2, 60 + 50 * (seed % 3), 16)
        q, k, v = (for_engine(engine, rng.normal(size=shape).astype(np.float32)) for _ in range(3))
        A = regard.Attention(q, k, mask=regard.window(40))
        attended = A.attend(v, ("entropy",), top=3)
        return [
            as_numpy(a) for a in (A @ v, attended.output, attended.entropy, A.column_sums(), A.pooled((9, 9)).array)
        ]

    with using(engine), ThreadPoolExecutor(6) as threads:
        alone = [attend(seed) for seed in range(6)]
        together = list(threads.map(attend, [seed for _ in range(4) for seed in range(6)]))
    for call, found in enumerate(together):
        for array, expected in zip(found, alone[call % 6], strict=True):
            np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_that_share_one_attention_all_get_its_statistics(engine: str) -> None:
    rng = np.random.default_rng(4)
    q, k = (for_engine(engine, rng.normal(size=(2, 4, 200, 16)).astype(np.float32)) for _ in range(2))
    with using(engine), ThreadPoolExecutor(8) as threads:
        A = regard.Attention(q, k)
        expected = as_numpy(A.copy().entropy())
        for found in threads.map(lambda _: as_numpy(A.entropy()), range(32)):
            np.testing.assert_array_equal(found, expected)


@needs_native
@needs_fork
def test_parent_and_child_both_compute_after_a_fork() -> None:
    program = """
    expected = attend()
    for _ in range(5):
        child = os.fork()
        if child == 0:
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0 if same(attend(), expected) else 3)
            well = os.waitpid(grandchild, 0)[1] == 0 and same(attend(), expected)
            os._exit(0 if well else 4)
        assert same(attend(), expected)
        assert os.waitpid(child, 0)[1] == 0
    print("well")
    """
    assert printed(ATTEND + dedent(program), REGARD_THREADS="3") == "well"


@needs_native
@needs_fork
def test_a_fork_while_other_threads_compute_leaves_both_processes_working() -> None:
    program = """
    expected = attend()
    stop = threading.Event()
    wrong = []

    def keep_computing(seed):
        own = attend(seed)
        while not stop.is_set():
            if not same(attend(seed), own):
                wrong.append(seed)

    busy = [threading.Thread(target=keep_computing, args=(seed,)) for seed in (1, 2)]
    for thread in busy:
        thread.start()
    for _ in range(12):
        child = os.fork()
        if child == 0:
            os._exit(0 if same(attend(), expected) else 3)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in busy:
        thread.join()
    assert not wrong and same(attend(), expected)
    print("well")
    """
    variables = {"REGARD_THREADS": "3", "PYTHONWARNINGS": "ignore::DeprecationWarning"}  # Python warns of such forks
    assert printed(ATTEND + dedent(program), **variables) == "well"


@needs_native
@needs_fork
def test_a_pool_of_forked_processes_computes_in_each_of_them() -> None:
    program = """
    import multiprocessing
    expected = attend(5)
    with multiprocessing.get_context("fork").Pool(3) as processes:
        found = processes.map(attend, [5] * 9)
    assert all(same(one, expected) for one in found)
    print("well")
    """
    variables = {"REGARD_THREADS": "2", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    assert printed(ATTEND + dedent(program), **variables) == "well"


@needs_native
@on_linux
@pytest.mark.parametrize("count", [1, 2, 4])
def test_regard_threads_says_how_many_threads_compute(count: int) -> None:
    program = """
    before = len(os.listdir("/proc/self/task"))
    attend()
    print(regard.engines.engine().threads, 1 + len(os.listdir("/proc/self/task")) - before)
    """
    assert printed(ATTEND + dedent(program), REGARD_THREADS=str(count)) == f"{count} {count}"


@needs_native
def test_results_do_not_depend_on_the_number_of_threads_bit_for_bit() -> None:
    """Blocks of queries are cut by the number of threads; their tiles of keys are not."""
    program = """
    import hashlib
    q, k, v = numbers(3, 1, 2, 1500, 24)
    masks = [None, regard.causal(), regard.window(300), regard.causal() & (regard.window(100) | regard.masks.first(3)),
             regard.masks.documents(lengths=[700, 90, 410, 300]) & regard.causal(), regard.masks.prefix(500)]
    found = hashlib.sha256()
    for mask in masks:
        A = regard.Attention(q, k, mask=mask)
        attended = A.attend(v, ("entropy",), top=3)
        for array in (A @ v, attended.output, attended.entropy, A.column_sums(), A.pooled((30, 25)).array):
            found.update(array.tobytes())
    print(found.hexdigest())
    """
    texts = {printed(ATTEND + dedent(program), REGARD_THREADS=str(count)) for count in (1, 3, 64)}
    assert len(texts) == 1


@needs_native
@on_linux
def test_no_more_threads_than_cores_that_the_process_may_use() -> None:
    program = """
    import os
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import regard
    print(regard.engines.engine().threads)
    """
    assert printed(program) == "1"


# Instruction sets


def fixed_cases() -> list[Case]:
    """A few attentions that take different paths: many queries, one query, every type, masks and biases."""
    rng = np.random.default_rng(8)
    found = []
    for kind in KINDS.values():
        for queries, keys, size, mask in ((70, 150, 24, None), (1, 300, 64, None), (130, 130, 33, regard.causal())):
            q, k, v = (rng.normal(size=(1, 2, n, size)).astype(kind) for n in (queries, keys, keys))
            apart = keys - queries + np.arange(queries)[:, None] - np.arange(keys)
            seen = np.broadcast_to(apart >= 0 if mask is not None else True, (1, 2, queries, keys))
            bias = rng.normal(size=(1, 2, 1, keys)).astype(kind)
            distances = np.abs(apart)[None, None]
            found.append(
                Case(q, k, v, 0.3, seen, distances, mask, bias, bias.astype(float), 5.0, offset=keys - queries)
            )
    return found


COMPUTE = """
import pickle, sys
import regard
cases = pickle.load(open(sys.argv[1], "rb"))
found = []
for q, k, v, options in cases:
    A = regard.Attention(q, k, **options)
    attended = A.attend(v, ("logsumexp", "entropy", "peak", "distance"))
    names = ("output", "logsumexp", "entropy", "peak", "distance")
    found.append({name: getattr(attended, name) for name in names} | {"columns": A.column_sums(), "weights": A.dense()})
pickle.dump(found, open(sys.argv[2], "wb"))
print(regard.engines.engine().instructions.lower())
"""


def runnable() -> list[str]:
    if NATIVE_PROBLEM is not None:
        return []
    from regard import _core

    return list(_core.runnable())


@needs_native
@pytest.mark.parametrize("instructions", runnable())
def test_every_instruction_set_gives_right_results(instructions: str, tmp_path: Any) -> None:
    cases = fixed_cases()
    names = ("scale", "mask", "bias", "softcap", "offset")
    given = [(c.queries, c.keys, c.values, {name: getattr(c, name) for name in names}) for c in cases]
    (tmp_path / "given").write_bytes(pickle.dumps(given))
    arguments = (str(tmp_path / "given"), str(tmp_path / "found"))
    assert instructions in printed(COMPUTE, *arguments, REGARD_ISA=instructions)
    for case, found in zip(cases, pickle.loads((tmp_path / "found").read_bytes()), strict=True):
        truth = Truth(case)
        truth.output().check(found["output"], "output")
        truth.column_sums().check(found["columns"], "columns")
        truth.weight().check(found["weights"], "weights")
        for name in ("logsumexp", "entropy", "peak", "distance"):
            truth.statistic(name).check(found[name], name)


@needs_native
def test_an_instruction_set_that_is_not_there_is_refused_by_name() -> None:
    program = "import numpy, regard; regard.Attention(numpy.ones((3, 2)), numpy.ones((3, 2))) @ numpy.ones((3, 2))"
    ended = run(program, REGARD_ISA="abacus")
    assert ended.returncode == 1
    said = ended.stderr.strip().splitlines()[-1]
    assert "REGARD_ISA=abacus" in said
    assert all(name in said for name in runnable())
