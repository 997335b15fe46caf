"""What the examples in docstrings go on with."""

from typing import Any

import pytest


@pytest.fixture(autouse=True, scope="session")
def reading_of_examples(doctest_namespace: dict[str, Any]) -> None:
    """The `reading` of the example of the class `Reading`, for those of its methods."""
    import numpy as np

    from regard import Attention, Reading

    E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    doctest_namespace.update(E=E, reading=Reading.of(Attention(E, E), E, words=["The", "cat", "sat"]))
