"""`Seen`: what a watched model computed, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard import errors
from regard.tables import Column, Table
from regard.watch.layer import VISION, Layer, Layers
from regard.watch.recorder import Recorder

if TYPE_CHECKING:
    from regard.reading import Reading


class Seen:
    """The attention of a model's layers, recorded while it ran.

    `layers` are its self-attention layers, `cross` those of cross-attention; `encoder`, `decoder` and `vision` are
    parts of `layers` in models that have them, and `stacks` has every stack by the pattern of its module names.
    """

    def __init__(self, recorder: Recorder, model: Any) -> None:
        self._recorder = recorder
        self._model = model

    def __repr__(self) -> str:
        found = self._recorder.watched()
        crossing = sum(layer.cross for layer in found)
        kinds = f"{len(found) - crossing} self-attention" + (f" and {crossing} cross-attention" if crossing else "")
        memory = errors.size_in_bytes(self.memory)
        return f"Seen({self._recorder.model}: {kinds} layers, {memory})" if found else "Seen(nothing yet)"

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
        return self._part("encoder", lambda layer: "encoder" in layer.name.split(".") and not layer.cross)

    @property
    def decoder(self) -> Layers:
        """The self-attention layers of a decoder."""
        return self._part("decoder", lambda layer: "decoder" in layer.name.split(".") and not layer.cross)

    @property
    def vision(self) -> Layers:
        """The self-attention layers that see an image."""
        return self._part("vision", lambda layer: bool(VISION.search(layer.name)) and not layer.cross)

    @property
    def text(self) -> Layers:
        """The self-attention layers that do not see an image, in models that read both."""
        return self._part("text", lambda layer: not VISION.search(layer.name) and not layer.cross)

    @property
    def stacks(self) -> dict[str, Layers]:
        """Every stack of layers, by the pattern of its module names."""
        found: dict[str, list[Layer]] = {}
        for layer in self._layers():
            found.setdefault(layer.stack, []).append(layer)
        return {stack: Layers(layers, stack) for stack, layers in found.items()}

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._layers())

    def _part(self, name: str, belongs: Any) -> Layers:
        found = [layer for layer in self._layers() if belongs(layer)]
        if not found:
            raise errors.option(name, self._recorder.model, f"a model with such layers: {', '.join(self.stacks)}")
        return Layers(found, name)

    def _layers(self) -> list[Layer]:
        found = self._recorder.watched()
        if found:
            return found
        if not self._recorder.calls:
            raise errors.OptionError(
                f"{self._recorder.model} was not called inside the `with` block.\n"
                "Call the model, or its generate(), between `with regard.watch(model) as seen:` and the end of it."
            )
        known = ", ".join(dict.fromkeys(layer.stack for layer in self._recorder.layers.values()))
        raise errors.option(
            "layers", self._recorder.chosen, f"numbers or patterns that match a layer of this model: {known}"
        )

    # Numbers

    def statistics(self) -> Table:
        """One row per layer and head: means over all queries that are not padding.

        Entropy in nats, the largest weight, the expected distance in tokens, the largest logit, and, where it was kept
        or can be computed, the largest share of all weight that one key receives and which key that is.
        """
        rows: list[tuple[Any, ...]] = []
        names = ("entropy", "peak", "distance", "max_logit")
        several = len(self.stacks) > 1
        for layer in self._layers():
            means = layer.row_means()
            share, place = _strongest_column(layer)
            heads = layer.heads or list(range(layer.runs[-1].calls[0].queries.shape[1]))
            for at, head in enumerate(heads):
                numbers = [float(means[name][at]) if name in means else None for name in names]
                received = (None, None) if share is None else (float(share[at]), int(place[at]))
                rows.append(((layer.stack,) if several else ()) + (layer.number, head, *numbers, *received))
        columns = [
            Column("layer", "number", 0), Column("head", "number", 0), Column("entropy", "number"),
            Column("peak", "number", shade=True), Column("distance", "number", 1), Column("max logit", "number", 1),
            Column("received", "number", shade=True), Column("by key", "number", 0),
        ]  # fmt: skip
        if several:
            columns.insert(0, Column("stack", "text"))
        notes = list(dict.fromkeys(note for layer in self._layers() for note in layer.notes))
        return Table(f"Attention of {self._recorder.model}", tuple(columns), tuple(rows), tuple(notes))

    @property
    def memory(self) -> int:
        """The bytes that are kept: queries, keys, values and outputs, or statistics."""
        storages: dict[int, int] = {}
        for layer in self._recorder.watched():
            for run in layer.runs:
                for tensor in _tensors(run):
                    storage = tensor.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
        return sum(storages.values())

    def patches(self, layer: Layer | None = None, grid: tuple[int, int] | None = None) -> Tensor:
        """Row and column of the image patch that each token of a vision layer stands for, (token, 2); −1 for others.

        grid   rows and columns of patches; by default those of the configuration. Tokens before the patches, such as
               [CLS] and registers, have −1.
        """
        layer = layer or next((one for one in self._layers() if VISION.search(one.name)), None) or self.layers[0]
        tokens = sum(call.queries.shape[2] for call in layer.runs[-1].calls)
        rows, columns = grid or _grid_of(self._model.config)
        if rows * columns > tokens:
            raise errors.option(
                "grid",
                (rows, columns),
                f"at most {tokens} patches, the tokens of {layer.name}",
                "Give grid=(rows, columns).",
            )
        place = torch.arange(rows * columns)
        patches = torch.stack([place // columns, place % columns], -1)
        return torch.nn.functional.pad(patches, (0, 0, tokens - rows * columns, 0), value=-1)

    def beams(self, beam_indices: Tensor) -> Seen:
        """The attention of the sequences that a beam search returned.

        `beam_indices` are those of generate(..., return_dict_in_generate=True). Without this, layers show the beams
        that were running at the last step.
        """
        recorder = self._recorder
        found = Recorder(recorder.names, recorder.keep, None, recorder.heads, recorder.runs, recorder.model)
        found.calls = recorder.calls
        for key, layer in recorder.layers.items():
            made = Layer(layer.name, layer.stack, layer.number, layer.heads, layer.cross, notes=layer.notes)
            made.runs = [run.along(beam_indices) if len(run.calls) > 1 else run for run in layer.runs[-1:]]
            found.layers[key] = made
        return Seen(found, self._model)

    def reading(self, tokenizer: Any, inputs: Any, batch: int = 0) -> Reading:
        """One sequence as a `Reading`: tokens and words with the attention of every layer, padding left out.

        inputs  what the model was given, or what generate() returned: a text, token ids, or the tokenizer's output
        """
        from regard.watch.reading import reading_of

        return reading_of(self, tokenizer, inputs, batch)


def _grid_of(config: Any) -> tuple[int, int]:
    """Rows and columns of image patches by the configuration of a vision model, or of the one inside it."""
    config = getattr(config, "vision_config", config)
    image, patch = getattr(config, "image_size", None), getattr(config, "patch_size", None)
    if image is None or patch is None:
        raise errors.option("grid", None, "rows and columns of patches: this model's configuration has no image size")
    sizes = [size if isinstance(size, (tuple, list)) else (size, size) for size in (image, patch)]
    return int(sizes[0][0]) // int(sizes[1][0]), int(sizes[0][1]) // int(sizes[1][1])


def _tensors(run: Any) -> list[Tensor]:
    found = [tensor for call in run.calls for tensor in (call.queries, call.keys, call.values) if tensor.numel() > 1]
    found += run.outputs
    found += [tensor for one in run.statistics for tensor in one.values()]
    found += [tensor for pair in run.top for tensor in pair]
    found += [] if run.received is None else [run.received]
    return [tensor for tensor in found if isinstance(tensor, Tensor)]


def _strongest_column(layer: Layer) -> tuple[Any, Any]:
    """The largest share of all weight that one key receives, and that key, per head; None if it was not kept."""
    try:
        received = layer.received().detach().double()  # (batch, head, key)
    except errors.OptionError:
        return None, None
    total = received.sum(-1, keepdim=True)
    share, place = (received / total.clamp(min=torch.finfo(torch.float64).tiny)).max(-1)
    best = share.argmax(0)
    return share.mean(0), place.gather(0, best[None])[0]
