"""Models as folders for the page, and what Python computes with them, for the tests of Node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from regard.arrays import numpy_of
from regard.models.generate import Sampling
from regard.models.model import Model
from regard.reading import Reading
from regard.viewer import frames, model_answers, web_model
from regard.viewer.describe import query_kinds
from regard.viewer.queries import Answers
from regard.viewer.similar import Embedder

ALIKE = ("The kids were scared.", "The children were afraid, and left.")


@dataclass(frozen=True, eq=False)
class Case:
    """A model and a text; what is generated, and which changes are followed."""

    name: str
    model: Model
    text: str
    prompt: str = ""
    tokens: int = 64
    samplings: Sequence[Mapping[str, Any]] = ()
    changes: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


def write_case(folder: Path, case: Case, dtype: Literal["float16", "float32"] = "float32") -> None:
    """The folder of the model, and expected.bin beside its manifest."""
    own = folder / case.name
    web_model.write(case.model, own, dtype)
    header, arrays = expected(case)
    (own / "expected.bin").write_bytes(frames.pack(header, arrays))
    write_answers(own, case)


def expected(case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
    """Everything that Python computes for a case."""
    model, reading = case.model, case.model.read(case.text)
    arrays: dict[str, Any] = {"states": np.stack([numpy_of(rows) for rows in reading.states])}
    for layer, (attention, values) in enumerate(reading.seen):
        scores = attention.scores
        arrays |= {
            f"q{layer}": numpy_of(scores.queries[0]),
            f"k{layer}": numpy_of(scores.keys[0]),
            f"v{layer}": numpy_of(values),
            f"outputs{layer}": numpy_of(reading.outputs[layer]),
            f"weights{layer}": numpy_of(attention.dense()),
        }
    arrays["embed"] = model.embed(list(ALIKE))
    flows = []
    for place, given in enumerate(case.changes):
        changes = model_answers.changes_of(reading, {name: part for name, part in given.items() if name != "query"})
        states, _ = model_answers._run_changed(reading, changes, lambda: None)
        arrays[f"changed{place}"] = np.stack([numpy_of(rows) for rows in states])
        flows.append(dict(given))
    written: list[dict[str, Any]] = []
    if model.writes:
        arrays["logits"] = numpy_of(model.next_logits(reading.states[-1]))
        written = [_generated(case, sampling) for sampling in ({}, *case.samplings)]
    header = {
        "text": case.text,
        "tokens": [token.text for token in reading.tokens],
        "ids": [token.id for token in reading.tokens],
        "words": [[word.text, word.first, word.last] for word in reading.words],
        "sinks": list(reading.sinks),
        "certificate": {"rows": reading.certificate.rows},
        "alike": ALIKE,
        "changes": flows,
        "prompt": case.prompt,
        "written": written,
    }
    return header, {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def queries_of(reading: Reading) -> list[tuple[str, dict[str, Any]]]:
    """Every kind of query, in a first and a last layer and head, by token and by word, of every measure."""
    last, layer = len(reading.queries) - 1, reading.layers - 1
    head = reading.seen[layer].attention.shape[0] - 1
    region = {"layer": layer, "head": head, "rows": [1, last], "columns": [0, last], "shape": [2, 3]}
    asked: list[tuple[str, dict[str, Any]]] = [("statistics", {}), ("architecture", {}), ("likelihood", {})]
    asked += [("tile", {**region, "pool": pool}) for pool in ("mean", "max")]
    asked += [("tile", {**region, "measure": measure}) for measure in ("norm", "mean", "rollout")]
    for by in ("token", "word"):
        asked.append(("row", {"layer": layer, "heads": [0, head], "query": last, "by": by}))
        asked += [("row", {"layer": 0, "heads": [0], "query": 2, "by": by, "measure": m}) for m in ("mean", "rollout")]
        asked.append(("heads_for", {"query": last, "key": 1, "by": by}))
    for sinks in (False, True):
        asked.append(("links", {"layer": layer, "heads": [0, head], "count": 9, "sinks": sinks}))
    asked += [("along", {"layer": layer, "heads": [head]}), ("thumbnails", {"layer": 0, "shape": [5, 4]})]
    asked += [(kind, {"layer": layer}) for kind in ("value_grams", "block")]
    asked += [("vectors", {"layer": layer, "head": head, "query": last}), ("states", {"tokens": [0, last]})]
    asked += [("states", {"tokens": [1], "layer": 1}), ("embedding", {"tokens": [0, last]})]
    asked += [("steps", {"layer": layer, "query": 2}), ("next", {"query": 1}), ("next", {})]
    asked += [("embed", {"texts": list(ALIKE)}), ("flow", {"query": last, "silenced": [[0, 1], [layer, 0]]})]
    asked.append(("flow", {"query": 2, "layer": 1, "head": head, "divisor": 2.5, "silenced": []}))
    asked.append(("flow", {"query": last, "silenced": [[0, 1]], "weights": True}))
    edge = {"queries": [last], "keys": [1, 2]}
    for where in ({}, {"layers": [1]}, {"heads": [[layer, head]]}):
        asked.append(("flow", {"query": last, "blocked": {**edge, **where}, "weights": True}))
    asked.append(("lens", {}))
    other = exchanged(reading) if reading.layers <= 6 else None  # 30 layers take a minute
    for by in ("head", "position") if other else ():
        asked.append(("patching", {"text": other, "by": by, "layer": 1, "query": last}))
    return [(kind, parameters) for kind, parameters in asked if kind in query_kinds(reading)]


def exchanged(reading: Reading) -> str | None:
    """The text with two words exchanged, in as many tokens; None where all words are the same unknown token."""
    words, reader = reading.text.split(), model_answers.reader_of(reading)
    ids = [token.id for token in reading.tokens]
    for place in range(len(words) - 1):
        other = " ".join([*words[:place], words[place + 1], words[place], *words[place + 2 :]])
        there = list(reader.tokeniser.encode(other).ids)
        if len(there) == len(ids) and there != ids:
            return other
    return None


def write_answers(folder: Path, case: Case) -> None:
    """What Python answers about a reading: a description, queries, and a frame for each."""
    answers = Answers(case.model.read(case.text), Embedder(lambda: False, lambda: case.model))
    asked = queries_of(answers.reading)
    for place, (kind, parameters) in enumerate(asked):
        (folder / f"answer-{place}.bin").write_bytes(answers.answer(kind, parameters))
    content = {"description": answers.description(), "queries": asked}
    (folder / "answers.json").write_text(json.dumps(content), encoding="utf-8")


def _generated(case: Case, sampling: Mapping[str, Any]) -> dict[str, Any]:
    pieces: list[str] = []
    reading = case.model.generate(case.prompt, case.tokens, on_token=pieces.append, **sampling)
    return {
        "sampling": dict(sampling), "text": reading.text, "given": reading.given, "tokens": case.tokens,
        "ids": [token.id for token in reading.tokens], "starts": [token.start for token in reading.tokens],
        "pieces": pieces,
    }  # fmt: skip


def write_sampling(path: Path) -> None:
    """Probabilities and samples of one row of logits."""
    rng = np.random.default_rng(5)
    logits = np.round(rng.normal(size=500) * 4, 2).astype(np.float32)  # some are equal
    cases = []
    choices: tuple[dict[str, Any], ...] = (
        {"temperature": 1.0}, {"temperature": 0.7, "top_k": 20}, {"temperature": 1.3, "top_p": 0.9},
        {"temperature": 2.0, "top_k": 100, "top_p": 0.5, "seed": 2**31 - 1}, {"temperature": 0.0},
    )  # fmt: skip
    for options in choices:
        sampling = Sampling(**options)
        sample = sampling.sampler()
        order, shares = sampling.probabilities(logits)
        cases.append({
            "options": options, "order": order.tolist(), "shares": shares.tolist(),
            "drawn": [sample(logits) for _ in range(200)],
        })  # fmt: skip
    path.write_text(json.dumps({"logits": logits.tolist(), "cases": cases}))
