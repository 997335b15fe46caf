# ruff: noqa: BLE001, NPY002, T201 (a model that fails in any way is a row; testers draw from NumPy's old generator)
"""Watch every model of transformers' own test suite, and write the table of the documentation.

    python docs/survey_watch.py CHECKOUT RESULTS.jsonl [FOLDER ...] [--again OUTCOME ...] [--table PAGE]

CHECKOUT is a checkout of transformers: its tests have a tiny configuration and inputs for each model folder. Each
folder runs in a process of its own and becomes one line of RESULTS; a second run repeats only what other code wrote.

Truth is independent of what records: the same model runs unwatched while a `TorchDispatchMode` keeps each softmax over
the last axis whose result is then multiplied with values, under the name of the module that ran.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import importlib
import inspect
import json
import math
import multiprocessing
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

# Of weights, and of outputs relative to their largest number: float32 sums in another order, which layers amplify
# (1.2e-5 in Gemma 4 on one machine, 5e-6 on another).
TOLERANCE = 3e-5
MEMORY, SECONDS = 10 << 30, 900  # of the process of one folder
SEED = 5
PRODUCTS = {"bmm", "mm", "baddbmm", "addmm", "matmul"}
FUSED = re.compile(r"_scaled_dot_product|_native_multi_head_attention|_transformer_encoder_layer_fwd|_flash_attention")
# Operations after which weights are still weights.
WEIGHTS_GO_ON = {
    "_to_copy", "clone", "mul", "div", "native_dropout", "where", "masked_fill", "nan_to_num", "cat", "index_select",
    "index", "constant_pad_nd", "add", "sub", "pow", "copy", "contiguous", "slice", "gather", "roll", "_unsafe_view",
}  # fmt: skip
# Operations after which the output of a linear layer is still one.
SCORES_GO_ON = {"mul", "add", "sub", "div", "_to_copy", "clone", "slice", "cat", "masked_fill", "_unsafe_view"}
OUTCOMES = (
    "crashes", "wrong", "silently partial", "partial", "refused", "not built", "recognised", "equal", "no attention",
    "no model",
)  # fmt: skip  # worst first: the row of a folder has the worst of its models


# Truth: what a model computes unwatched


@dataclass
class Softmax:
    """One softmax that ran: where, and its weights (…, query, key)."""

    module: str
    weights: Tensor
    used: bool = False  # whether a product with values followed
    linear: bool = False  # whether its scores are one linear layer, as those of a router, and no product of two vectors


class Softmaxes(TorchDispatchMode):  # type: ignore[misc]
    """Keeps every softmax over the last axis, and notices which of them weigh values."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.running: list[str] = []
        self.all: list[Softmax] = []
        self.fused: list[str] = []  # modules that called fused attention
        self.parameters = {_storage(one) for one in (*model.parameters(), *model.buffers())}
        self.linear: set[int] = set()  # storages that hold outputs of linear layers
        self.known: dict[int, list[Softmax]] = {}  # by storage, which stays alive so that no other gets its address
        self.alive: list[Tensor] = []
        self.hooks: list[Any] = []

    def __enter__(self) -> Softmaxes:
        for name, module in self.model.named_modules():
            called = name or type(module).__name__
            self.hooks.append(module.register_forward_pre_hook(lambda *_, called=called: self.running.append(called)))
            self.hooks.append(module.register_forward_hook(lambda *_: _pop(self.running), always_call=True))
        super().__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        super().__exit__(*problem)
        for hook in self.hooks:
            hook.remove()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, and note what was computed."""
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if FUSED.search(name):
            self.fused.append(self._module())
        tensors = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        learned = [_storage(one) in self.parameters for one in tensors]
        if (name in PRODUCTS and any(learned)) or (
            name in SCORES_GO_ON
            and all(known or _storage(one) in self.linear for one, known in zip(tensors, learned, strict=True))
        ):
            for part in torch.utils._pytree.tree_leaves(result):
                if isinstance(part, Tensor) and _storage(part) not in self.parameters:
                    self.linear.add(_storage(part))
                    self.alive.append(part)
        sources = [softmax for tensor in tensors for softmax in self.known.get(_storage(tensor), ())]
        if name in PRODUCTS:
            matrices = [tensor for tensor in args if isinstance(tensor, Tensor)][-2:]
            for matrix in matrices:
                for softmax in self.known.get(_storage(matrix), ()):
                    if softmax.weights.shape[-1] in (matrices[0].shape[-1], matrices[0].shape[-1] + 1):
                        softmax.used = True
        elif name in ("_softmax", "_safe_softmax", "softmax"):
            scores, axis = args[0], args[1]
            if scores.ndim >= 3 and axis % scores.ndim == scores.ndim - 1:
                softmax = Softmax(self._module(), result.detach().clone(), linear=_storage(scores) in self.linear)
                self.all.append(softmax)
                self._follow(result, [softmax])
        elif sources and name in WEIGHTS_GO_ON:
            for part in torch.utils._pytree.tree_leaves(result):
                if isinstance(part, Tensor):
                    self._follow(part, sources)
        return result

    def _module(self) -> str:
        return self.running[-1] if self.running else ""

    def _follow(self, tensor: Tensor, softmaxes: list[Softmax]) -> None:
        here = self.known.setdefault(_storage(tensor), [])
        here += [softmax for softmax in softmaxes if all(softmax is not other for other in here)]
        self.alive.append(tensor)

    @property
    def attentions(self) -> list[Softmax]:
        """Those whose weights were multiplied with values."""
        return [softmax for softmax in self.all if softmax.used and not softmax.linear]


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # a tensor without memory
        return -id(tensor)


def _pop(running: list[str]) -> None:
    if running:
        running.pop()


# One model


@dataclass
class Watched:
    """What watching a model with one attention implementation gave."""

    implementation: str
    gradients: bool
    outcome: str = "equal"
    note: str = ""
    output: float = 0.0  # difference of outputs from the unwatched ones, relative
    weights: float = 0.0  # largest difference of a weight from the eager softmax
    recorded: int = 0
    matched: int = 0
    returned: int = 0  # attentions that the model returns
    returned_matched: int = 0
    hidden_rows: int = 0  # of queries that see no key, which eager attention fills with 1 / keys
    unseen: list[str] = field(default_factory=list)  # modules
    named: list[str] = field(default_factory=list)  # modules that the certificate names as unseen


@dataclass
class Case:
    """One model class of a folder, with the tiny configuration of its tester."""

    test: str
    model: str = ""
    outcome: str = "not built"
    note: str = ""
    attentions: int = 0
    softmaxes: int = 0
    fused: int = 0
    peak: float = 0.0  # mean of the largest weight of a row, times the number of keys: 1 is uniform
    watched: list[Watched] = field(default_factory=list)


def survey_case(test_class: type) -> Case:
    """Build the model of a test class, run it, watch it, compare."""
    case = Case(test_class.__name__)
    try:
        model, inputs = _build(test_class, case)
    except _NoModel as problem:
        case.outcome, case.note = "no model", str(problem)
        return case
    except Exception as problem:
        case.note = _last_line(problem)
        return case
    case.model = type(model).__name__
    default = " and ".join(sorted(map(str, _implementations(model)))) or "eager"
    try:
        eager = _with_eager(model)
        truths = {"eager": _truth(eager, inputs)}
        truths.setdefault(default, _truth(model, inputs) if default != "eager" else truths["eager"])
        all_returned = _returned_attentions(eager, inputs)
        returned = [part for part in all_returned if _is_among(part, truths["eager"].attentions)]
    except Exception as problem:
        case.note = "unwatched: " + _last_line(problem)
        return case
    truth = truths["eager"]
    case.attentions, case.softmaxes, case.fused = len(truth.attentions), len(truth.all), len(truth.fused)
    peaks = [float(one.weights.float().amax(-1).mean()) * one.weights.shape[-1] for one in truth.attentions]
    case.peak = round(sum(peaks) / max(len(peaks), 1), 3)
    kinds = [("eager", eager, False)] if default == "eager" else [(default, model, False), ("eager", eager, False)]
    for implementation, variant, gradients in (*kinds, (default, model, True)):
        watched = Watched(implementation, gradients)
        expected = returned if implementation == "eager" else []
        _watch(watched, variant, inputs, truths[implementation], expected)
        case.watched.append(watched)
    case.outcome = min((one.outcome for one in case.watched), key=OUTCOMES.index)
    if case.outcome == "no attention" and all_returned:
        case.outcome = "wrong"  # attention in another form, which the model returns
    case.note = next((one.note for one in case.watched if one.outcome == case.outcome), "")
    return case


def _truth(model: Any, inputs: dict[str, Any]) -> Softmaxes:
    with _unfused(), Softmaxes(model) as softmaxes:
        _run(model, inputs)
    return softmaxes


@contextmanager
def _unfused() -> Iterator[None]:
    """Let PyTorch compute its own attention step by step, so that its softmax can be seen."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _is_among(returned: Tensor, softmaxes: list[Softmax]) -> bool:
    """Whether a model returns these weights of a softmax: some return other things under the name of attentions."""
    return any(_fits(returned, one.weights) and _apart(returned, one.weights)[0] <= TOLERANCE for one in softmaxes)


