"""What the examples in docstrings go on with."""

from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """The vectors `E` of *The cat sat*, and the `trace` and `reading` of the classes' examples, for their methods."""
    import numpy as np

    from regard import Attention, Reading, causal

    E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    words = ["The", "cat", "sat"]
    doctest_namespace.update(
        E=E,
        causal=causal,
        trace=Attention(E, E).explain(E, words=words),
        reading=Reading.of(Attention(E, E), E, words=words),
    )
