"""Every step of multi-head attention as named numbers, as the table on the slides, and as calculations to follow."""

import numpy as np

import regard
from regard import examples
from regard.layers import MultiHead
from regard.output import text

cat_sat = examples.named("cat-sat").content
words, E = cat_sat["words"], np.array([cat_sat["embeddings"][word] for word in cat_sat["words"]], float)

# One head, W_q = W_k = W_v = I: queries, keys and values are the embeddings.
trace = regard.Attention(E, E).explain(E, words=words)
print(text.plain(trace.table("cat")))
print(trace.why("score", query="cat", key="sat"))
print(trace.why("weight", query="cat", key="sat"))

# Two heads with weights from a seed: nothing is trained, and the trace says so.
layer = MultiHead.seeded(width=4, heads=2, seed=0, dtype=np.float64)
trace = layer.explain(E, words=words, note="Random weights, seed 0.")
print(trace)
for step in trace.steps:
    print(f"  {step.name.ljust(14)} {' × '.join(step.axes).ljust(26)} {step.formula}")
assert np.allclose(trace["projected"], layer(E))
