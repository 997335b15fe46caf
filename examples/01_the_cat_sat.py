"""The worked example of the lecture notes: *The cat sat*, with vectors small enough to compute by hand, every step.

W_q = W_k = W_v = I, so that queries, keys and values are the embeddings themselves.
"""

import numpy as np

import regard

words = ["The", "cat", "sat"]
E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])  # (word, head_dim)

A = regard.Attention(E, E)  # softmax(E Eᵀ / √4), never built

for query, word in enumerate(words):
    print(f"{word} attends to {', '.join(words)}")
    print("  scores           ", np.asarray(A.score[query]))
    print("  scores / √d_k    ", np.asarray(A.scaled[query]))
    print("  weights          ", np.asarray(A[query]).round(2))
    print("  weights · values ", np.asarray(A @ E)[query].round(2))

top = A.top(1)
for word, strongest in zip(words, np.asarray(top.index)[:, 0], strict=True):
    print(f"{word} attends most to {words[strongest]}")
