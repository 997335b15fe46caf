"""Masks of transformers stay lazy: each kind equals its tensor, and interval masks never build one."""

from typing import Any

import pytest
import torch
from transformers import masking_utils as hf

import regard
from regard.watch import interface
from regard.watch.lazy_mask import NOT_BUILT, LazyMask, MaskCall

from .models import gemma3, llama, tokens

PACKED = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]])
BLOCKS = torch.tensor([[-1, 0, 0, 0, -1, -1, 1, 1, -1, -1, -1], [-1] * 11])
LEFT = torch.tensor([0, 3])


def prefix(batch, head, query, key):
    return key < 4


def every_third(batch, head, query, key):
    return (query - key) % 3 == 0


def one_by_one(batch, head, query, key):
    """Only works for single indices, as functions that index a tensor do."""
    return BLOCKS[batch, query] == BLOCKS[batch, key]


KINDS = {
    "causal": (hf.causal_mask_function, True),
    "bidirectional": (hf.bidirectional_mask_function, True),
    "sliding": (hf.sliding_window_causal_mask_function(4), True),
    "sliding both ways": (hf.sliding_window_bidirectional_mask_function(2), True),
    "chunked": (hf.chunked_causal_mask_function(3, torch.zeros(2, dtype=torch.int64)), True),
    "chunked after padding": (hf.chunked_causal_mask_function(3, LEFT), True),
    "packed": (hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(PACKED)), True),
    "blocks of images": (hf.or_masks(hf.causal_mask_function, hf.blockwise_overlay(BLOCKS)), True),
    "blocks alone": (hf.blockwise_overlay(BLOCKS), False),
    "prefix by a function": (hf.or_masks(hf.causal_mask_function, prefix), False),
    "any function": (hf.and_masks(hf.causal_mask_function, every_third), False),
}
PADDINGS = {
    "none": None,
    "right": torch.tensor([[1] * 11, [1] * 7 + [0] * 4]).bool(),
    "left": torch.tensor([[0] * 3 + [1] * 8, [1] * 11]).bool(),
    "both ends": torch.tensor([[0, 0] + [1] * 7 + [0, 0], [1] * 11]).bool(),
    "inside": torch.tensor([[1, 0] * 5 + [1], [1] * 11]).bool(),
}


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_mask_equals_its_tensor(kind, padding):
    function, by_intervals = KINDS[kind]
    for queries, query_offset, key_offset in ((11, 0, 0), (1, 10, 0), (3, 8, 0), (2, 9, 5)):
        arguments = {
            "batch_size": 2, "q_length": queries, "kv_length": 11 - key_offset, "q_offset": query_offset,
            "kv_offset": key_offset, "mask_function": function, "attention_mask": PADDINGS[padding],
        }  # fmt: skip
        lazy = interface.mask_forward(**arguments)
        expected = hf.sdpa_mask(**arguments, allow_is_causal_skip=False)
        mask = lazy.call.mask()
        if mask is None:
            assert expected.all()
            continue
        visible = mask.visible(
            queries=queries, keys=11 - key_offset, batch=2, offset=lazy.call.offset, xp=torch, device="cpu"
        )
        found = visible.tile(slice(0, queries), slice(0, 11 - key_offset)).expand(2, 1, -1, -1)
        assert torch.equal(found, expected), (queries, query_offset, key_offset)
        if by_intervals and padding != "inside":
            assert visible.rest is None and visible.first is not None
        assert lazy._tensor is None
        assert torch.equal(lazy & True, expected)  # an operation of the model gets the tensor


def test_functions_of_single_indices_are_vectorised():
    arguments: Any = {"batch_size": 2, "q_length": 11, "kv_length": 11, "mask_function": one_by_one, "use_vmap": True}
    lazy = interface.mask_forward(**arguments)
    expected = hf.sdpa_mask(**arguments, allow_is_causal_skip=False)
    visible = lazy.call.mask().visible(queries=11, keys=11, batch=2, xp=torch, device="cpu")
    assert torch.equal(visible.tile(slice(0, 11), slice(0, 11)), expected)


