"""Which heads carry an answer from one text to another: their outputs are patched one head at a time."""

from __future__ import annotations

from regard import errors
from regard.attribution.recipes import GridStudy, head_name
from regard.edits import logit_difference, patch, vector_distance
from regard.edits.effects import each_head, measure_effects
from regard.models import progress
from regard.provenance import quoted
from regard.reading.reader import Reader


def head_patching(
    reader: Reader, text: str, other: str, toward: str | None = None, against: str | None = None
) -> GridStudy:
    """The output of each head, at every token, is taken from another text of equally many tokens.

    toward, against   tokens whose logit difference is measured after `text`; without them, how far the text's vector
                      moves
    """
    if (toward is None) != (against is None):
        raise errors.OptionError("Give both tokens, `toward` and `against`, or none to measure the text's vector.")
    metric = vector_distance() if toward is None or against is None else logit_difference(toward, against)
    reading = reader.read(other)
    shape = len(reader.block_shapes), max(block.heads for block in reader.block_shapes)
    edits = each_head(reader, lambda head: patch(reading, heads=[head]))
    heads = [(layer, head) for layer, block in enumerate(reader.block_shapes) for head in range(block.heads)]
    if len(heads) != shape[0] * shape[1]:
        raise errors.unsupported(
            f"A map of {reader.name}, whose layers have different numbers of heads,", "Use `effect` with `each_head`."
        )
    edits.append(patch(reading, layers=range(shape[0])))
    with progress.steps("Patching heads", len(edits), every=60) as advance:
        study = measure_effects(reader, text, edits, on=metric, on_edit=advance)
    notes = (
        f"Measured: {study.metric}; baseline {study.baseline[0]:.2f}, 1 prompt, {quoted(text)}",
        f"Edit: the output of one head, at every token, is that of {quoted(other)}; all heads together: "
        f"{study.effects[-1].effect:+.2f}.",
    )
    what = f"{toward.strip()} or {against.strip()}" if toward and against else "the text's vector"
    names = (*map(head_name, heads), "all heads")
    columns = tuple(map(str, range(shape[1])))
    return GridStudy(f"Which heads decide {what}?", study, names, notes, shape, columns)
