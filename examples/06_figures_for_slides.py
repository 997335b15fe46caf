"""Figures and tables for slides and papers, written to the folder `figures`, or to the one given as an argument."""

import sys
from pathlib import Path

import numpy as np

import regard
from regard import examples
from regard.layers import Linear, MultiHead
from regard.output import html, latex, table_formats
from regard.output.figure import bars, block, fixed_and_computed, flow, heads, heads_and_filters, heat_map
from regard.output.figure import lookup as lookup_figure
from regard.output.figure import positions as positions_figure
from regard.output.figure import scaling as scaling_figure
from regard.teaching.block import block_lesson
from regard.teaching.positions import position_lesson

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
folder.mkdir(parents=True, exist_ok=True)

words = examples.named("africa").content.split()  # jane visits africa
rng = np.random.default_rng(0)
embeddings, others = rng.normal(size=(2, len(words), 8))
filters = rng.normal(size=(2, 3, 8))  # (filter, tap, d_model)
layer = MultiHead.seeded(width=8, heads=2, seed=0, dtype=np.float64)
trace = layer.explain(embeddings, words=words, note="Random embeddings and weights, seed 0.")
another = layer.explain(others, words=["love", "apple", "phones"])

figures = {
    "heat_map": heat_map(trace, head=1),
    "heads": heads(trace),  # all heads on one colour scale, then concatenate and W_O
    "flow": flow(trace, query="visits", head=1),
    "bars": bars(trace, query="visits", key="africa"),
    # Heads are to attention what filters are to a convolution: many, each detecting something else.
    "heads_and_filters": heads_and_filters(trace, embeddings, filters),
    # A feed-forward layer has the same weights for every input; attention computes its own for each.
    "fixed_and_computed": fixed_and_computed(Linear.seeded(8, 8), trace, another),
    "lookup": lookup_figure(regard.teaching.lookup.lookup(examples.named("jane").content), "birth date"),
    "scaling": scaling_figure(regard.teaching.scaling_lesson()),
    "positions": positions_figure(position_lesson("sinusoidal", length=32, width=16)),
    "encoder": block(block_lesson(words)),
    "decoder": block(block_lesson(["jane", "visite", "l'Afrique"], words)),
}
for name, figure in figures.items():
    figure.save(folder / f"{name}.svg")
    figure.save(folder / f"{name}.pdf")  # for LaTeX: \includegraphics{heads.pdf}

table = trace.table("visits", head=1)
(folder / "table.tex").write_text(latex.document(table), encoding="utf-8")
(folder / "table.md").write_text(table_formats.to_markdown(table), encoding="utf-8")
(folder / "page.html").write_text(html.page(trace.tables(), list(figures.values())), encoding="utf-8")

print(f"Wrote to {folder.resolve()}:")
print(", ".join(sorted(path.name for path in folder.iterdir())))
