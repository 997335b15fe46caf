"""Inputs and results computed in Python, which fixtures.test.js computes again in JavaScript."""

import itertools
import json
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType, quants

from regard.attention import Attention
from regard.biases import alibi
from regard.engines import generic
from regard.engines.interface import ACTIVATIONS, RowState
from regard.heads.sentence_relations import POSSIBLE, classes_of, is_link
from regard.layers import FeedForward, Linear
from regard.masks import allowed, causal, first, window
from regard.models.generate import Sampling
from regard.provenance import provenance
from regard.reading.links import strongest, strongest_links
from regard.reading.votes import vote_of
from regard.viewer.block_weights import block_weights

from ..small_models import encoder, writer

HEAD_DIM = 4
STAGES = ("score", "scaled", "capped", "biased", "weight")  # masked scores are infinite, which JSON has not


def exact_weights(logits):
    """Softmax of exact rationals: the differences are exact, only exp and the division round."""
    top = max(logit for logit in logits if logit is not None)
    parts = [0.0 if logit is None else math.exp(float(logit - top)) for logit in logits]
    return [part / math.fsum(parts) for part in parts]


def stages():
    """Every stage of one query, from a trace."""
    rng = np.random.default_rng(3)
    visible = np.array([True, False, True, True, False, True, True])
    cases: dict[str, dict[str, Any]] = {
        "scale": {"scale": 0.3},
        "softcap": {"softcap": 1.5},
        "bias": {"bias": rng.normal(size=(1, 1, 7))},
        "mask": {"mask": allowed(visible[None, None])},
        "sink": {"sinks": np.array([0.7])},
        "all": {
            "scale": 0.4, "softcap": 2.0, "bias": rng.normal(size=(1, 1, 7)), "sinks": np.array([-0.2]),
            "mask": allowed(visible[None, None]),
        },
    }  # fmt: skip
    found = []
    for name, options in cases.items():
        q, k = rng.normal(size=(1, 1, HEAD_DIM)), rng.normal(size=(1, 7, HEAD_DIM))
        trace = Attention(q, k, **options).explain(np.ones((1, 7, 1)))
        steps = {
            step: np.ravel(trace[step]) for step in ("score", "scaled", "capped", "biased", "weight") if step in trace
        }
        found.append(
            {
                "name": name,
                "scale": options.get("scale", HEAD_DIM**-0.5),
                "softcap": options.get("softcap"),
                "bias": np.ravel(options["bias"]).tolist() if "bias" in options else None,
                "visible": visible.tolist() if "mask" in options else None,
                "sink": float(options["sinks"][0]) if "sinks" in options else None,
                "stages": {step: numbers.tolist() for step, numbers in steps.items()},
            }
        )
    return found


def attentions():
    """Outputs, weights and statistics of several heads, in double precision."""
    rng = np.random.default_rng(11)
    heads, key_heads, rows, keys, size, value_size = 6, 3, 13, 17, 5, 7
    at_end = keys - rows
    cases: dict[str, dict[str, Any]] = {
        "plain": {},
        "causal": {"mask": causal(), "offset": at_end},
        "first and window": {"mask": first(2) | window(3, 1), "offset": at_end},
        "dense mask": {"mask": allowed(rng.random((1, rows, keys)) < 0.7)},
        "bias": {"bias": rng.normal(size=(heads, 1, keys))},
        "every stage": {
            "mask": causal(), "offset": at_end, "scale": -0.7, "softcap": 2.5, "bias": alibi(heads),
            "sinks": rng.normal(size=heads),
        },
    }  # fmt: skip
    found = []
    for name, options in cases.items():
        q, k, v = (
            rng.normal(size=(count, length, width))
            for count, length, width in (
                (heads, rows, size), (key_heads, keys, size), (key_heads, keys, value_size),
            )
        )  # fmt: skip
        scores = Attention(q, k, **options).scores
        wanted = ("row_max", "row_sum", "logsumexp", "entropy", "peak", "distance")
        output, rows_of = generic.forward(scores, v[None], wanted, 3)
        assert output is not None
        state = RowState(rows_of.pop("row_max"), rows_of.pop("row_sum"))
        edges = {"rows": [1, 2, 7, 13], "columns": [0, 5, 9, 16]}
        pooled = {
            pool: generic.pooled(scores, state, *(np.array(edge) for edge in edges.values()), pool)
            for pool in ("sum", "max")
        }
        visible = scores.visible
        ends = {
            end: getattr(visible, end)[0].tolist()
            for end in ("first", "last", "second_first", "second_last")
            if visible is not None and visible.rest is None and getattr(visible, end) is not None
        }
        dense = None if visible is None or visible.rest is None else visible.tile(slice(None), slice(None))[0]
        found.append(
            {
                "name": name, "queries": _stored(q), "keys": _stored(k), "values": _stored(v), "ends": ends,
                "scale": float(scores.scale), "softcap": options.get("softcap"), "offset": options.get("offset", 0),
                "mask": None if dense is None else _stored(dense.astype(np.uint8)),
                "bias": None if scores.bias is None else _stored(scores.bias[0]),
                "relative": None if scores.relative is None else _stored(scores.relative),
                "relative_zero": scores.relative_zero,
                "sinks": None if scores.sinks is None else _stored(scores.sinks),
                "output": output.ravel().tolist(),
                "weight": generic.tile(scores, state, "weight").ravel().tolist(),
                "received": generic.column_sums(scores, state).ravel().tolist(),
                "edges": edges, "pooled": {pool: cells.ravel().tolist() for pool, cells in pooled.items()},
                "statistics": {statistic: numbers.ravel().tolist() for statistic, numbers in rows_of.items()},
            }
        )  # fmt: skip
    return found