@pytest.mark.parametrize("make", [llama, gemma3])
@pytest.mark.parametrize("keep", ["all", "summary"])
def test_padded_and_sliding_batches_build_no_mask(make, keep, monkeypatch):
    made = []
    new = LazyMask.__new__

    def recorded(cls, *args):
        made.append(new(cls, *args))
        return made[-1]

    monkeypatch.setattr(LazyMask, "__new__", recorded)
    model, ids = make(), tokens(2, 13)
    padding = torch.ones_like(ids)
    padding[0, :5] = 0
    with regard.watch(model, keep=keep) as seen, torch.no_grad():
        model(ids, attention_mask=padding)
    assert made and all(mask._tensor is None and mask._own is NOT_BUILT for mask in made)
    rule = seen.layers[1].runs[-1].joined().rule
    assert isinstance(rule, MaskCall)
    mask = rule.mask()
    assert mask is not None and "causal()" in mask.expression


def test_packed_sequences_are_recognised_from_their_positions():
    model, ids = llama(), tokens(1, 11)
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6]])
    with regard.watch(model) as seen, torch.no_grad():
        model(ids, position_ids=positions, use_cache=False)
    weights = seen.layers[2].attention.dense()
    assert (weights[..., 4:, :4] == 0).all() and (weights[..., 4:, 4] > 0).all()


def test_a_mask_of_the_caller_with_four_axes():
    model, ids = llama(), tokens(1, 7)
    own = torch.rand(1, 1, 7, 7, generator=torch.Generator().manual_seed(0)) < 0.5
    own |= torch.eye(7, dtype=torch.bool)
    added = torch.where(own, 0.5, torch.finfo(torch.float32).min)
    for mask in (own, added):
        with regard.watch(model) as seen, torch.no_grad():
            model(ids, attention_mask=mask)
        weights = seen.layers[1].attention.dense()
        assert ((weights > 0) == own).all()


def by_single_index(**options):
    """A mask whose function takes single indices, so that its tensor can only be built with vmap."""
    return interface.mask_forward(2, 11, 11, mask_function=one_by_one, use_vmap=True, **options)


@pytest.mark.parametrize("gradients", [False, True])
def test_slices_of_everything_stay_lazy_with_and_without_gradients(gradients):
    lazy = interface.mask_forward(2, 11, 11)
    with torch.set_grad_enabled(gradients):
        for part in (lazy[:, :, :, :11], lazy[..., :11], lazy[:, :, :20, :20], lazy.detach(), lazy.to("cpu")):
            assert isinstance(part, LazyMask) and part.call is lazy.call and part._tensor is None
        assert torch.equal(lazy[:, :, :, :11] | False, lazy.tensor())


OPERATIONS = {
    "pad": lambda mask: torch.nn.functional.pad(mask, (0, 3, 0, 2), value=False),
    "unfold": lambda mask: mask.unfold(2, 5, 3),
    "index": lambda mask: mask[:, 0, [1, 3]],
    "part": lambda mask: mask[:, :, :, 2:5],
    "where": lambda mask: torch.where(mask, 0.0, -1.0),
    "numpy": lambda mask: torch.from_numpy(mask.numpy()),
    "list": lambda mask: torch.tensor(mask.tolist()),
    "stack": lambda mask: torch.stack([mask, mask]),
    "view of another type": lambda mask: mask.view(torch.uint8),
    "as strided": lambda mask: mask.as_strided((2, 11), (121, 1)),
    "iterate": lambda mask: torch.stack(list(mask)),
    "einsum": lambda mask: torch.einsum("bhqk->bq", mask.float()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("gradients", [False, True])
def test_any_operation_gets_the_tensor_that_the_mask_stands_for(operation, gradients):
    with torch.set_grad_enabled(gradients):
        result = OPERATIONS[operation](by_single_index())
    assert not isinstance(result, LazyMask)
    assert torch.equal(result, OPERATIONS[operation](by_single_index().tensor()))


def test_an_operation_that_fails_on_the_tensor_raises_its_own_error():
    with pytest.raises(IndexError, match="out of range"):
        by_single_index().sum(7)


def test_the_tensor_is_built_once_for_all_slices():
    lazy = by_single_index()
    part = lazy[:, :, :, :11]
    assert part.tensor() is lazy.tensor()
