"""What edits change at the end of a model that Regard computes itself.

The states before every block, and every block's queries, keys, values and head outputs, are kept from one run without
an edit. An edit begins at the first layer that it changes. Where it changes the attention of one layer only, the heads'
outputs are edited as they were kept, and everything after them is computed for several edits at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.arrays import Array
from regard.edits.edit import PatchEdit
from regard.edits.layer_edits import RunEdits
from regard.layers import Heads, Transformer
from regard.layers.encoder import result_of
from regard.models.forward import LayerRun, Packed, edit_packed, run
from regard.reading.edit import Edit
from regard.reading.reader import Outcome

AT_ONCE = 4096  # tokens of edits that are computed together: more do not fit into the cache of a core


def outcomes(
    transformer: Transformer, ids: Sequence[Sequence[int]], together: Packed, base: RunEdits | None,
    edits: Sequence[Edit], all_edits: Sequence[RunEdits],
) -> Iterator[tuple[int, Outcome]]:  # fmt: skip
    """The outcome without an edit, −1, and with each one, by its index.

    base        edits that hold for all runs
    all_edits   each edit as `run` takes it, `base` included
    """
    steps = list(run(transformer, together, edit=base))
    yield -1, _outcome(transformer, together, ids, steps[-1].result)
    by_layer: dict[int, list[int]] = {}
    for index, edit in enumerate(edits):
        if base is None and _is_of_one_layer(edit):
            layer = min(edit.layers or (0,))
            by_layer.setdefault(layer, []).append(index)
            continue
        first = min(edit.layers) if edit.layers else 0
        states = None if not first else steps[first].before
        for step in run(transformer, together, first=first, states=states, edit=all_edits[index]):
            last = step.result
        yield index, _outcome(transformer, together, ids, last)
    copies = max(1, AT_ONCE // len(together.ids))
    for layer, indices in by_layer.items():
        for begin in range(0, len(indices), copies):
            some = indices[begin : begin + copies]
            ends = _after(transformer, together, layer, steps[layer], [all_edits[index] for index in some])
            for index, last in zip(some, ends, strict=True):
                yield index, _outcome(transformer, together, ids, last)


def _is_of_one_layer(edit: Edit) -> bool:
    """Whether an edit changes nothing but the attention of one layer."""
    is_residual = any(isinstance(part, PatchEdit) and part.what == "residual" for part in edit.parts)
    return edit.layers is not None and len(edit.layers) == 1 and not is_residual


def _after(
    transformer: Transformer, together: Packed, layer: int, step: LayerRun, edits: Sequence[RunEdits]
) -> list[Array]:
    """The last states, (token, width), with each of some edits of one layer."""
    block, count = transformer.encoders[layer], len(edits)
    outputs = np.tile(step.outputs, (count, 1))
    tokens = len(together.ids)
    for copy, edit in enumerate(edits):
        rows = slice(copy * tokens, (copy + 1) * tokens)
        edit_packed(block.attention, step.heads, outputs[rows], together.groups, layer, edit)
    x = np.tile(step.before, (count, 1))
    last: Any = result_of(block.observe(x, attend=lambda _layer, _x: Heads(outputs, None)))
    for later in run(transformer, _copies(together, count), first=layer + 1, states=last):
        last = later.result
    return np.split(last, count)


def _copies(together: Packed, count: int) -> Packed:
    """The same texts several times, one copy after the other."""
    tokens = len(together.ids)
    groups = tuple(
        group._replace(start=group.start + copy * tokens, stop=group.stop + copy * tokens)
        for copy in range(count)
        for group in together.groups
    )
    ids, positions, lengths = (np.tile(array, count) for array in (together.ids, together.positions, together.lengths))
    return replace(together, ids=ids, positions=positions, lengths=lengths, groups=groups)


def _outcome(transformer: Transformer, together: Packed, ids: Sequence[Sequence[int]], last: Array) -> Outcome:
    states = last if transformer.norm is None else transformer.norm(last)
    of_texts = tuple(states[span.tokens] for span in together.spans)
    head = transformer.head
    if head is None or not transformer.encoders[0].attention.causal:
        return Outcome(tuple(ids), of_texts, None)
    return Outcome(
        tuple(ids),
        of_texts,
        lambda: head(np.stack([x[-1] for x in of_texts])),
        lambda text, rows: head(of_texts[text][rows]),
    )