def _stored(array):
    return {"shape": list(array.shape), "numbers": np.ravel(array).tolist()}


def quantised():
    """Linear maps whose weights are stored in 16 bits and in GGUF's blocks, in double precision."""
    rng = np.random.default_rng(12)
    found = []
    for kind in (GGMLQuantizationType.F16, GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1):
        for rows in (1, 2, 5, 21):
            x, weight = rng.normal(size=(rows, 96)).astype(np.float32), rng.normal(size=(13, 96)).astype(np.float32)
            stored = quants.quantize(weight, kind)
            weights = quants.dequantize(stored, kind).astype(np.float64)
            output = x.astype(np.float64) @ weights.T
            found.append(
                {
                    "type": kind.name.lower(), "rows": rows, "bytes": stored.view(np.uint8).ravel().tolist(),
                    "x": x.ravel().tolist(), "weights": weights.ravel().tolist(), "output": output.ravel().tolist(),
                }
            )  # fmt: skip
    return found


def large_scores():
    """Integer queries and keys whose scores reach 1e6 and more: weights by exact rationals."""
    found = []
    for size in (1, 1_000, 1_000_000):  # scores of about 1e6, 1e9 and 1e12
        queries = np.array([1000.0, -3.0, 7.0])
        keys = np.array([[1000.0 * size, 1, 0], [1000.0 * size, 0, 0], [1000.0 * size - 1, 329, 0], [0, 5, 1]])
        score = [sum(Fraction(a) * Fraction(b) for a, b in zip(queries, key, strict=True)) for key in keys]
        weight = exact_weights([one * Fraction(1, 4) for one in score])
        found.append({"scale": 0.25, "query": queries.tolist(), "keys": keys.tolist(), "weight": weight})
    return found


def links():
    """Rankings with ties, sinks, first queries other than 0, and queries that are not among the keys."""
    rng = np.random.default_rng(5)
    found = []
    for count in (1, 3, 7, 1000):
        for first_query in (0, 2, 5, None):
            for itself in (False, True):
                for sinks in ((), (0,), (0, 3, 6)):
                    weights = rng.integers(0, 6, (4, 9)) / 8  # many ties, exact in every precision
                    own = None if first_query is None else np.arange(4) + first_query
                    ranked = strongest_links(weights, np.arange(4), own, count, itself=itself, sinks=sinks)
                    found.append(
                        {
                            "weights": weights.tolist(), "first_query": first_query, "count": count, "itself": itself,
                            "sinks": sinks, "links": [array.tolist() for array in ranked],
                        }
                    )  # fmt: skip
    return found


def rankings():
    """Positions of the largest weights of a row."""
    rng = np.random.default_rng(6)
    rows = [rng.integers(0, 5, 11) / 4 for _ in range(8)]
    return [
        {"weights": row.tolist(), "count": count, "order": strongest(row, count).tolist()}
        for row in rows
        for count in (1, 4, 20)
    ]


