"""`watch`: record the attention of a PyTorch model while it runs, and leave the model as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from regard import errors, validate
from regard.reading.edit import EditArgument, edits_of
from regard.watch import interface, torch_calls
from regard.watch.call_edits import ResidualHooks, WatchEdits
from regard.watch.call_frames import ACTIVE
from regard.watch.recorder import Keep, Recorder
from regard.watch.seen import Seen
from regard.watch.support import support_of, unseen_error


def watch(
    model: Any,
    layers: Any = None,
    heads: Any = None,
    keep: Any = "all",
    *,
    runs: int | None = 1,
    edit: EditArgument = None,
    tokenizer: Any = None,
    states: bool = False,
) -> Watch:
    """Record the attention of a Hugging Face or PyTorch model while it runs.

    layers  numbers, or patterns of module names such as "decoder.*"; all by default
    heads   that are kept; all by default
    keep    "all": queries, keys and values, O(n · head_dim) per layer, from which everything is computed later;
            "summary": entropy, peak, log-sum-exp, expected distance and the 8 largest weights of every query, computed
            in the same pass, O(n) per head; or a list of these and of "column_sums" and "pooled"; None: nothing, for
            models that are only edited
    runs    how many forward passes to keep, the last ones; None: all. Passes that continue a KV cache are one
    edit    interventions, such as `regard.edits.silence((5, 2))`: the model computes with them inside the block
    tokenizer  of transformers, where an edit names words and the model was not loaded from a folder that has it
    states  keep the hidden states that enter every block as well, from which `regard.edits.patch` can take the residual

    The model computes what it computes unwatched, and is restored when the block is left in any way.

    >>> import torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> config = LlamaConfig(vocab_size=9, hidden_size=16, intermediate_size=8, num_hidden_layers=2,
    ...                      num_attention_heads=4, num_key_value_heads=2)
    >>> model = LlamaModel(config).eval()
    >>> with watch(model) as seen, torch.no_grad():
    ...     _ = model(torch.tensor([[1, 2, 3, 4, 5]]))
    >>> seen.layers[1].attention
    Attention(batch 1, head 4, query 5, key 5; head_dim 4, float32, scale=0.5, offset=0, mask=causal())
    """
    return Watch(model, layers, heads, keep, runs, edit, tokenizer, states)


class Watch:
    """The context manager that `watch` returns; entering it gives a `Seen`."""

    def __init__(
        self, model: Any, layers: Any, heads: Any, keep: Any, runs: int | None, edit: EditArgument = None,
        tokenizer: Any = None, states: bool = False,
    ) -> None:  # fmt: skip
        model = getattr(model, "_orig_mod", model)  # of torch.compile
        if not isinstance(model, nn.Module):
            inner = getattr(model, "model", None)
            fix = "A pipeline holds one: give pipeline.model." if isinstance(inner, nn.Module) else ""
            raise errors.option("model", model, "a PyTorch module, such as a model of transformers", fix)
        if isinstance(model, torch.jit.ScriptModule):
            raise errors.unsupported("Watching a TorchScript model", "Watch the module that it was made from.")
        if runs is not None:
            validate.integer("runs", runs, 1)
        self._arguments = layers, heads, Keep.of(keep), runs
        self.is_checked = True  # whether every edit must have changed a layer
        self._edit = edits_of(edit), tokenizer, bool(states)
        self._model = model
        self._open: list[Session] = []

    def __enter__(self) -> Seen:
        layers, heads, keep, runs = self._arguments
        model = self._model
        support = support_of(model)
        modules = dict(model.named_modules())
        names = {id(module): name or type(module).__name__ for name, module in modules.items()}
        roots = frozenset(map(id, support.models))
        edit, tokenizer, states = self._edit
        edits = WatchEdits(edit, tokenizer, model)
        recorder = Recorder(names, keep, layers, heads, runs, type(model).__name__, roots, edits)
        recorder.residual = ResidualHooks(edits, support.followed, states)
        for name, module in modules.items():
            if isinstance(module, torch.jit.ScriptModule):
                recorder.notes[f"{name} is a TorchScript module, in which nothing is seen"] = None
        session = Session(
            recorder, list(modules.values()), _configurations(modules.values()) if support.interface else []
        )
        seen = Seen(recorder, model)
        self._open.append(session)
        try:
            session.start()
            return seen  # inside: an interrupt on the way out is handled as well
        except BaseException:
            self._leave(session)
            raise

    def __exit__(self, kind: Any, problem: Any, where: Any) -> None:
        session = self._open[-1]
        recorder = session.recorder
        try:
            changed = kind is None and any(_is_changed(config) for config in session.configurations)
        finally:
            self._leave(session)
        if changed and not recorder.calls:
            raise errors.OptionError(
                f"The attention implementation of {recorder.model} was changed inside the `with` block, so nothing was "
                "recorded.\nCall set_attn_implementation before `with regard.watch(model)`."
            )
        if (
            kind is None
            and recorder.has_run
            and not any(count.recorded or count.unchosen for count in recorder.counts.values())
        ):
            raise unseen_error(self._model, recorder)
        if kind is None and recorder.has_run and self.is_checked:
            recorder.edits.check_applied()

    def _leave(self, session: Session) -> None:
        """Undo what the session did; an interrupt meanwhile is raised when all is undone."""
        try:
            session.stop()
        except BaseException:
            session.stop()
            raise
        finally:
            if session in self._open:
                self._open.remove(session)

    def __del__(self) -> None:
        for session in getattr(self, "_open", ()):  # an interrupt came before the first line of __exit__
            session.stop()


class Session:
    """What one `with` block changes outside of its model, and how that is undone.

    `stop` can be called at any time and repeatedly: it undoes what has been done so far.
    """

    def __init__(self, recorder: Recorder, modules: list[nn.Module], configurations: list[Any]) -> None:
        self.recorder = recorder
        self.modules = modules
        self.configurations = configurations
        self.mode: torch_calls.Mode | None = None  # of the thread that entered the block

    def start(self) -> None:
        """Let the calls of the model's attention be seen."""
        _locked(self._register)
        ACTIVE.set((*ACTIVE.get(), self.recorder))
        torch_calls.observe(self)
        if self.recorder.residual is not None:
            self.recorder.residual.start()

    def stop(self) -> None:
        """Leave everything as it was."""
        if self.recorder.residual is not None:
            self.recorder.residual.stop()
        torch_calls.stop_observing(self)
        _locked(self._unregister)
        ACTIVE.set(tuple(recorder for recorder in ACTIVE.get() if recorder is not self.recorder))

    def _register(self) -> None:
        for module in self.modules:
            recorders = interface.RECORDERS.get(id(module), ())
            interface.RECORDERS[id(module)] = (*recorders, self.recorder)
        if self.configurations:
            interface.register()
        for config in self.configurations:
            self._switch(config)

    def _unregister(self) -> None:
        for config in self.configurations:
            self._restore(config)
        for module in self.modules:
            others = tuple(each for each in interface.RECORDERS.get(id(module), ()) if each is not self.recorder)
            if others:
                interface.RECORDERS[id(module)] = others
            else:
                interface.RECORDERS.pop(id(module), None)

    def _switch(self, config: Any) -> None:
        """Let a configuration name Regard's implementation.

        The name of the implementation is the only thing that changes, so a second model that shares the configuration
        goes on with its own implementation: `ORIGINALS` says which.
        """
        kept = interface.ORIGINALS.get(id(config))
        original = config._attn_implementation_internal if kept is None else kept[1]
        watches = frozenset({self}) if kept is None else kept[2] | {self}
        name = interface.Watched(interface.NAME)
        name.original = original
        interface.ORIGINALS[id(config)] = (config, original, watches)
        config._attn_implementation_internal = name

    def _restore(self, config: Any) -> None:
        kept = interface.ORIGINALS.get(id(config))
        if kept is None or self not in kept[2]:
            return
        _, original, watches = kept
        if len(watches) > 1:
            interface.ORIGINALS[id(config)] = (config, original, watches - {self})
            return
        if not _is_changed(config):  # otherwise another implementation was chosen inside the block
            config._attn_implementation_internal = original
        del interface.ORIGINALS[id(config)]


def _locked(action: Callable[[], None]) -> None:
    with interface.LOCK:
        action()


def _is_changed(config: Any) -> bool:
    return id(config) in interface.ORIGINALS and config._attn_implementation_internal != interface.NAME


def _configurations(modules: Iterable[nn.Module]) -> list[Any]:
    """Every configuration object of some modules."""
    configurations: dict[int, Any] = {}
    for module in modules:
        waiting = [getattr(module, "config", None)]
        while waiting:
            config = waiting.pop()
            if config is None or id(config) in configurations or not hasattr(config, "_attn_implementation_internal"):
                continue
            configurations[id(config)] = config
            waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
    return list(configurations.values())
