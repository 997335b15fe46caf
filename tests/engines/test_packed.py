"""Packed sequences of different lengths give what each sequence gives alone, outputs and gradients."""

import numpy as np
import pytest
import torch

from regard import Attention
from regard.masks import causal, documents, window

HEADS, SIZE = 4, 24
LENGTHS = {
    "words": [1, 2, 3, 1, 1, 5, 2],
    "sentences": [5, 37, 60, 8, 9, 31, 32, 33, 16, 7],
    "texts": [1, 700, 130, 64, 385, 20],
    "one": [300],
    "empty ones": [0, 40, 0, 0, 25, 0],
}
MASKS = {"alone": None, "causal": causal(), "window": window(9)}


def packed(lengths, dtype=np.float64, key_heads=HEADS):
    random = np.random.default_rng(11)
    count = sum(lengths)
    queries, flow = (random.standard_normal((HEADS, count, SIZE)).astype(dtype) for _ in range(2))
    keys, values = (random.standard_normal((key_heads, count, SIZE)).astype(dtype) for _ in range(2))
    return queries, keys, values, flow


def pieces(lengths):
    ends = np.cumsum(lengths)
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True) if length]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_outputs_are_those_of_each_sequence(lengths, mask):
    lengths, mask = LENGTHS[lengths], MASKS[mask]
    queries, keys, values, _ = packed(lengths, np.float32, key_heads=2)
    together = documents(lengths=lengths) if mask is None else documents(lengths=lengths) & mask
    output = Attention(queries, keys, mask=together) @ values
    for piece in pieces(lengths):
        alone = Attention(queries[:, piece], keys[:, piece], mask=mask) @ values[:, piece]
        np.testing.assert_allclose(output[:, piece], alone, atol=1e-6)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_are_those_of_each_sequence(lengths, mask):
    lengths, mask = LENGTHS[lengths], MASKS[mask]
    queries, keys, values, flow = map(torch.from_numpy, packed(lengths))
    together = documents(lengths=lengths) if mask is None else documents(lengths=lengths) & mask
    given = [array.clone().requires_grad_() for array in (queries, keys, values)]
    (Attention(given[0], given[1], mask=together) @ given[2]).backward(flow)
    for piece in pieces(lengths):
        alone = [array[:, piece].clone().requires_grad_() for array in (queries, keys, values)]
        (Attention(alone[0], alone[1], mask=mask) @ alone[2]).backward(flow[:, piece])
        for one, other in zip(given, alone, strict=True):
            torch.testing.assert_close(one.grad[:, piece], other.grad, atol=1e-12, rtol=1e-10)


def test_each_sequence_of_a_batch_is_packed_in_its_own_way():
    random = np.random.default_rng(5)
    lengths = [[100, 40, 60], [7, 13, 180]]
    ids = np.stack([np.repeat(np.arange(3), counts) for counts in lengths])
    queries, keys, values = (random.standard_normal((2, HEADS, 200, SIZE)) for _ in range(3))
    given = [torch.from_numpy(array).requires_grad_() for array in (queries, keys, values)]
    output = Attention(given[0], given[1], mask=documents(ids) & causal()) @ given[2]
    output.sum().backward()
    for batch, counts in enumerate(lengths):
        for piece in pieces(counts):
            alone = [torch.from_numpy(array[batch, :, piece]).requires_grad_() for array in (queries, keys, values)]
            right = Attention(alone[0], alone[1], mask=causal()) @ alone[2]
            right.sum().backward()
            torch.testing.assert_close(output[batch, :, piece], right)
            for one, other in zip(given, alone, strict=True):
                torch.testing.assert_close(one.grad[batch, :, piece], other.grad)


def test_hidden_neighbours_may_hold_anything():
    queries, keys, values, _ = packed([50, 50, 50], np.float32)
    right = Attention(queries, keys, mask=documents(lengths=[50, 50, 50])) @ values
    keys[:, 50:100], values[:, 50:100] = np.inf, np.nan
    found = Attention(queries, keys, mask=documents(lengths=[50, 50, 50])) @ values
    assert np.array_equal(found[:, :50], right[:, :50]) and np.array_equal(found[:, 100:], right[:, 100:])


@pytest.mark.parametrize(
    "spelling",
    [
        lambda counts: documents(np.repeat(np.arange(len(counts)), counts)),
        lambda counts: documents(offsets=[0, *np.cumsum(counts)]),
        lambda counts: documents(offsets=torch.tensor([0, *np.cumsum(counts)], dtype=torch.int32)),
        lambda counts: documents(lengths=torch.tensor(counts)),
    ],
)
def test_every_spelling_means_the_same(spelling):
    counts = [3, 0, 7, 2]
    assert spelling(counts).draw() == documents(lengths=counts).draw()