def votes():
    """The choice of one head, with ties, sinks, masked words, and queries that are not among the keys."""
    rng = np.random.default_rng(9)
    found = []
    for sinks in ((), (0,), (0, 6)):
        for own in (None, 0, 3):
            for _ in range(12):
                row = rng.integers(0, 9, 7) / 16  # many ties and zeros, exact in every precision
                word, weight, abstains = vote_of(row, sinks, own)
                found.append({
                    "row": row.tolist(), "sinks": sinks, "own": own, "word": word, "weight": weight,
                    "abstains": abstains,
                })  # fmt: skip
    return found


def blocks():
    """One block for one token: q, k, v with positions, and everything after the heads, from traces."""
    found = []
    for model in (writer(), encoder()):
        read = model.read("the kids were scared of the lions")
        for layer, query, head in ((0, 0, 0), (1, 5, 3)):
            header, arrays = block_weights(model.blocks[layer])
            trace = model.blocks[layer].explain(read.states[layer], query=query)
            after = {name: trace[name][0].tolist() for name in ("projected", "attended", "fed_forward", "result")}
            turned = {name: trace[name][head, row].tolist() for name, row in (("query", 0), ("key", query))}
            found.append(
                {
                    "name": f"{model.name}, layer {layer}", "header": header, "head": head, "position": query,
                    "count": len(read.tokens),
                    "arrays": {name: [list(array.shape), array.ravel().tolist()] for name, array in arrays.items()},
                    "x": read.states[layer][query].tolist(), **turned, "value": trace["value"][head, query].tolist(),
                    "concatenated": trace["concatenated"][0].tolist(), "after": after,
                }
            )  # fmt: skip
    return found


def activations():
    """Every activation, at numbers on both sides of 0."""
    xs = np.linspace(-8, 8, 65)
    up = Linear(np.eye(len(xs)))
    return {name: [xs.tolist(), FeedForward(up, up, name).hidden(xs[None])[0].tolist()] for name in ACTIVATIONS}


def sampled():
    """Probabilities of the next token, with ties."""
    rng = np.random.default_rng(8)
    found = []
    for temperature, top_k, top_p in itertools.product((0.0, 0.3, 1.0, 4.0), (None, 1, 5), (None, 0.1, 0.75, 1.0)):
        logits = np.sort(np.round(rng.normal(size=23), 1))[::-1]
        _, probabilities = Sampling(temperature, top_k, top_p).probabilities(logits)
        found.append(
            {
                "logits": logits.tolist(), "temperature": temperature, "topK": top_k, "topP": top_p,
                "probabilities": probabilities.tolist(),
            }
        )  # fmt: skip
    return found


def relations():
    """Which links of a sentence can be each relation."""
    text = "The kids were scared of the lions in the zoo , so they left her dog yesterday ."
    words = text.split()
    classes = classes_of(words)
    directions = ("to head", "to dependent")
    return {
        "known": {
            "possible": {name: list(ends) for name, ends in POSSIBLE.items()},
            "classes": [sorted(of_word) for of_word in classes],
        },
        "links": {
            f"{name} {direction}": [
                [query, key]
                for query in range(len(words))
                for key in range(len(words))
                if is_link(name, direction, query, key, classes)
            ]
            for name in (*POSSIBLE, "discourse")
            for direction in directions
        },
    }


def sources():
    """Sentences on where numbers come from."""
    cases: list[dict[str, Any]] = [
        {"source": "minilm", "layer": 3, "heads": [1], "text": "The kids  were\nscared."},
        {"source": "minilm, rollout", "text": "🙂" * 79 + "  " + "🙂" * 9},
        {"source": "smollm2", "layer": 0, "heads": [2, 5], "text": "word " * 40, "edited": "temperature 2.00"},
        {"source": "typed by hand", "text": "The cat sat", "edited": "vectors, matrices or words"},
        {"source": "minilm", "text": "Apple pie", "compared": "Apple with Apple in “Apple phones”", "edited": "x"},
        {"source": "look-up"}, {"source": "synthetic", "heads": [4]}, {"source": ""},
    ]  # fmt: skip
    return [{"origin": case, "said": provenance(**case)} for case in cases]


def write(path):
    parts: tuple[Callable[[], Any], ...] = (
        attentions,
        quantised,
        stages,
        large_scores,
        links,
        rankings,
        votes,
        blocks,
        activations,
        sampled,
    )
    parts += (relations, sources)
    path.write_text(json.dumps({part.__name__: part() for part in parts}), encoding="utf-8")
