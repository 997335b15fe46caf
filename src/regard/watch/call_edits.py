"""Edits of a watched model: which of them a call of a layer is subject to, and which of its tokens are whose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard import errors
from regard.edits.edit import BlockEdit, PatchEdit
from regard.edits.layer_edits import LayerEdits, Site, edit_states
from regard.edits.texts import TextSpan
from regard.reading.edit import Edit, EditArgument, edits_of
from regard.reading.words import Word, words_of
from regard.watch.call import Call, TensorMask
from regard.watch.layer import WatchedLayer, in_part, stack_numbers
from regard.watch.lazy_mask import MaskCall, mask_call_of
from regard.watch.tokens_seen import TokensSeen

EDITED = "An edit changed this layer: outputs are those that the model used, not weights × values."


class TextPosition(Protocol):
    """Where a thread is in the text that it reads."""

    begin: int


class EditedRecorder(Protocol):
    """What edits need to know of a recorder."""

    edits: WatchEdits
    tokens: TokensSeen

    @property
    def state(self) -> TextPosition:
        """Where the present thread is."""


class WatchEdits:
    """The edits of one `watch`, and what is known of the texts that they are applied to."""

    def __init__(self, edit: EditArgument, tokenizer: Any, model: nn.Module) -> None:
        self.parts = edits_of(edit)
        self.tokenizer = tokenizer
        self.model = model
        self.applied: set[int] = set()  # ids of parts
        self.layers_met: dict[str, set[int]] = {}  # by stack
        self.stack_of: dict[int, str] = {}  # of parts that name none: the one that they were applied to
        self.prompts: dict[str, tuple[TextSpan, ...]] = {}  # by stack: texts as they began
        if self.parts and any(
            getattr(module, "gradient_checkpointing", False) and module.training for module in model.modules()
        ):
            raise errors.unsupported(
                f"Editing {type(model).__name__} with gradient checkpointing",
                "A layer would be computed again without the edit: call model.gradient_checkpointing_disable().",
            )

    def of_layer(self, layer: WatchedLayer) -> list[Edit]:
        """The edits that change the attention of a layer."""
        if not self.parts:
            return []
        self.layers_met.setdefault(layer.stack, set()).add(layer.number)
        return [part for part in self.parts if not _is_residual(part) and self._belongs(part, layer)]

    def _belongs(self, part: Edit, layer: WatchedLayer) -> bool:
        if not part.touches(layer.number):
            return False
        if part.stack is not None:
            named = in_part(part.stack, layer)
            return fnmatch(layer.name, part.stack) or fnmatch(layer.stack, part.stack) if named is None else named
        met = self.stack_of.setdefault(id(part), layer.stack)
        if met != layer.stack:
            raise errors.OptionError(
                f"{part!r} could mean layers of {met} or of {layer.stack}.\n"
                'Say which: stack="encoder", "decoder", "cross", or a pattern of module names.'
            )
        return True

    def check_applied(self) -> None:
        """Raise if an edit has changed nothing, because no layer that ran is its own."""
        for part in self.parts:
            if id(part) not in self.applied:
                ran = ", ".join(f"{stack}: {min(met)} to {max(met)}" for stack, met in self.layers_met.items())
                raise errors.OptionError(
                    f"{part!r} changed nothing: no layer that it names ran in {type(self.model).__name__}, which has "
                    f"layers {ran or 'that cannot be edited'}."
                )

    # Texts

    def texts(self, recorder: EditedRecorder, layer: WatchedLayer, call: Call) -> tuple[TextSpan, ...]:
        """The texts of the queries of a call: as they began, where it continues them with a KV cache."""
        begin = recorder.state.begin if call.cross else call.query_offset
        prompts = self.prompts.get(layer.stack)
        if begin and prompts is not None and len(prompts) == call.batch:
            return prompts
        count = call.queries.shape[2]
        real = torch.ones((call.batch, count), dtype=torch.bool)
        if not call.cross and call.keys.shape[2] == count:
            real = real_keys(call)
        self.prompts[layer.stack] = spans = self._spans(recorder, real)
        return spans

    def key_texts(self, recorder: EditedRecorder, layer: WatchedLayer, call: Call) -> tuple[TextSpan, ...]:
        """The texts of the keys."""
        return self._spans(recorder, real_keys(call)) if call.cross else self.texts(recorder, layer, call)

    def _spans(self, recorder: EditedRecorder, real: Tensor) -> tuple[TextSpan, ...]:
        return text_spans(real, partial(self._words, recorder, real.shape[1]))

    def _words(self, recorder: EditedRecorder, count: int, row: int, start: int, length: int) -> Sequence[Word]:
        from regard.watch.reading import tokens_of_ids

        tokenizer = self.tokenizer or tokenizer_of(self.model)
        if tokenizer is None:
            raise errors.OptionError(
                "The edit names a word, and only a tokenizer knows the words of a watched model.\n"
                "Give it: regard.watch(model, edit=…, tokenizer=tokenizer); or name tokens by index."
            )
        self.tokenizer = tokenizer
        for text in recorder.tokens.texts.values():
            if row < text.ids.shape[0] and text.ids.shape[1] == count:
                ids = [int(number) for number in text.ids[row, start : start + length]]
                spelled, tokens = tokens_of_ids(tokenizer, ids)
                return words_of(tokens, spelled)
        raise errors.OptionError(
            "The edit names a word, and the model was not called with token ids that are known: name tokens by index."
        )


def text_spans(real: Tensor, words: Callable[[int, int, int], Sequence[Word]]) -> tuple[TextSpan, ...]:
    """One text per row of a batch, from which tokens are real, (batch, token).

    words   of a text, by its row, its first token and its number of tokens
    """
    starts, lengths = real.int().argmax(1).tolist(), real.sum(1).tolist()
    return tuple(
        TextSpan(row, row, start, length, partial(words, row, start, length))
        for row, (start, length) in enumerate(zip(starts, lengths, strict=True))
    )


def real_keys(call: Call) -> Tensor:
    """Which keys are real tokens, (batch, key)."""
    rule, keys = call.rule, call.keys.shape[2]
    real = None
    if isinstance(rule, MaskCall) and rule.padding is not None:
        real = rule.real(rule.padding)
    elif isinstance(rule, TensorMask):
        real = rule.real().expand(call.batch, keys)
    if real is None or not bool(real.any(1).all()):
        return torch.ones((call.batch, keys), dtype=torch.bool)
    return real.cpu()


def edits_of_call(recorders: Sequence[tuple[EditedRecorder, WatchedLayer]], call: Call) -> LayerEdits | None:
    """What the edits of all open blocks do to a call, those of the outermost first; None if they leave it as it is."""
    edited = [(recorder, layer, recorder.edits.of_layer(layer)) for recorder, layer in recorders]
    parts = [part for _, _, some in edited for part in some]
    if not parts:
        return None
    recorder, layer, _ = next(entry for entry in edited if entry[2])
    for entry, _, some in edited:
        entry.edits.applied.update(id(part) for part in some)
    edits = recorder.edits
    first = recorder.state.begin if call.cross else call.query_offset
    site = Site(
        layer.number, edits.texts(recorder, layer, call), edits.key_texts(recorder, layer, call), first, call.key_offset
    )
    return LayerEdits(parts, site, call.attention(), call.values)


def changes_weights(edits: LayerEdits) -> bool:
    """Whether attention is computed again, so that dropout would be missing."""
    return any(
        isinstance(part, BlockEdit) or (isinstance(part, PatchEdit) and part.what != "outputs") for part in edits.parts
    )


# The residual stream


def _is_residual(part: Edit) -> bool:
    return isinstance(part, PatchEdit) and part.what == "residual"


def block_modules(model: nn.Module, followed: Sequence[nn.Module]) -> dict[str, nn.Module]:
    """The modules around each attention whose input is the residual stream, by name: model.layers.3."""
    modules = dict(model.named_modules())
    names = {id(module): name for name, module in modules.items()}
    blocks: dict[str, nn.Module] = {}
    for attention in followed:
        parts = names.get(id(attention), "").split(".")
        numbers = [index for index, part in enumerate(parts) if part.isdigit()]
        if numbers:
            name = ".".join(parts[: numbers[0] + 1])
            blocks[name] = modules[name]
    return blocks


class ResidualHooks:
    """Hooks on blocks: they patch, and keep, the hidden states that enter."""

    def __init__(self, edits: WatchEdits, followed: Sequence[nn.Module], keep: bool) -> None:
        self.edits, self.keep = edits, keep
        self.states: dict[tuple[str, int], Tensor] = {}  # by stack and number: (batch, token, width)
        self.handles: list[Any] = []
        self.blocks = block_modules(edits.model, followed)
        self.numbers_of = stack_numbers(tuple(self.blocks))

    def start(self) -> None:
        """Register the hooks, if there is anything to patch or to keep."""
        if self.keep or any(map(_is_residual, self.edits.parts)):
            for name, module in self.blocks.items():
                stack, number = self.numbers_of[name]
                hook = partial(self._before, stack, number)
                self.handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def stop(self) -> None:
        """Remove them."""
        while self.handles:
            self.handles.pop().remove()

    def state_of(self, attention: str) -> Tensor | None:
        """What entered the block around an attention module."""
        inside = [index for name, index in self.numbers_of.items() if attention.startswith(f"{name}.")]
        return self.states.get(inside[0]) if inside else None

    def _before(self, stack: str, number: int, _module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        states = args[0] if args else kwargs.get("hidden_states")
        if not isinstance(states, Tensor) or states.ndim != 3:
            return None
        layer = WatchedLayer(stack.replace("*", str(number)), stack, number)
        parts = [part for part in self.edits.parts if _is_residual(part) and self.edits._belongs(part, layer)]
        if parts:
            begun = (stack, number) in self.states and states.shape[1] == 1  # a KV cache: the prompt was patched
            self.edits.applied.update(id(part) for part in parts)
            if not begun:
                spans = self._spans(states, [kwargs.get("attention_mask"), *args[1:]])
                states = edit_states(parts, number, states, spans)
        if (stack, number) not in self.states or states.shape[1] > 1:
            self.states[stack, number] = states.detach()
        if not parts:
            return None
        return ((states, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": states})

    def _spans(self, states: Tensor, arguments: Sequence[Any]) -> tuple[TextSpan, ...]:
        """The texts of a call of a block; BERT, GPT-2, T5 and BART take the mask by position."""
        batch, count = states.shape[:2]
        call = next(filter(None, map(mask_call_of, arguments)), None)
        real = torch.ones((batch, count), dtype=torch.bool)
        if call is not None and call.padding is not None and call.keys == count:
            real = call.real(call.padding).cpu()
        return text_spans(real, _no_words)


def _no_words(row: int, start: int, length: int) -> Sequence[Word]:
    raise errors.OptionError("Name the tokens of a residual patch in a watched model by index.")


def tokenizer_of(model: nn.Module) -> Any:
    """The tokenizer beside the weights that a model was loaded from; None if there is none."""
    name = getattr(model, "name_or_path", "")
    if not name:
        return None
    try:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(name, local_files_only=True)
    except Exception:  # noqa: BLE001 - whatever transformers raises where no tokenizer is there
        return None