class _NoModel(Exception):
    pass


def _build(test_class: type, case: Case) -> tuple[Any, dict[str, Any]]:
    _seed()
    test: Any = test_class(next(name for name in dir(test_class) if name.startswith("test")))
    test.setUp()
    tester = test.model_tester
    prepare = getattr(tester, "prepare_config_and_inputs_for_common", None) or tester.prepare_config_and_inputs
    config, inputs = prepare()[:2]
    kinds = list(getattr(test, "all_model_classes", None) or ())
    if not kinds:
        raise _NoModel("no model class")
    kind = kinds[0]
    case.model = kind.__name__
    inputs = test._prepare_for_class(copy.deepcopy(inputs), kind)
    _seed()
    model = kind(copy.deepcopy(config)).eval()
    before = copy.deepcopy(model.state_dict())
    _sharpen(model)
    try:
        if not all(
            bool(torch.isfinite(part).all()) for part in _tensors(_run(model, inputs)) if part.is_floating_point()
        ):
            raise FloatingPointError
    except Exception:  # weights of this size are not for this model
        model.load_state_dict(before)
        _run(model, inputs)
    return model, inputs


def _sharpen(model: nn.Module) -> None:
    """Weights that are large enough for attention to be far from uniform, so that the comparison means something."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name.lower() and weight.is_floating_point():
                weight.normal_(0, 1 / math.sqrt(weight.shape[1]))
            elif weight.is_floating_point() and not bool((weight.abs() < 1e3).all()):  # memory that was never set
                weight.normal_(0, 0.1)


def _with_eager(model: Any) -> Any:
    """The same model with its eager attention, all configurations inside it included."""
    other = copy.deepcopy(model)
    if other.config._attn_implementation != "eager" or _implementations(other) != {"eager"}:
        other.set_attn_implementation("eager")
        for module in other.modules():
            config: Any = getattr(module, "config", None)
            if getattr(config, "_attn_implementation_internal", "eager") not in ("eager", None):
                config._attn_implementation_internal = "eager"
    return other


def _implementations(model: Any) -> set[Any]:
    configs: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    return {config._attn_implementation for config in configs if hasattr(config, "_attn_implementation")}


def _seed() -> None:
    import numpy

    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)


def _run(model: Any, inputs: dict[str, Any], gradients: bool = False, **options: Any) -> Any:
    """One forward pass, from the same seed and untouched inputs."""
    _seed()
    with torch.set_grad_enabled(gradients), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(**{**copy.deepcopy(inputs), **options})


def _returned_attentions(model: Any, inputs: dict[str, Any]) -> list[Tensor]:
    """The attentions that the model itself returns, under all names."""
    if "output_attentions" in inputs:
        inputs = {name: value for name, value in inputs.items() if name != "output_attentions"}
    try:
        output = _run(model, inputs, output_attentions=True)
    except Exception:
        return []
    if not hasattr(output, "items"):
        return []
    return [part for name, value in output.items() if "attention" in name for part in _tensors(value) if part.ndim >= 3]


def _watch(watched: Watched, model: Any, inputs: dict[str, Any], truth: Softmaxes, returned: list[Tensor]) -> None:
    """Watch a model and fill in how it went."""
    import regard

    attentions, gradients = truth.attentions, watched.gradients
    watched.returned = len(returned)
    plain = _tensors(_run(model, inputs, gradients))
    again = _tensors(_run(model, inputs, gradients))
    seen: Any = None
    try:
        with regard.watch(model, runs=None) as seen:
            outputs = _tensors(_run(model, inputs, gradients))
    except regard.errors.Unsupported as problem:
        has_attention = attentions or truth.fused or "has no attention" not in str(problem)
        watched.outcome = "refused" if has_attention else "no attention"
        watched.note = str(problem).partition("\n")[0]
        return
    except Exception as problem:
        watched.outcome, watched.note = "crashes", _last_line(problem)
        return
    try:
        layers = _recorded_weights(seen)
    except Exception as problem:
        watched.outcome, watched.note = "crashes", "reading weights: " + _last_line(problem)
        return
    watched.recorded = len(layers)
    watched.output = _difference(plain, outputs)
    noise = _difference(plain, again)
    _compare(watched, layers, attentions, truth.fused)
    watched.returned_matched = sum(_takes(part, layers) for part in returned)
    certificate = getattr(seen, "certificate", None)
    watched.named = sorted(set(getattr(certificate, "unseen", ())))
    recognised = any(layer.recognised for layer in layers)
    if not layers and not attentions and not truth.fused:
        watched.outcome = "no attention"
    elif watched.weights > TOLERANCE or (watched.output > TOLERANCE and watched.output > 4 * noise):
        watched.outcome = "wrong"
    elif watched.unseen:
        named = set(watched.unseen) <= set(watched.named)
        watched.outcome = "partial" if named else "silently partial"
    elif watched.returned_matched < len(returned):
        watched.outcome = "wrong"
    elif watched.named:
        watched.outcome = "partial"
    else:
        watched.outcome = "recognised" if recognised else "equal"


@dataclass
class Recorded:
    """The weights of one recorded attention."""

    module: str
    weights: Tensor  # (batch, head, query, key)
    parts: list[int]  # lengths of the parts of a sequence that attend to themselves
    recognised: bool
    taken: bool = False


def _recorded_weights(seen: Any) -> list[Recorded]:
    layers = []
    for layer in list(seen) if seen._recorder.watched() else []:
        name = layer.name.partition(" (call ")[0]
        for run in layer.runs:
            weights = torch.as_tensor(run.attention().dense()).detach().float()
            if run.joined().sinks is not None:  # their share is no key's
                weights = weights / weights.sum(-1, keepdim=True)
            parts = list(run.parts)
            layers.append(Recorded(name, weights, parts, bool(getattr(layer, "is_recognised", False))))
    return layers


def _compare(watched: Watched, layers: list[Recorded], attentions: list[Softmax], fused: list[str]) -> None:
    """Give every softmax its recorded attention: of the same module where there is one, in order."""
    unmatched: list[str] = []
    blocks = [block for layer in layers for block in _blocks(layer)]
    for softmax in attentions:
        same = [block for block in blocks if not block.taken and _fits(block.weights, softmax.weights)]
        inside = [block for block in same if _related(block.module, softmax.module)]
        best = min(inside or same, key=lambda block: _apart(block.weights, softmax.weights)[0], default=None)
        if best is None or (not inside and _apart(best.weights, softmax.weights)[0] > TOLERANCE):
            unmatched.append(softmax.module)
            continue
        best.taken = True
        apart, hidden = _apart(best.weights, softmax.weights)
        watched.weights, watched.hidden_rows = max(watched.weights, apart), watched.hidden_rows + hidden
        watched.matched += 1
    for module in fused:
        block = next((block for block in blocks if not block.taken and _related(block.module, module)), None)
        if block is None:
            unmatched.append(module)
        else:
            block.taken = True
    watched.unseen = sorted(unmatched)


def _related(one: str, other: str) -> bool:
    return one == other or one.startswith(other + ".") or other.startswith(one + ".")


def _blocks(layer: Recorded) -> Iterator[Recorded]:
    """The parts of a sequence that attend to themselves, or the whole matrix."""
    if len(layer.parts) < 2 or sum(layer.parts) != layer.weights.shape[-1]:
        yield layer
        return
    start = 0
    for size in layer.parts:
        part = slice(start, start + size)
        yield Recorded(layer.module, layer.weights[:, :, part, part], [size], layer.recognised)
        start += size


def _fits(recorded: Tensor, weights: Tensor) -> bool:
    """Whether both can be the same matrix.

    A learned sink may be one more key of the softmax; last keys that no query sees may be in one of them only.
    """
    keys, others = recorded.shape[-1], weights.shape[-1]
    least = min(keys, others)
    if not least or weights.shape[:-1].numel() != recorded.shape[:-1].numel():
        return False
    rest = bool(weights[..., least:].any()) or bool(recorded[..., least:].any())
    return weights.shape[-2] == recorded.shape[-2] and (others == keys + 1 or not rest)


def _apart(recorded: Tensor, weights: Tensor) -> tuple[float, int]:
    """The largest difference of a weight, and how many rows see no key.

    A sink that is one more key of the softmax, its first or its last, is taken out of it.
    """
    keys = min(recorded.shape[-1], weights.shape[-1])
    recorded = recorded[..., :keys].reshape(-1, keys)
    weights = weights.float().reshape(-1, weights.shape[-1])
    if not recorded.numel():
        return 0.0, 0
    parts = [weights[:, :keys]]
    if weights.shape[-1] == keys + 1:
        parts += [part / part.sum(-1, keepdim=True) for part in (weights[:, :-1], weights[:, 1:])]
    hidden = recorded.sum(-1) == 0
    counted = ~hidden if bool(hidden.any()) and not bool(hidden.all()) else slice(None)
    least = min(float(_differences(recorded, part)[counted].max()) for part in parts)
    return least, int(hidden.sum())


def _differences(one: Tensor, other: Tensor) -> Tensor:
    """What is not a number in both is equal."""
    apart = torch.where(one.isnan() & other.isnan(), 0.0, (one - other).abs())
    return torch.where(apart.isnan(), math.inf, apart)


def _takes(returned: Tensor, layers: list[Recorded]) -> bool:
    """Whether a recorded attention equals a returned one; a sink's share is missing from its rows or is not."""
    forms = (returned, returned / returned.sum(-1, keepdim=True))
    return any(
        _fits(block.weights, form) and _apart(block.weights, form)[0] <= TOLERANCE
        for layer in layers
        for block in (layer, *_blocks(layer))
        for form in forms
    )


