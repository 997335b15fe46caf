"""`effect`: what edits do to a model's result, over several prompts, as a table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard import errors
from regard.arrays import is_array
from regard.edits.edit import BlockEdit, HeadEdit, block, silence
from regard.edits.metrics import Metric
from regard.reading.edit import Edit, Edits, edits_of
from regard.tables import Column, Table, digits_for

if TYPE_CHECKING:
    from regard.reading.reader import Reader

Numbers = NDArray[np.float64]
RESAMPLES, SEED = 2000, 0  # of the bootstrap over prompts


class EditEffect(NamedTuple):
    """What one edit does."""

    edit: Edit
    edited: float  # mean over prompts
    effect: float  # mean of edited − baseline
    low: float | None  # its 95% bootstrap interval over prompts; None for a single prompt
    high: float | None
    of_prompts: Numbers  # edited − baseline of each prompt


@dataclass(frozen=True, eq=False)
class EffectStudy:
    """What edits do to a number, over some prompts."""

    model: str
    metric: str
    baseline: Numbers  # of each prompt, without an edit
    effects: tuple[EditEffect, ...]  # in the order of the edits

    def table(self) -> Table:
        """One row per edit, the largest effect first."""
        ranked = sorted(self.effects, key=lambda effect: -abs(effect.effect))
        several = len(self.baseline) > 1
        digits = max(2, digits_for([effect.effect for effect in self.effects] or [0.0], 3))
        names, cells = _columns([effect.edit for effect in ranked])
        rows = []
        for effect, cell in zip(ranked, cells, strict=True):
            interval = (effect.low, effect.high) if several else ()
            rows.append((*cell, effect.edited, effect.effect, *interval))
        numbers = ["edited", "effect", *(["low", "high"] if several else [])]
        columns = (*names, *(Column(name, "number", digits) for name in numbers))
        prompts = errors.count(len(self.baseline), "prompt")
        notes = [
            f"{self.metric}; baseline, without an edit: {self.baseline.mean():.4g}, the mean over {prompts}.",
            "effect: edited − baseline"
            + (f"; low, high: its 95% interval, {RESAMPLES:,} bootstrap samples of the prompts." if several else "."),
            _described([effect.edit for effect in self.effects]),
        ]
        return Table(f"Effect of {errors.count(len(rows), 'edit')} of {self.model}", columns, tuple(rows), tuple(notes))


def effect(
    model: Any,
    inputs: Any,
    edits: Edit | Iterable[Any],
    *,
    on: Metric,
    tokenizer: Any = None,
    on_edit: Callable[[int], None] | None = None,
) -> Table:
    """What each edit does to a model's result, as a table with the largest effects first.

    model      of Regard, or a model of transformers
    inputs     a prompt, or several; or token ids, with padding, as a tokenizer gives them
    edits      one, or several, each measured alone; `each_head(model)` and `each_edge(model, text)` list all
    on         what is measured: `logit_difference("Mary", "John")`, `probability(…)`, `vector_distance()`, …
    tokenizer  of a model of transformers that was not loaded from a folder with a tokenizer
    on_edit    called with the number of edits that are done

    >>> import regard
    >>> from regard.edits import each_head, effect, vector_distance
    >>> minilm = regard.model("minilm")
    >>> table = effect(minilm, ["The cat sat.", "A dog ran."], each_head(minilm)[:2], on=vector_distance())
    >>> [column.name for column in table.columns], len(table)
    (['layer', 'head', 'edited', 'effect', 'low', 'high'], 2)
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from regard.watch.pretrained import Pretrained

        model = Pretrained.of(model, tokenizer)
    return measure_effects(model, inputs, edits, on=on, on_edit=on_edit).table()


def measure_effects(
    model: Reader, inputs: Any, edits: Edit | Iterable[Any], *, on: Metric, on_edit: Callable[[int], None] | None = None
) -> EffectStudy:
    """The numbers of `effect`, with those of every prompt."""
    texts = _texts(inputs)
    if not isinstance(on, Metric):
        raise errors.option("on", on, 'what to measure, such as logit_difference("Mary", "John") or vector_distance()')
    chosen = [edits] if isinstance(edits, Edit) else [_one(edit) for edit in edits]
    if not chosen:
        raise errors.option("edits", edits, "at least one edit")
    values: dict[int, Numbers] = {}
    baseline: Any = None
    unchanged: Any = None
    for index, outcome in model.outcomes(texts, chosen, all_logits=on.all_logits):
        if index < 0:
            baseline, unchanged = outcome, on.measure(model, outcome, outcome)
            continue
        values[index] = on.measure(model, outcome, baseline) - unchanged
        if on_edit is not None:
            on_edit(len(values))
    effects = tuple(_edit_effect(edit, unchanged, values[index]) for index, edit in enumerate(chosen))
    return EffectStudy(model.name, on.name, unchanged, effects)


