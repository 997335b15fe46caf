"""The ONNX operators Attention and FlexAttention, said in Regard's words: what their nodes ask for, as calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

import regard

from ..engine_names import as_numpy, for_engine

Numbers = NDArray[Any]
Arrays = dict[str, Numbers]
UNBOUNDED = 2**29  # a window's side that reaches further than any position
STAGE_OF_MODE = ("scaled", "capped", "masked", "weight")  # by qk_matmul_output_mode


class NotOffered(Exception):
    """A modifier that Regard has no word for."""


@dataclass(frozen=True)
class Heads:
    """Arrays (batch, token, head · size) split into heads, and results put together again, where a node asks for it."""

    query_heads: int | None
    key_heads: int | None

    def split(self, array: Numbers, heads: int | None) -> Numbers:
        if array.ndim == 4:
            return array
        assert heads is not None
        batch, tokens, width = array.shape
        return array.reshape(batch, tokens, heads, width // heads).transpose(0, 2, 1, 3)

    def joined(self, output: Numbers, like: Numbers) -> Numbers:
        if like.ndim == 4:
            return output
        return output.transpose(0, 2, 1, 3).reshape(output.shape[0], output.shape[2], -1)


def attention(node: onnx.NodeProto, given: Arrays, engine: str) -> Arrays:
    """All outputs of an Attention node."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    heads = Heads(attributes.get("q_num_heads"), attributes.get("kv_num_heads"))
    queries = heads.split(given["Q"], heads.query_heads)
    keys = _after_past(heads.split(given["K"], heads.key_heads), given.get("past_key"))
    values = _after_past(heads.split(given["V"], heads.key_heads), given.get("past_value"))
    offset = _offset(queries, given)
    options = {
        "scale": attributes.get("scale"),
        "softcap": attributes.get("softcap") or None,
        "mask": _mask(attributes, given, queries, keys, engine),
        "bias": for_engine(engine, _bias(given, keys)),
        "offset": for_engine(engine, offset) if isinstance(offset, np.ndarray) else offset,
    }
    precise = _precision(attributes, queries)
    A = regard.Attention(
        *(for_engine(engine, array.astype(precise, copy=False)) for array in (queries, keys)), **options
    )
    output = as_numpy(A @ for_engine(engine, values.astype(precise, copy=False)))
    stage = STAGE_OF_MODE[attributes.get("qk_matmul_output_mode", 0)]
    matrix = as_numpy(A.dense() if stage == "weight" else getattr(A, stage).dense())
    return {
        "Y": heads.joined(output.astype(queries.dtype, copy=False), given["Q"]),
        "present_key": keys,
        "present_value": values,
        "qk_matmul_output": matrix.astype(queries.dtype),
    }


def _after_past(new: Numbers, past: Numbers | None) -> Numbers:
    return new if past is None else np.concatenate([past, new], axis=2)


def _offset(queries: Numbers, given: Arrays) -> Any:
    """How many keys come before the first query: the cache's own, the valid ones of a static cache, or none."""
    if "past_key" in given:
        return given["past_key"].shape[2]
    if "nonpad_kv_seqlen" in given:
        return given["nonpad_kv_seqlen"].reshape(-1) - queries.shape[2]
    return 0


def _mask(attributes: dict[str, Any], given: Arrays, queries: Numbers, keys: Numbers, engine: str) -> Any:
    masks: list[regard.Mask] = []
    if attributes.get("is_causal"):
        masks.append(regard.causal())
    left, right = (attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if left >= 0 or right >= 0:
        masks.append(regard.window(*(UNBOUNDED if side < 0 else side for side in (left, right))))
    if "nonpad_kv_seqlen" in given:
        masks.append(regard.padding(for_engine(engine, given["nonpad_kv_seqlen"])))
    given_mask = given.get("attn_mask")
    if given_mask is not None and given_mask.dtype == bool:
        dense = _padded(given_mask, keys, False)
        masks.append(regard.masks.allowed(for_engine(engine, dense if dense.ndim > 1 else dense[None])))
    mask = None
    for one in masks:
        mask = one if mask is None else mask & one
    return mask


def _bias(given: Arrays, keys: Numbers) -> Numbers | None:
    """A mask of numbers is added to the scores: in Regard's words a bias."""
    mask = given.get("attn_mask")
    return None if mask is None or mask.dtype == bool else _padded(mask, keys, -np.inf)


def _padded(mask: Numbers, keys: Numbers, padding: Any) -> Numbers:
    """A mask may end before the keys do: the rest is hidden."""
    missing = keys.shape[2] - mask.shape[-1]
    return np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, missing)], constant_values=padding)


def _precision(attributes: dict[str, Any], queries: Numbers) -> np.dtype[Any]:
    """The type to compute in; Regard's softmax is never less precise than float32, so only float64 has to be asked."""
    return np.dtype(np.float64) if attributes.get("softmax_precision") == onnx.TensorProto.DOUBLE else queries.dtype


# FlexAttention: modifiers are small graphs, known here by the names that the suite gives them


def flex_attention(node: onnx.NodeProto, given: Arrays, engine: str) -> Arrays:
    """The output of a FlexAttention node; NotOffered for a modifier of weights, and for an unknown one of scores."""
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    if "prob_mod" in attributes:
        raise NotOffered("prob_mod: weights are what softmax makes of the scores, nothing changes them afterwards")
    queries, keys, values = (for_engine(engine, given[name]) for name in "QKV")
    options = _score_change(attributes["score_mod"], given, engine) if "score_mod" in attributes else {}
    A = regard.Attention(queries, keys, scale=attributes.get("scale"), **options)
    return {"Y": as_numpy(A @ values)}


def _score_change(graph: onnx.GraphProto, given: Arrays, engine: str) -> dict[str, Any]:
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    match graph.name:
        case "score_mod_bias":
            return {"bias": float(constants["bias"])}
        case "score_mod_soft_cap":
            return {"softcap": float(constants["cap"])}
        case "score_mod_causal_mask":
            return {"mask": regard.causal(), "offset": 0}
        case "score_mod_relative_positional":
            query, key = np.arange(given["Q"].shape[2]), np.arange(given["K"].shape[2])
            return {"bias": for_engine(engine, (query[:, None] - key).astype(given["Q"].dtype))}
    raise NotOffered(f"score_mod {graph.name}")