def _tensors(value: Any) -> list[Tensor]:
    """All tensors of an output, in order; caches are left out."""
    if isinstance(value, Tensor):
        return [value.detach()]
    if isinstance(value, dict):
        return [part for one in value.values() for part in _tensors(one)]
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in _tensors(one)]
    return []


def _difference(expected: list[Tensor], outputs: list[Tensor]) -> float:
    """The largest difference relative to the largest number; infinite if the outputs are of other shapes."""
    if [part.shape for part in expected] != [part.shape for part in outputs]:
        return math.inf
    worst = 0.0
    for one, other in zip(expected, outputs, strict=True):
        if not one.numel():
            continue
        if not (one.is_floating_point() or one.is_complex()):
            worst = max(worst, 0.0 if torch.equal(one, other) else math.inf)
            continue
        if not torch.equal(torch.isfinite(one), torch.isfinite(other)):
            return math.inf
        one, other = torch.nan_to_num(one).abs().double(), torch.nan_to_num(other).abs().double()
        worst = max(worst, float((one - other).abs().max() / one.max().clamp(min=1e-30)))
    return worst


def _last_line(problem: BaseException) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    inside = [frame for frame in frames if "/regard/" in frame.filename]
    through = f" via regard {Path(inside[-1].filename).name}:{inside[-1].lineno}" if inside else ""
    text = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {text[:240]}{where}{through}"


