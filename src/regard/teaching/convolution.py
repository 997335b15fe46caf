"""A convolution over the words of a sentence, term by term."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import arrays, errors


def filter_terms(signal: Any, filters: Any) -> NDArray[np.float64]:
    """What word j adds to a filter's response at word i, (filter, i, j): filter[j − i + reach] · x_j, 0 out of reach.

    signal (word, d_model) and filters (filter, tap, d_model), an odd number of taps; the sums over j are the responses
    of a convolution that keeps the length, with zeros around the sentence.

    >>> filter_terms([[1.0], [2.0], [3.0]], [[[1.0], [0.0], [-1.0]]])[0]
    array([[ 0., -2.,  0.],
           [ 1.,  0., -3.],
           [ 0.,  2.,  0.]])
    """
    signal, filters = (np.asarray(arrays.numpy_of(part), np.float64) for part in (signal, filters))
    if signal.ndim != 2 or filters.ndim != 3 or signal.shape[1] != filters.shape[2] or filters.shape[1] % 2 == 0:
        raise errors.ShapeError(
            f"`signal` has shape {signal.shape}, `filters` have {filters.shape}; expected (word, d_model) and "
            "(filter, tap, d_model) with an odd number of taps.\nPyTorch's Conv1d keeps "
            "(filter, d_model, tap): swap its last two axes."
        )
    words, reach = len(signal), filters.shape[1] // 2
    products = np.einsum("ftd,jd->ftj", filters, signal)  # filter, tap, word
    terms = np.zeros((len(filters), words, words))
    for tap in range(filters.shape[1]):
        for j in range(words):
            i = j - tap + reach
            if 0 <= i < words:
                terms[:, i, j] = products[:, tap, j]
    return terms