def measure_apart(
    model: Reader, inputs: Sequence[str], edits: Sequence[Sequence[Edit]], on: Sequence[Metric]
) -> EffectStudy:
    """As `measure_effects`, where edits differ between prompts, as those of one token do.

    edits, on   for each prompt: equally many edits, and what is measured
    """
    studies = [
        measure_effects(model, text, some, on=metric) for text, some, metric in zip(inputs, edits, on, strict=True)
    ]
    unchanged = np.concatenate([study.baseline for study in studies])
    effects = tuple(
        _edit_effect(several[0].edit, unchanged, np.concatenate([effect.of_prompts for effect in several]))
        for several in zip(*(study.effects for study in studies), strict=True)
    )
    return EffectStudy(model.name, on[0].name, unchanged, effects)


def _edit_effect(edit: Edit, unchanged: Numbers, changes: Numbers) -> EditEffect:
    low, high = None, None
    if len(changes) > 1:
        low, high = np.quantile(_resamples(len(changes)) @ changes, [0.025, 0.975])
    return EditEffect(edit, float((unchanged + changes).mean()), float(changes.mean()), low, high, changes)


def each_head(
    model: Reader, edit: Callable[[tuple[int, int]], Edit] = silence, *, layers: Iterable[int] | None = None
) -> list[Edit]:
    """One edit for each head of a model: silenced, or what `edit` makes of (layer, head).

    >>> import regard
    >>> len(each_head(regard.model("minilm"))), each_head(regard.model("minilm"), layers=[5])[0]
    (72, silence((5, 0)))
    """
    shapes = model.block_shapes
    chosen = range(len(shapes)) if layers is None else layers
    return [edit((layer, head)) for layer in chosen for head in range(shapes[layer].heads)]


def each_edge(
    model: Reader, text: str, *, layers: Any = None, heads: Any = None, after_softmax: bool = False
) -> list[Edit]:
    """One edit for each edge between two tokens of a text that the mask allows: n² edits for n tokens.

    >>> import regard
    >>> len(each_edge(regard.model("minilm"), "The cat sat", layers=[5]))
    25
    """
    count = len(model.tokeniser.encode(text).ids)
    return [
        block(pairs=[(query, key)], layers=layers, heads=heads, after_softmax=after_softmax)
        for query in range(count)
        for key in range(query + 1 if model.causal else count)
    ]


def _texts(inputs: Any) -> list[str] | list[list[int]]:
    """Prompts, or the token ids of each without its padding."""
    if isinstance(inputs, str):
        return [inputs]
    if isinstance(inputs, Mapping):
        others = sorted(set(inputs) - {"input_ids", "attention_mask", "token_type_ids"})
        if "input_ids" not in inputs or others:
            raise errors.option("inputs", list(inputs), "prompts, or input_ids and attention_mask of texts alone")
        ids = np.asarray(inputs["input_ids"])
        real = np.asarray(inputs.get("attention_mask", np.ones_like(ids)), bool)
        if ids.ndim == 2 and ids.shape == real.shape and real.any(axis=1).all():
            return [row[kept].tolist() for row, kept in zip(ids, real, strict=True)]
    elif is_array(inputs) and np.ndim(inputs) == 2 and len(inputs):
        return np.asarray(inputs).tolist()  # type: ignore[no-any-return]
    elif isinstance(inputs, Sequence) and inputs and all(isinstance(text, str) for text in inputs):
        return list(inputs)
    raise errors.option("inputs", inputs, "a prompt, a list of prompts, or token ids (text, token)")


def _one(edit: Any) -> Edit:
    parts = edits_of(edit)
    return parts[0] if len(parts) == 1 else Edits(parts)


@lru_cache(maxsize=4)
def _resamples(prompts: int) -> Numbers:
    """The share of each prompt in each resample, (resample, prompt)."""
    generator = np.random.default_rng(SEED)
    drawn = generator.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
    return drawn / prompts


def _columns(edits: Sequence[Edit]) -> tuple[list[Column], list[tuple[Any, ...]]]:
    """Layer and head where every edit is of one head; query and key where it is of one edge; otherwise the edits."""
    if all(isinstance(edit, HeadEdit) and len(edit.heads) == 1 for edit in edits):
        return [Column("layer", "number", 0), Column("head", "number", 0)], [edit.heads[0] for edit in edits]  # type: ignore[attr-defined]
    if all(isinstance(edit, BlockEdit) and edit.pairs is not None and len(edit.pairs) == 1 for edit in edits):
        return [Column("query"), Column("key")], [tuple(str(end[0]) for end in edit.pairs[0]) for edit in edits]  # type: ignore[attr-defined]
    return [Column("edit")], [(repr(edit),) for edit in edits]


def _described(edits: Sequence[Edit]) -> str:
    first = repr(edits[0])
    return f"The edit: {first}." if len(edits) == 1 else f"One edit per row; the first of {len(edits):,}: {first}."