# One folder


def survey_folder(folder: str) -> dict[str, Any]:
    """The row of one model folder."""
    files = sorted(Path("tests/models", folder).glob("test_modeling_*.py"))
    cases: list[Case] = []
    for file in files:
        try:
            module = import_past_missing_names(f"tests.models.{folder}.{file.stem}")
        except BaseException as problem:
            cases.append(Case(file.stem, note=_last_line(problem)))
            continue
        tests = [
            value
            for value in vars(module).values()
            if inspect.isclass(value) and issubclass(value, unittest.TestCase) and hasattr(value, "_prepare_for_class")
            if value.__module__ == module.__name__
        ]
        cases += [survey_case(test) for test in tests]
    kept = [case for case in cases if case.outcome != "no model"]
    outcome = min((case.outcome for case in kept), key=OUTCOMES.index, default="no model")
    return {"folder": folder, "outcome": outcome, "cases": [asdict(case) for case in cases]}


def import_past_missing_names(name: str) -> types.ModuleType:
    """Import a module of the tests, whose version of transformers may have other helpers than the installed one.

    A helper that is missing is replaced by a function that fails when it is called.
    """
    for _ in range(40):
        try:
            return importlib.import_module(name)
        except ImportError as problem:
            missing = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(problem))
            if missing is None:
                raise
            setattr(sys.modules[missing[2]], missing[1], _missing_helper)
    raise ImportError(name)


