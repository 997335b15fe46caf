"""A recording in a safetensors file: what `Seen.save` writes and `Seen.load` reads, without the model.

Passes that continued a KV cache are joined; masks are kept as intervals where they are, as booleans otherwise.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import codec, errors
from regard.attention import PooledMap
from regard.masks import Mask, kinds, mask
from regard.reading.seen_codec import KINDS
from regard.watch.call import Call, TensorMask
from regard.watch.layer import WatchedLayer
from regard.watch.lazy_mask import MaskCall, bidirectional_mask_function
from regard.watch.recorder import Count, Keep, Recorder
from regard.watch.run import Run, dense_mask
from regard.watch.tokens_seen import ReadText

KIND = "recording"
FIELDS = ("name", "stack", "number", "heads", "cross", "passes", "is_recognised", "has_dropout")


@dataclass(frozen=True, eq=False)
class SavedMask(MaskCall):
    """A mask of `regard.masks` in place of a function of transformers."""

    saved: Mask | None = None  # positions count from the first key; padding apart

    def mask(self, padding: bool = True) -> Mask | None:
        """The mask, with or without padding."""
        real = super().mask(padding)
        return self.saved if real is None else real if self.saved is None else self.saved & real

    def over(self, first: int, queries: int, key_offset: int, keys: int) -> MaskCall:
        """The same mask for other positions."""
        if key_offset != self.key_offset and not _is_the_same_everywhere(self.saved):
            raise errors.unsupported(
                "A part of this mask, read from a file,", "Take the reading before the recording is saved."
            )
        return super().over(first, queries, key_offset, keys)


def _is_the_same_everywhere(saved: Any) -> bool:
    """Whether a mask depends on distances only."""
    if isinstance(saved, (mask.Both, mask.Either)):
        return all(map(_is_the_same_everywhere, saved.masks))
    return saved is None or isinstance(saved, (kinds.Causal, kinds.Window))


def save(recorder: Recorder, grid: tuple[int, int] | None, path: str | os.PathLike[str]) -> None:
    """Write a recording, and the grid of its image patches."""
    tensors: dict[str, Tensor] = {}
    texts = {id(text.ids): text for layer in recorder.watched() for run in layer.runs for text in run.texts.values()}
    for number, text in enumerate(texts.values()):
        tensors[f"text.{number}"] = text.ids
    text_numbers = {key: number for number, key in enumerate(texts)}
    layers = [
        _describe_layer(f"layer.{index}", layer, tensors, text_numbers)
        for index, layer in enumerate(recorder.watched())
    ]
    if not layers:
        raise errors.option("seen", recorder.model, "a recording of at least one layer")
    counts = {
        name: [count.ran, count.recorded, count.unchosen, list(count.reasons)]
        for name, count in recorder.counts.items()
    }
    metadata = {
        "model": recorder.model, "layers": layers, "counts": counts,
        "prompts": [text.prompt for text in texts.values()],
        "keep": {"vectors": recorder.keep.vectors}, "notes": list(recorder.notes),
        "grid": grid,
    }  # fmt: skip
    # A file holds each tensor in its own memory: expanded ones are written out.
    contents = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    codec.save(path, contents, metadata, kind=KIND, sealed=True)


def load(path: str | os.PathLike[str]) -> tuple[Recorder, tuple[int, int] | None]:
    """A recording and the grid of its image patches, if it has one."""
    return codec.load_as(path, KIND, _recorder_of, sealed=True)


def _describe_layer(
    name: str, layer: WatchedLayer, tensors: dict[str, Tensor], texts: dict[int, int]
) -> dict[str, Any]:
    runs = [
        {
            **_describe_run(f"{name}.run.{index}", run, tensors),
            "texts": [[key[1], texts[id(text.ids)]] for key, text in run.texts.items()],
        }
        for index, run in enumerate(layer.runs)
    ]
    return {
        **{field: getattr(layer, field) for field in FIELDS},
        "is_edited": layer.is_edited,
        "notes": list(layer.notes),
        "runs": runs,
    }


def _describe_run(name: str, run: Run, tensors: dict[str, Tensor]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "forward": run.forward, "problem": run.problem, "column_sums_problem": run.column_sums_problem,
        "parts": run.parts, "deviation": run.deviation,
    }  # fmt: skip
    call = run.calls[0] if run.problem is not None else run.joined()  # steps that cannot be joined: only that is known
    described["call"] = _describe_call(name, call, tensors, bool(run.outputs) and run.problem is None)
    if run.problem is not None:
        return described
    if run.outputs:
        tensors[f"{name}.output"] = run.gather(run.outputs, None, axis=1)
    described["statistics"] = list(run.statistics[0]) if run.statistics else []
    for statistic in described["statistics"]:
        tensors[f"{name}.{statistic}"] = run.row_statistic(statistic)
    if run.top:
        tensors[f"{name}.top_index"], tensors[f"{name}.top_weight"] = run.strongest()
    if run.column_sums is not None:
        tensors[f"{name}.column_sums"] = run.column_sums
    if run.pooled is not None:
        tensors[f"{name}.pooled"] = torch.as_tensor(run.pooled.array)
        for part in ("row_edges", "column_edges"):
            tensors[f"{name}.{part}"] = torch.as_tensor(np.asarray(getattr(run.pooled, part)))
        described["pool"] = run.pooled.pool
    return described


def _describe_call(name: str, call: Call, tensors: dict[str, Tensor], has_vectors: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "scale": call.scale, "softcap": call.softcap, "cross": call.cross, "position": call.position,
        "shapes": [list(part.shape) for part in (call.queries, call.keys, call.values)], "vectors": has_vectors,
    }  # fmt: skip
    if has_vectors:
        for part in ("queries", "keys", "values"):
            tensors[f"{name}.{part}"] = getattr(call, part)
        described["sinks"] = codec.describe(f"{name}.sinks", call.sinks, tensors, KINDS)
        described["bias"] = codec.describe(f"{name}.bias", call.bias, tensors, KINDS)
    rule = call.rule
    if call.edges:
        dense = dense_mask(call, call.keys.shape[2])
        hidden = ~call.attention().scores.visible.tile(slice(None), slice(None))  # type: ignore[union-attr]
        rule = TensorMask(dense & ~hidden if dense.dtype == torch.bool else dense.masked_fill(hidden, -torch.inf))
    elif isinstance(rule, MaskCall):
        mine: dict[str, Tensor] = {}
        try:
            described_mask = codec.describe(f"{name}.mask", rule.mask(padding=False), mine, KINDS)
        except errors.Unsupported:  # a function
            rule = TensorMask(dense_mask(call, call.keys.shape[2]))
        else:
            tensors.update(mine)
            described["rule"] = [rule.queries, rule.keys, rule.query_offset, rule.key_offset]
            described["mask"] = described_mask
            described["padding"] = codec.describe(f"{name}.padding", rule.padding, tensors, KINDS)
            return described
    tensors[f"{name}.rule"] = rule.tensor
    return described


def _recorder_of(arrays: dict[str, Any], metadata: dict[str, Any]) -> tuple[Recorder, tuple[int, int] | None]:
    tensors = {name: _in_torch(array) for name, array in arrays.items()}
    recorder = Recorder({}, Keep(bool(metadata["keep"]["vectors"])), None, None, None, str(metadata["model"]))
    texts = [
        ReadText(codec.tensor(f"text.{number}", tensors), int(prompt))
        for number, prompt in enumerate(metadata["prompts"])
    ]
    for index, described in enumerate(metadata["layers"]):
        layer = WatchedLayer(**{field: described[field] for field in FIELDS}, notes=dict.fromkeys(described["notes"]))
        layer.is_edited = bool(described.get("is_edited", False))
        layer.recorded = [_run_of(f"layer.{index}.run.{at}", run, tensors) for at, run in enumerate(described["runs"])]
        for run, its in zip(layer.recorded, described["runs"], strict=True):
            run.texts = {(number, str(name)): texts[number] for name, number in its["texts"]}
        recorder.layers[index, 0, 0] = layer
    recorder.counts = {
        name: Count(ran, recorded, unchosen, dict.fromkeys(reasons))
        for name, (ran, recorded, unchosen, reasons) in metadata["counts"].items()
    }
    recorder.has_run, recorder.notes = True, dict.fromkeys(metadata["notes"])
    grid = metadata["grid"]
    return recorder, None if grid is None else (int(grid[0]), int(grid[1]))


def _run_of(name: str, described: dict[str, Any], tensors: dict[str, Tensor]) -> Run:
    call = _call_of(name, described["call"], tensors)
    run = Run(forward=described["forward"], calls=[call], parents=[None])
    run.problem, run.column_sums_problem = described["problem"], described["column_sums_problem"]
    run.parts, run.deviation = described["parts"], described["deviation"]
    if run.problem is not None:
        return run
    if f"{name}.output" in tensors:
        run.outputs = [tensors[f"{name}.output"]]
    if described["statistics"]:
        run.statistics = [{row: codec.tensor(f"{name}.{row}", tensors) for row in described["statistics"]}]
    elif not run.outputs:
        run.statistics = [{}]
    if f"{name}.top_index" in tensors:
        run.top = [(tensors[f"{name}.top_index"], codec.tensor(f"{name}.top_weight", tensors))]
    run.column_sums = tensors.get(f"{name}.column_sums")
    if f"{name}.pooled" in tensors:
        rows, columns = (codec.tensor(f"{name}.{part}", tensors).numpy() for part in ("row_edges", "column_edges"))
        run.pooled = PooledMap(tensors[f"{name}.pooled"], rows, columns, described["pool"])
    return run


def _call_of(name: str, described: dict[str, Any], tensors: dict[str, Tensor]) -> Call:
    if described["vectors"]:
        queries, keys, values = (codec.tensor(f"{name}.{part}", tensors) for part in ("queries", "keys", "values"))
    else:
        queries, keys, values = (torch.empty(1).expand(tuple(shape)) for shape in described["shapes"])
    rule: MaskCall | TensorMask
    if "rule" in described:
        saved = codec.build(described["mask"], tensors, KINDS)
        padding = codec.build(described["padding"], tensors, KINDS)
        queries_count, keys_count, query_offset, key_offset = described["rule"]
        rule = SavedMask(
            queries_count, keys_count, query_offset, key_offset, bidirectional_mask_function, padding, saved=saved
        )
    else:
        rule = TensorMask(codec.tensor(f"{name}.rule", tensors))
    return replace(
        Call(queries, keys, values, rule, described["scale"], described["softcap"]),
        sinks=codec.build(described.get("sinks"), tensors, KINDS),
        bias=codec.build(described.get("bias"), tensors, KINDS),
        cross=described["cross"],
        position=described["position"],
    )


def _in_torch(array: Any) -> Tensor:
    """A tensor of an array; bfloat16 has no type in NumPy itself."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array)
