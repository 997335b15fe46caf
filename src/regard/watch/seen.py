"""`Seen`: what a watched model computed, layer by layer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import errors
from regard.tables import Column, Table
from regard.watch.call import TensorMask
from regard.watch.certificate import RecordingCertificate, certificate_of
from regard.watch.layer import VISION, Layers, WatchedLayer, in_part
from regard.watch.recorder import Recorder
from regard.watch.run import Run

if TYPE_CHECKING:
    from regard.reading import Reading


STATISTICS = {  # of `WatchedLayer.means`, in the order of the table
    "entropy": Column("entropy", "number"),
    "peak": Column("peak", "number", shade=True),
    "distance": Column("distance", "number", 1),
    "max_logit": Column("max logit", "number", 1),
    "received": Column("received", "number", shade=True),
    "key": Column("by key", "number", 0),
    "first": Column("first key", "number", shade=True),
    "sink": Column("sink", "number", shade=True),
}


class Seen:
    """The attention of a model's layers, recorded while it ran.

    `layers` are its self-attention layers, `cross` those of cross-attention; `encoder`, `decoder` and `vision` are
    parts of `layers` in models that have them, and `stacks` has every stack by the pattern of its module names.
    """

    def __init__(self, recorder: Recorder, model: Any, grid: tuple[int, int] | None = None) -> None:
        self._recorder = recorder
        self._model = model  # None in a recording from a file
        self._grid = grid  # of image patches, where the model does not say it any more

    def __repr__(self) -> str:
        layers = self._recorder.watched()
        if not layers:
            return "Seen(nothing yet)"
        crossing = sum(layer.cross for layer in layers)
        kinds = errors.count(len(layers) - crossing, "self-attention layer")
        kinds += f" and {errors.count(crossing, 'cross-attention layer')}" if crossing else ""
        parts = [f"{self._recorder.model}: {kinds}", errors.size_in_bytes(self.memory), *self._passes()]
        return f"Seen({', '.join(parts)})\n{self.certificate}"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>" + (
            self.statistics()._repr_html_() if self._recorder.watched() else ""
        )

    def _passes(self) -> list[str]:
        """What was kept of several passes; [] if there was only one."""
        layers = self._recorder.watched()
        passes, kept = max(layer.passes for layer in layers), max(len(layer.runs) for layer in layers)
        if passes < 2:
            return []
        if kept == passes:
            return [f"{passes} passes: layers show the last, statistics all"]
        return [f"the last {'' if kept == 1 else f'{kept} '}of {passes} passes"]

    @property
    def certificate(self) -> RecordingCertificate:
        """How many attentions ran and were recorded, which modules computed others, and how exact the outputs are.

        Weights × values are compared with the outputs that the model used, in float64, on some rows of every layer.
        """
        return certificate_of(self._recorder)

    @property
    def runs(self) -> list[Seen]:
        """Every pass that was kept, the last one last: one `Seen` for each, with all layers that ran in it.

        A model that reads two texts in one forward, as Siamese models do, has two passes.
        """
        layers = self._recorder.watched()
        count = max((len(layer.runs) for layer in layers), default=0)
        return [self._of_pass(number) for number in range(count, 0, -1)]

    def _of_pass(self, number: int) -> Seen:
        """One pass; 1 is the last."""
        return self._with_layers(lambda layer: layer.runs[-number:][:1] if len(layer.runs) >= number else [])

    def _with_layers(self, runs_of: Callable[[WatchedLayer], list[Run]]) -> Seen:
        """The same recording with other runs of every layer."""
        recorder = self._recorder
        part = Recorder(
            recorder.names, recorder.keep, None, recorder.heads, recorder.runs, recorder.model, recorder.roots
        )
        part.counts, part.has_run, part.notes = recorder.counts, recorder.has_run, recorder.notes
        part.file = recorder.file
        for key, layer in recorder.layers.items():
            runs = runs_of(layer) if layer.runs else []
            part.layers[key] = replace(layer, owner=None, recorded=runs, passes=len(runs))
        return Seen(part, self._model)

    @property
    def attentions(self) -> tuple[Tensor, ...]:
        """The weights of all self-attention layers, as `output_attentions=True` of transformers returns them.

        One tensor (batch, head, query, key) per layer: n² memory. `layers[i].attention.dense(limit=None)` has no limit.
        """
        return tuple(layer.attention.dense() for layer in self.layers)

    def states_before(self, layer: WatchedLayer) -> Tensor | None:
        """The hidden states that entered the block of a layer, (batch, token, width); None if they were not kept.

        `regard.watch(model, states=True)` keeps those of the last text that began, without its generated tokens.
        """
        hooks = self._recorder.residual
        return None if hooks is None else hooks.state_of(layer.name)

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording to a safetensors file; the model is not in it."""
        from regard.watch import saved

        saved.save(self._recorder, self._grid_of_model(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Seen:
        """The recording of a file that `save` wrote."""
        from regard.watch import saved

        recorder, grid = saved.load(path)
        recorder.file = Path(path).name
        return cls(recorder, None, grid)

    def __reduce__(self) -> Any:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "seen.safetensors"
            self.save(file)
            return _unpickled, (file.read_bytes(),)

    def _grid_of_model(self) -> tuple[int, int] | None:
        if self._grid is not None or self._model is None:
            return self._grid
        try:
            return _grid_of(self._model.config)
        except (errors.OptionError, AttributeError, TypeError):
            return None

    # Layers

    @property
    def layers(self) -> Layers:
        """The self-attention layers by number, as in `seen.layers[9]`."""
        return Layers([layer for layer in self._layers() if not layer.cross])

    @property
    def cross(self) -> Layers:
        """The cross-attention layers of a decoder."""
        return Layers([layer for layer in self._layers() if layer.cross], "cross")

    @property
    def encoder(self) -> Layers:
        """The self-attention layers of an encoder."""
        return self._part("encoder")

    @property
    def decoder(self) -> Layers:
        """The self-attention layers of a decoder."""
        return self._part("decoder")

    @property
    def vision(self) -> Layers:
        """The self-attention layers that see an image."""
        return self._part("vision")

    @property
    def text(self) -> Layers:
        """The self-attention layers that do not see an image, in models that read both."""
        return self._part("text")

    @property
    def stacks(self) -> dict[str, Layers]:
        """Every stack of layers, by the pattern of its module names."""
        of_stacks: dict[str, list[WatchedLayer]] = {}
        for layer in self._layers():
            of_stacks.setdefault(layer.stack, []).append(layer)
        return {stack: Layers(layers, stack) for stack, layers in of_stacks.items()}

    def __iter__(self) -> Iterator[WatchedLayer]:
        return iter(self._layers())

    def _part(self, name: str) -> Layers:
        layers = [layer for layer in self._layers() if in_part(name, layer)]
        if not layers:
            raise errors.option(name, self._recorder.model, f"a model with such layers: {', '.join(self.stacks)}")
        return Layers(layers, name)

    def _layers(self) -> list[WatchedLayer]:
        watched = self._recorder.watched()
        if watched:
            return watched
        if not self._recorder.calls:
            raise errors.OptionError(
                f"{self._recorder.model} was not called inside the `with` block.\n"
                "Call the model, or its generate(), between `with regard.watch(model) as seen:` and the end of it, in "
                "the same thread."
            )
        stacks = ", ".join(dict.fromkeys(layer.stack for layer in self._recorder.layers.values()))
        raise errors.option(
            "layers", self._recorder.chosen, f"numbers or patterns that match a layer of this model: {stacks}"
        )

    # Numbers

    def statistics(self) -> Table:
        """One row per layer and head: means over all queries that are not padding, of all passes that are kept.

        Entropy in nats, the largest weight, the expected distance in tokens, the largest logit, and shares of all
        weight: the largest that one key receives and which key that is, that of the first key, that of a learned sink.
        Columns that are not known, because they were not kept, are missing. `to_pandas()` makes a DataFrame of it.
        """
        layers = self._layers()
        means_of_layers = [layer.means() for layer in layers]
        columns = [column for name, column in STATISTICS.items() if any(name in means for means in means_of_layers)]
        names = [name for name in STATISTICS if any(name in means for means in means_of_layers)]
        several = len(self.stacks) > 1
        rows: list[tuple[Any, ...]] = []
        for layer, means in zip(layers, means_of_layers, strict=True):
            heads = layer.heads or list(range(layer.runs[-1].calls[0].queries.shape[1]))
            for at, head in enumerate(heads):
                numbers = [means[name][at].item() if name in means else None for name in names]
                rows.append(((layer.stack,) if several else ()) + (layer.number, head, *numbers))
        columns = [Column("layer", "number", 0), Column("head", "number", 0), *columns]
        if several:
            columns.insert(0, Column("stack", "text"))
        notes = list(dict.fromkeys(note for layer in layers for note in layer.notes))
        certificate = self.certificate
        if certificate.unseen:
            notes.append(f"Not all attention was seen: {certificate.unseen_modules()}.")
        passes = max(len(layer.runs) for layer in layers)
        if passes > 1:
            notes.append(f"Means over {passes} passes.")
        model = self._recorder.model
        source = f"{model} (unverified)" if self._recorder.file else model
        return Table(f"Attention of {model}", tuple(columns), tuple(rows), tuple(notes), source=source)

    @property
    def memory(self) -> int:
        """The bytes that are kept: queries, keys, values and outputs, or statistics."""
        storages: dict[int, int] = {}
        for layer in self._recorder.watched():
            for run in layer.recorded:
                for tensor in _tensors(run):
                    storage = tensor.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
        return sum(storages.values())

    def patches(self, layer: WatchedLayer | None = None, grid: tuple[int, int] | None = None) -> Tensor:
        """Row and column of the image patch that each token of a vision layer stands for, (token, 2); −1 for others.

        grid   rows and columns of patches; by default those of the configuration. Tokens before the patches, such as
               [CLS] and registers, have −1.
        """
        layer = layer or next((each for each in self._layers() if VISION.search(each.name)), None) or self.layers[0]
        tokens = layer.runs[-1].tokens
        rows, columns = grid or self._grid or _grid_of(getattr(self._model, "config", None))
        if rows * columns > tokens:
            raise errors.option(
                "grid",
                (rows, columns),
                f"at most {tokens} patches, the tokens of {layer.name}",
                "Give grid=(rows, columns).",
            )
        patch = torch.arange(rows * columns)
        patches = torch.stack([patch // columns, patch % columns], -1)
        return torch.nn.functional.pad(patches, (0, 0, tokens - rows * columns, 0), value=-1)

    def beams(self, beam_indices: Tensor) -> Seen:
        """The attention of the sequences that a beam search returned.

        `beam_indices` are those of generate(..., return_dict_in_generate=True). Without this, layers show the beams
        that were running at the last step.
        """
        return self._with_layers(
            lambda layer: [run.along(beam_indices) if len(run.calls) > 1 else run for run in layer.runs[-1:]]
        )

    def reading(self, tokenizer: Any, inputs: Any = None, batch: int = 0) -> Reading:
        """One sequence as a `Reading`: tokens and words with the attention of every layer, padding left out.

        inputs  what the model was given, or what generate() returned: a text or texts, token ids, or the tokenizer's
                output. It is compared with the token ids that the model was called with, and needed only where there
                were none, as with inputs_embeds: the text is then marked as unverified
        """
        from regard.watch.reading import reading_of

        return reading_of(self._recorder, self.stacks, tokenizer, inputs, batch)


def _unpickled(contents: bytes) -> Seen:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "seen.safetensors"
        file.write_bytes(contents)
        seen = Seen.load(file)
    seen._recorder.file = None  # a pickle is trusted as a whole
    return seen


def _grid_of(config: Any) -> tuple[int, int]:
    """Rows and columns of image patches by the configuration of a vision model, or of the one inside it."""
    config = getattr(config, "vision_config", config)
    image, patch = getattr(config, "image_size", None), getattr(config, "patch_size", None)
    if image is None or patch is None:
        raise errors.option("grid", None, "rows and columns of patches: this model's configuration has no image size")
    sizes = [size if isinstance(size, (tuple, list)) else (size, size) for size in (image, patch)]
    return int(sizes[0][0]) // int(sizes[1][0]), int(sizes[0][1]) // int(sizes[1][1])


def _tensors(run: Any) -> list[Tensor]:
    calls = run.calls if run._joined is None else [*run.calls, run._joined]
    tensors = [tensor for call in calls for tensor in (call.queries, call.keys, call.values)]
    tensors += run.outputs
    tensors += [tensor for part in run.statistics for tensor in part.values()]
    tensors += [tensor for pair in run.top for tensor in pair]
    tensors += [part for part in (run.column_sums, run.checksums) if part is not None]
    tensors += [] if run.pooled is None else [run.pooled.array]
    tensors += [call.bias for call in calls if isinstance(call.bias, Tensor)]
    tensors += [call.rule.tensor for call in calls if isinstance(call.rule, TensorMask)]
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]
