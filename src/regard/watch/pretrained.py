"""`Pretrained`: a model of transformers that reads texts, for `regard see`, `heads` and `studio --model hf:PATH`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Never

import numpy as np
import torch
from torch import Tensor

from regard import errors, validate
from regard.arrays import Array, unit_length
from regard.layers import Linear
from regard.models import tokens as tokenisers
from regard.models.errors import check_length
from regard.models.generate import Sampling, TextStream
from regard.models.model import texts_of
from regard.reading.edit import Edit, EditArgument, Edits, edited_name
from regard.reading.reader import (
    BlockShape,
    LayerHeads,
    Observed,
    OnLayer,
    Outcome,
    Reader,
    Task,
    check_can,
    edits_with,
)
from regard.watch.call_edits import tokenizer_of
from regard.watch.outcomes import EditedForward, hooked
from regard.watch.reading import in_numpy, numpy_attention
from regard.watch.session import watch
from regard.watch.support import support_of

if TYPE_CHECKING:
    from regard.models.tokens import Tokeniser
    from regard.reading import Reading
    from regard.reading.residual_stream import ResidualStream
    from regard.watch.layer import WatchedLayer

UNLIMITED = 2048  # tokens, where neither tokenizer nor configuration names a limit
LARGEST = 1 << 24  # a larger limit means none
OUTPUTS = ("o_proj", "out_proj", "c_proj", "dense", "o", "out_lin", "wo", "proj")  # the projection after the heads
NO_WRITING = "It has no language-model head: give a model that generates text."
NO_STATES = "Its readings have no hidden states: regard.model(path) opens the BERT, GPT-2 and Llama kinds with them."


@dataclass(eq=False)
class Pretrained:
    """A model of transformers with its tokenizer: it reads and writes texts as `regard.Model` does, see `Reader`.

    name        the folder or hub id it was opened by
    model       the PyTorch module
    tokenizer   of transformers
    writes      whether it can generate text
    """

    name: str
    model: Any
    tokenizer: Any
    writes: bool = False
    edit: Edit | None = None  # an intervention that holds for everything it reads

    @classmethod
    def open(cls, name: str) -> Pretrained:
        """A folder with config.json, weights and a tokenizer, or the id of a model on the hub."""
        errors.require("--model hf:", "transformers")
        import transformers

        with _silent():
            config = _loaded(name, transformers.AutoConfig)
            maker, writes = _maker(transformers, config)
            reads = _reads(config, transformers)
            if reads != "text":
                raise errors.unsupported(
                    f"Reading a text with {name}, a {config.model_type} model that reads {reads},",
                    "Watch it in Python: with regard.watch(model) as seen: model(**inputs).",
                )
            tokenizer = _loaded(name, transformers.AutoTokenizer)
            model = _weights(name, maker)
        return cls(name, model, tokenizer, writes)

    @classmethod
    def of(cls, model: torch.nn.Module, tokenizer: Any = None) -> Pretrained:
        """A model of transformers that is open, with the tokenizer of the folder it was loaded from."""
        from transformers import PreTrainedConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

        model = getattr(model, "_orig_mod", model)  # what torch.compile wraps
        config, name = getattr(model, "config", None), type(model).__name__
        if not isinstance(config, PreTrainedConfig):
            raise errors.unsupported(f"Measuring effects on {name}", "Give a model of transformers or of Regard.")
        tokenizer = tokenizer or tokenizer_of(model)
        if tokenizer is None:
            raise errors.OptionError(
                f"{name} was not loaded from a folder with a tokenizer. Give it: effect(…, tokenizer=tokenizer)."
            )
        writes = name in CAUSAL.values() or name.endswith("ForConditionalGeneration")
        return cls(getattr(model, "name_or_path", "") or name, model, tokenizer, writes)

    def untrained(self) -> Pretrained:
        """A model of the same configuration with random weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            twin = type(self.model)(deepcopy(self.model.config)).eval()
        return replace(self, name=f"{self.name}, untrained", model=twin)

    def edited(self, edit: EditArgument, *, name: str | None = None) -> Pretrained:
        parts = edits_with(self, edit)
        return replace(self, edit=Edits(parts) if parts else None, name=self.name if name is None else name)

    def _editing(self, body: Any) -> Any:
        """A block in which the model computes with its edit."""
        return nullcontext() if self.edit is None else watch(body, keep=None, edit=self.edit, tokenizer=self.tokenizer)

    # What it is

    @property
    def _body(self) -> Any:
        """The module that reads tokens: the encoder of a model with a decoder, the text model beside a vision model."""
        if self.model.config.is_encoder_decoder:
            return self.model.get_encoder()
        return getattr(self.model, "text_model", self.model) if hasattr(self.model, "vision_model") else self.model

    @cached_property
    def tokeniser(self) -> Tokeniser:
        """The tokenizer, with readable tokens and word boundaries."""
        engine = getattr(self.tokenizer, "backend_tokenizer", None)
        if engine is None:
            raise errors.unsupported(
                f"{type(self.tokenizer).__name__}, a tokenizer without tokenizer.json,",
                "Load a fast tokenizer (use_fast=True) and save it: tokenizer.save_pretrained(folder).",
            )
        return tokenisers.of(deepcopy(engine), Path(self.name))

    @cached_property
    def longest(self) -> int:
        config = getattr(self.model.config, "text_config", None) or self.model.config
        positions = [getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "seq_length")]
        limits = [size for size in (*positions, self.tokenizer.model_max_length) if size and 0 < size < LARGEST]
        return int(min(limits, default=UNLIMITED))

    @cached_property
    def _shape(self) -> _Shape:
        """What two tokens say about its layers."""
        ids = self.tokeniser.encode("a a", special=False).ids
        layers = self._layers([(ids * 2)[:2]])
        heads = {layer.attention.shape[1] for layer in layers}
        if len(heads) > 1:
            raise errors.unsupported(f"{self.name}, whose layers have {sorted(heads)} heads,", "Look at single layers.")
        is_causal = all(not in_numpy(layer.attention[..., 0, 1]).any() for layer in layers)
        projections = {layer.module: self._output_projection(layer) for layer in layers}
        blocks = tuple(map(_block_shape, layers, projections.values()))
        return _Shape(is_causal, blocks, projections)

    @property
    def causal(self) -> bool:
        return self._shape.causal

    @property
    def heads(self) -> int:
        return self._shape.blocks[0].heads

    @property
    def block_shapes(self) -> tuple[BlockShape, ...]:
        return self._shape.blocks

    def _output_projection(self, layer: WatchedLayer) -> Linear | None:
        name = layer.name.partition(" (")[0]
        attention, parent = (self._body.get_submodule(part) for part in (name, name.rpartition(".")[0]))
        projections = [getattr(attention, part, None) for part in OUTPUTS]
        projections += [getattr(getattr(parent, "output", None), "dense", None)]  # of BERT
        module = next((part for part in projections if isinstance(getattr(part, "weight", None), Tensor)), None)
        if module is None:
            return None
        matrix = module.weight.detach().float()
        weight = in_numpy(matrix if isinstance(module, torch.nn.Linear) else matrix.T)  # GPT-2 has them transposed
        if weight.shape[1] != layer.attention.shape[1] * layer.values.shape[-1]:
            return None
        bias = getattr(module, "bias", None)
        return Linear(weight, None if bias is None else in_numpy(bias.detach().float()))

    @property
    def transformer(self) -> None:
        """None: PyTorch computes its layers."""

    @property
    def cannot(self) -> Mapping[Task, str]:
        lacking: dict[Task, str] = {"next_tokens": NO_STATES}
        return lacking if self.writes else {"generate": NO_WRITING, **lacking}

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.model.config.to_dict())

    @property
    def ends(self) -> frozenset[int]:
        ids = self.config.get("eos_token_id")
        return frozenset(ids if isinstance(ids, list) else () if ids is None else (ids,))

    @property
    def vocabulary(self) -> int:
        return int(self.model.get_input_embeddings().weight.shape[0])

    # Reading and writing

    def beginning(self, text: str) -> str:
        return self.tokeniser.beginning(text, self.longest)

    def read(self, text: str, *, on_layer: OnLayer | None = None, edit: EditArgument = None) -> Reading:
        """A text as the model reads it; `on_layer` is called after each layer and may raise to cancel."""
        inputs, body, parts = self._inputs(text), self._body, edits_with(self, edit)
        with (
            _following(body, on_layer),
            watch(body, edit=parts, tokenizer=self.tokenizer) as seen,
            torch.inference_mode(),
        ):
            self._forward(inputs)
        return replace(seen.reading(self.tokenizer, text), model=edited_name(self.name, parts))

    def residual(self, text: str) -> ResidualStream:
        from regard.watch.recorded_stream import stream_of

        projections = self._shape.projections
        return stream_of(self.model, self.name, projections, lambda: replace(self.read(text), reader=self))

    def generate(
        self,
        prompt: str,
        tokens: int = 64,
        *,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        on_token: Callable[[str], None] | None = None,
        edit: EditArgument = None,
    ) -> Reading:
        """The prompt and up to `tokens` generated tokens as one `Reading`; see `Model.generate`."""
        check_can(self, "generate")
        tokens = validate.integer("tokens", tokens, 1)
        Sampling(temperature, top_k, top_p, seed)  # checks them
        inputs = self._inputs(prompt, tokens)
        sampling: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:
            sampling |= {"temperature": temperature, "top_k": top_k or 0, "top_p": 1.0 if top_p is None else top_p}
        inputs = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
        streamer = None if on_token is None else _Streamer(TextStream(self.tokeniser, (), on_token), tokens)
        parts = edits_with(self, edit)
        with (
            torch.random.fork_rng(devices=[]),
            watch(self.model, edit=parts, tokenizer=self.tokenizer) as seen,
            torch.inference_mode(),
            _silent(),
        ):
            torch.manual_seed(seed)
            # One more, which is not shown: the model never reads the last token, so that it has no attention.
            written = self.model.generate(**inputs, max_new_tokens=tokens + 1, streamer=streamer, **sampling)
        reading = seen.reading(self.tokenizer, written)
        is_continued = not self.model.config.is_encoder_decoder
        return replace(
            reading, model=edited_name(self.name, parts), given=inputs["input_ids"].shape[1] if is_continued else None
        )

    def embed(self, texts: str | Sequence[str], *, batch: int = 32, normalise: bool = True) -> Array:
        """One vector per text, (text, width): the mean over its tokens, of length 1 unless `normalise` is False.

        A single string gives a single vector. Texts are computed one after the other; `batch` is not used.
        """
        vectors = np.stack([self._mean_state(text) for text in texts_of(texts)])
        vectors = unit_length(vectors) if normalise else vectors
        return vectors[0] if isinstance(texts, str) else vectors

    def _mean_state(self, text: str) -> Array:
        inputs = self._inputs(text)
        with torch.inference_mode(), self._editing(self._body):
            states = self._forward(inputs, getattr(self._body, "base_model", self._body)).last_hidden_state
        return in_numpy(states[0].float().mean(dim=0))

    def _inputs(self, text: str, more: int = 0) -> dict[str, Tensor]:
        """The tokens of a text, with `more` to be generated; one that is too long is refused."""
        encoded = self.tokenizer(text, return_tensors="pt")
        check_length(self.name, self.longest, encoded["input_ids"].shape[1], more)
        return {name: encoded[name] for name in ("input_ids", "attention_mask") if name in encoded}

    def next_logits(self, states: Array) -> Never:
        check_can(self, "next_tokens")
        raise AssertionError

    def next_tokens(self, states: Array, count: int = 10, **sampling: Any) -> Never:
        self.next_logits(states)

    def observe(self, texts: Sequence[Array], layers: int | None = None) -> Iterator[Observed]:
        """What the heads of every layer, or of the first `layers`, compute for texts given as token ids.

        One group of texts of equal length after the other, layer by layer.
        """
        by_length: dict[int, list[int]] = {}
        for index, ids in enumerate(texts):
            by_length.setdefault(len(ids), []).append(index)
        for length, indices in by_length.items():
            for number, layer in enumerate(self._layers([texts[index] for index in indices])[:layers]):
                values, outputs = in_numpy(layer.values), in_numpy(layer.output)  # (text, head, token, value_dim)
                values = values.swapaxes(0, 1).reshape(values.shape[1], -1, values.shape[3])
                outputs = outputs.swapaxes(1, 2).reshape(-1, outputs.shape[1], outputs.shape[3])
                of_layer = LayerHeads(number, np.ascontiguousarray(values), np.ascontiguousarray(outputs))
                tokens = slice(0, length * len(indices))
                yield Observed(of_layer, tuple(indices), tokens, numpy_attention(layer.attention))

    def outcomes(
        self, texts: Sequence[str | Sequence[int]], edits: Sequence[Edit], *, all_logits: bool = False
    ) -> Iterator[tuple[int, Outcome]]:
        for edit in edits:
            edit.check([shape.heads for shape in self.block_shapes], self.name)
        ids = [self.tokeniser.encode(text).ids if isinstance(text, str) else list(text) for text in texts]
        for of_text in ids:
            check_length(self.name, self.longest, len(of_text))
        forward = EditedForward(self._body, self._forward, self.tokenizer, self.writes, self.edit)
        return forward.outcomes(ids, edits, all_logits)

    def _layers(self, texts: Sequence[Array]) -> list[WatchedLayer]:
        """Every layer after reading texts of equal length, given as token ids."""
        ids = torch.tensor(np.asarray(texts), dtype=torch.int64)
        with watch(self._body, edit=self.edit, tokenizer=self.tokenizer) as seen, torch.inference_mode():
            self._forward({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        return sorted(seen.layers, key=lambda layer: layer.number)

    def _forward(self, inputs: dict[str, Tensor], body: Any = None) -> Any:
        body = self._body if body is None else body
        device = next(iter(body.parameters())).device
        try:
            return body(**{name: tensor.to(device) for name, tensor in inputs.items()})
        except (TypeError, ValueError) as problem:
            if isinstance(problem, errors.RegardError):
                raise
            raise errors.OptionError(
                f"{type(body).__name__} cannot read a text alone: {_shortened(problem)}\n"
                "Watch it in Python with all its inputs: with regard.watch(model) as seen: model(**inputs)."
            ) from problem


_READER: type[Reader] = Pretrained  # for mypy


class _Shape(NamedTuple):
    causal: bool
    blocks: tuple[BlockShape, ...]
    projections: dict[str, Linear | None]  # W_O, by the name of the attention module


def _block_shape(layer: WatchedLayer, w_o: Linear | None) -> BlockShape:
    heads, (_, key_heads, _, value_dim) = layer.attention.shape[1], layer.values.shape
    weight = None if w_o is None else w_o.weight
    return BlockShape(heads, key_heads, layer.attention.queries.shape[-1], value_dim, weight)


class _Streamer:
    """Passes up to `limit` generated tokens on; transformers gives it the prompt first."""

    def __init__(self, stream: TextStream, limit: int) -> None:
        self.stream, self.left, self.is_prompt = stream, limit, True

    def put(self, ids: Tensor) -> None:
        numbers = [] if self.is_prompt else ids.flatten().tolist()[: self.left]
        for number in numbers:
            self.stream.ends_with(int(number))
        self.left, self.is_prompt = self.left - len(numbers), False

    def end(self) -> None:
        self.is_prompt = True


@contextmanager
def _following(body: Any, on_layer: Callable[[int, int], None] | None) -> Iterator[None]:
    """Call a function after every attention layer with the number done and of all; it may raise."""
    support, done = support_of(body), 0
    layers = [module for module in support.followed if on_layer is not None and module not in support.models]

    def after(_module: Any, _args: Any, _output: Any) -> None:
        nonlocal done
        done += 1
        assert on_layer is not None
        on_layer(min(done, len(layers)), len(layers))

    with hooked(layers, lambda _number: after):
        yield


@contextmanager
def _silent() -> Iterator[None]:
    """Without the progress bars and advice of transformers."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _maker(transformers: Any, config: Any) -> tuple[Any, bool]:
    """The class that opens a model, and whether that model writes text."""
    names = tuple(config.architectures or ())
    if config.is_encoder_decoder:
        writes = any(name.endswith("ForConditionalGeneration") for name in names)
        return (transformers.AutoModelForSeq2SeqLM if writes else transformers.AutoModel), writes
    causal_models = transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    writes = any(name == causal_models.get(config.model_type) for name in names)
    return (transformers.AutoModelForCausalLM if writes else transformers.AutoModel), writes


def _reads(config: Any, transformers: Any) -> str:
    """What a model reads: text, or what else."""
    try:
        kind = transformers.AutoModel._model_mapping[type(config)]
    except KeyError:
        return "text"
    kind = kind[0] if isinstance(kind, (list, tuple)) else kind
    main = getattr(kind, "main_input_name", "input_ids")
    return {"pixel_values": "images", "input_features": "sound", "input_values": "sound"}.get(main, "text")


def _loaded(name: str, maker: Any, **options: Any) -> Any:
    try:
        with warnings.catch_warnings(action="ignore"):
            return maker.from_pretrained(name, trust_remote_code=False, **options)
    except Exception as problem:  # whatever a damaged or hostile file leads transformers to raise
        if isinstance(problem, MemoryError):
            raise
        what = {"AutoConfig": "config.json", "AutoTokenizer": "the tokenizer"}.get(maker.__name__, "the weights")
        raise _unopened(name, what, _shortened(problem)) from problem


def _unopened(name: str, what: str, problem: str) -> errors.OptionError:
    missing = "" if Path(name).exists() else " There is no such folder here, and the hub has not given it."
    return errors.OptionError(
        f"transformers cannot open {what} of {name!r}: {problem}{missing}\n"
        "Give a folder that holds config.json, weights and a tokenizer, or the id of a model on the hub."
    )


def _weights(name: str, maker: Any) -> Any:
    """The model; refused where a part of its weights would be random."""
    model, loaded = _loaded(name, maker, output_loading_info=True)
    missing = sorted(key for key in loaded["missing_keys"] if "pooler" not in key)  # no attention depends on a pooler
    if missing:
        others = f", as are {len(missing) - 1} others" if len(missing) > 1 else ""
        raise _unopened(name, "the weights", f"{missing[0]} is missing{others}.")
    return model.eval()


def _shortened(problem: BaseException) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    if "ignore_mismatched_sizes" in text:  # refers to a report that is not printed
        return "arrays have other shapes than config.json says."
    return text if len(text) <= 240 else text[:237] + "..."