def _missing_helper(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("a helper that this version of transformers lacks")


# All folders


def _child(folder: str, connection: Connection) -> None:
    """Survey one folder and send its row."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    connection.send(survey_folder(folder))
    connection.close()


def survey(folders: list[str], write: Callable[[dict[str, Any]], None], jobs: int) -> None:
    """Survey folders in processes of their own, a few at a time; a process that dies is a row as well."""
    context = multiprocessing.get_context("fork")
    waiting = list(folders)
    running: dict[str, tuple[Any, Connection, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            folder = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(folder, theirs), daemon=True)
            process.start()
            theirs.close()
            running[folder] = process, ours, time.monotonic()
        for folder, (process, connection, start) in list(running.items()):
            seconds = time.monotonic() - start
            row: dict[str, Any] | None = None
            if connection.poll(0.05):
                try:
                    row = connection.recv()
                except EOFError:
                    process.join()
                    code = process.exitcode or 0
                    note = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                    row = {"folder": folder, "outcome": "crashes", "cases": [asdict(Case("", note=note))]}
            elif seconds > SECONDS:
                process.kill()
                note = f"not finished after {SECONDS} s"
                row = {"folder": folder, "outcome": "not built", "cases": [asdict(Case("", note=note))]}
            if row is not None:
                process.join()
                connection.close()
                del running[folder]
                write({**row, "seconds": round(seconds, 1)})


def code_digest() -> str:
    """What a row depends on: this script, the code that watches, and the versions of what it watches."""
    import transformers

    import regard

    digest = hashlib.sha256(f"{transformers.__version__} {torch.__version__}".encode())
    for file in (Path(__file__), *sorted(Path(regard.__file__).parent.joinpath("watch").glob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def read_rows(results: Path) -> dict[str, dict[str, Any]]:
    """The last row of each folder."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {row["folder"]: row for row in map(json.loads, lines)}


@contextmanager
def _inside(checkout: Path) -> Iterator[None]:
    """Tests import from `tests` of the checkout and read its fixtures."""
    before = Path.cwd()
    sys.path.insert(0, str(checkout))
    os.chdir(checkout)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(checkout))


