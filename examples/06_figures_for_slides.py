"""Figures and tables for slides and papers, written to the folder that is given, or to one that goes away again."""

import sys
import tempfile
from pathlib import Path

import numpy as np

from regard import examples
from regard.layers import Linear, MultiHead
from regard.output import html, latex, markdown
from regard.output.figure import bars, fixed_and_computed, flow, heads_and_filters, heat_map

words = examples.named("africa").content.split()  # jane visits africa
rng = np.random.default_rng(0)
embeddings, others = rng.normal(size=(2, len(words), 8))
filters = rng.normal(size=(2, 3, 8))  # filter, tap, size
layer = MultiHead.seeded(width=8, heads=2, seed=0, dtype=np.float64)
trace = layer.explain(embeddings, words=words, note="Random embeddings and weights, seed 0.")


def write(folder: Path) -> None:
    """All figures and tables."""
    heat_map(trace, head=1).save(folder / "heat_map.svg")
    flow(trace, query="visits", head=1).save(folder / "flow.svg")
    bars(trace, query="visits", key="africa").save(folder / "bars.svg")
    # Heads are to attention what filters are to a convolution: many, each finding its own thing.
    heads_and_filters(trace, embeddings, filters).save(folder / "heads_and_filters.svg")
    # A feed-forward layer has the same weights for every input; attention computes its own for each.
    another = layer.explain(others, words=["love", "apple", "phones"])
    fixed_and_computed(Linear.seeded(8, 8), trace, another).save(folder / "fixed_and_computed.svg")
    table = trace.table("visits", head=1)
    (folder / "table.tex").write_text(latex.document(table), encoding="utf-8")
    (folder / "table.md").write_text(markdown.render(table), encoding="utf-8")
    (folder / "page.html").write_text(html.page(trace.tables(), heat_map(trace)), encoding="utf-8")
    print("wrote", ", ".join(sorted(path.name for path in folder.iterdir())))


if len(sys.argv) > 1:
    write(Path(sys.argv[1]))
else:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