# The table

MEANINGS = {
    "equal": "every attention was recorded, by transformers' interface or PyTorch's functions, and equals the model's",
    "recognised": "as *equal*, some of it recognised in a module's own code, at n² memory for that layer",
    "partial": "some attention was not recorded; the certificate names the modules, and what was recorded is equal",
    "refused": "nothing was recorded, and `regard.watch` says so by the model's name",
    "no attention": "the model multiplies no softmax over keys with values, and `regard.watch` says so",
    "not built": "the tester could not build or run its model here, unwatched",
    "no model": "the folder has no tester with a tiny configuration: tokenizers, models that are tested elsewhere",
    "silently partial": "attention is missing and not named: a bug",
    "wrong": "a weight or an output differs from the unwatched model's: a bug",
    "crashes": "watching fails inside the model: a bug",
}  # fmt: skip
NEVER = ("silently partial", "wrong", "crashes")  # shown only if there are any


def table(rows: dict[str, dict[str, Any]], versions: str) -> str:
    """The page of the documentation."""
    counts = Counter(row["outcome"] for row in rows.values())
    seen = counts["equal"] + counts["recognised"]
    bugs = sum(counts[outcome] for outcome in NEVER)
    lines = [
        "# Architectures that can be watched",
        "",
        f"Each of the {len(rows)} model folders of transformers' own test suite, with {versions}:",
        f"**{seen} are seen completely**, {bugs or 'none'} silently partial, wrong or crashing.",
        "",
        "| outcome | folders | meaning |",
        "|---|---:|---|",
        *(
            f"| {outcome} | {counts[outcome]} | {meaning} |"
            for outcome, meaning in MEANINGS.items()
            if counts[outcome] or outcome not in NEVER
        ),
        "",
        *HOW.splitlines(),
        "",
        "| folder | outcome | attentions | weights | outputs | notes |",
        "|---|---|---:|---:|---:|---|",
        *(_line(row) for _, row in sorted(rows.items()) if row["outcome"] not in ("no attention", "no model")),
        "",
        f"No attention: {_folders(rows, 'no attention')}.",
        "",
        f"No model of their own: {_folders(rows, 'no model')}.",
    ]
    return "\n".join(lines) + "\n"


HOW = """\
Each model is tiny and random, with the inputs of its tester; a folder with several testers has their worst outcome.
The model runs unwatched and watched: with its default attention implementation, with its eager one, and with gradients.
*Attentions* are counted by a `TorchDispatchMode` that sees every softmax over the last axis whose result is multiplied
with values, whatever records it. *Weights* is the largest difference of any recorded weight from that softmax (queries
that see no key aside), *outputs* that of the watched outputs from the unwatched ones, relative to the largest number:
at most 3e-05 each. Attentions that the model itself returns must be among the recorded ones.

Written by `python docs/survey_watch.py CHECKOUT RESULTS.jsonl --table docs/watch-architectures.md`, where CHECKOUT is a
checkout of transformers, whose package has no tests. Testers import `parameterized`, `datasets`, `timm`, `torchvision`,
`pillow`, `scipy`, `librosa` and `accelerate`: install them into an environment of their own. Each folder runs in a
process of its own. A second run repeats only what other code wrote; `--again refused partial` repeats these."""


def _line(row: dict[str, Any]) -> str:
    """One folder: the case that decided its outcome gives the notes, all cases the numbers."""
    cases = [case for case in row["cases"] if case["outcome"] != "no model"]
    watched = [one for case in cases for one in case["watched"] if one["outcome"] not in ("refused", "no attention")]
    attentions = sum(case["attentions"] for case in cases)
    numbers = ["", ""]
    if watched:
        numbers = [f"{max(one[name] for one in watched):.0e}" for name in ("weights", "output")]
    unseen = {name for one in watched for name in (*one["unseen"], *one["named"])}
    notes = [_stack(name) for name in unseen]
    deciding = next((case for case in cases if case["outcome"] == row["outcome"]), None)
    if deciding is not None and deciding["note"]:
        note = deciding["note"].replace("|", "/")
        notes.append(note.partition(". ")[0][:100] if row["outcome"] == "not built" else note)
    cells = row["folder"], row["outcome"], str(attentions or ""), *numbers, "; ".join(sorted(set(notes)))
    return "| " + " | ".join(cells) + " |"


def _stack(name: str) -> str:
    """The name of a module with * in place of numbers."""
    return "`" + re.sub(r"\b\d+\b", "*", name) + "`"


def _folders(rows: dict[str, dict[str, Any]], outcome: str) -> str:
    return ", ".join(sorted(name for name, row in rows.items() if row["outcome"] == outcome)) or "none"


def _versions(checkout: Path) -> str:
    import transformers

    found = re.search(r'__version__ = "(.+)"', (checkout / "src/transformers/__init__.py").read_text(encoding="utf-8"))
    return (
        f"transformers {transformers.__version__} (testers of {found[1] if found else 'a checkout'}) and PyTorch "
        f"{torch.__version__.partition('+')[0]}"
    )


def main() -> None:
    """Survey the folders that are new or were surveyed by other code, and print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("folders", nargs="*", help="model folders; all by default")
    parser.add_argument(
        "--again", nargs="*", default=[], help="outcomes whose folders are surveyed again, and no others"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", type=Path, help="write the table of the documentation")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    results = options.results.resolve()
    rows, code = read_rows(results), code_digest()
    models = sorted(path.name for path in (options.checkout / "tests" / "models").iterdir() if path.is_dir())
    folders = options.folders or [name for name in models if not name.startswith("_")]
    if options.again:
        folders = [name for name in folders if rows.get(name, {}).get("outcome") in options.again]
    folders = [name for name in folders if rows.get(name, {}).get("code") != code]

    def write(row: dict[str, Any]) -> None:
        row = {**row, "code": code}
        rows[row["folder"]] = row
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['folder']}: {row['outcome']} ({row['seconds']} s)", flush=True)

    with _inside(options.checkout.resolve()):
        import_past_missing_names("tests.models.bert.test_modeling_bert")  # what all folders import, once for all
        survey(folders, write, options.jobs)
    print(dict(Counter(row["outcome"] for row in rows.values())))
    if options.table is not None:
        options.table.write_text(table(rows, _versions(options.checkout)), encoding="utf-8")


if __name__ == "__main__":
    main()
