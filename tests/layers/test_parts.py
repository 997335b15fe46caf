"""Linear maps, feed-forward, norms, embeddings, and what all layers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from regard import errors
from regard.engines.interface import ACTIVATIONS
from regard.engines.numpy_arrays import ACTIVATION
from regard.layers import Embedding, Encoder, FeedForward, LayerNorm, Linear, RMSNorm, Transformer

from .kinds import layers

Draw = Callable[..., Any]
CLOSE: Any = {"rtol": 0, "atol": 1e-12}  # float64, another order of summation


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(37, 100, 100), (300, 70, 50), (193, 4200, 40), (200, 0, 3)])
def test_linear_of_many_rows_keeps_each_row_to_itself(
    draw: Draw, engine_name: str, rows: int, inputs: int, outputs: int
) -> None:
    x, weight, bias = (draw(*shape, dtype=np.float32) for shape in ((rows, inputs), (outputs, inputs), (outputs,)))
    found = Linear(weight, bias)(x)
    exact = x.astype(np.float64) @ weight.astype(np.float64).T + bias
    assert_allclose(found, exact, rtol=0, atol=4e-6 * (1 + inputs) ** 0.5)
    if inputs:
        x[rows // 2, inputs // 2] = np.nan
        changed = Linear(weight, bias)(x)
        assert np.isnan(changed[rows // 2]).all()
        others = np.arange(rows) != rows // 2
        assert_array_equal(changed[others], found[others])


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
def test_linear_equals_its_formula(draw: Draw, engine_name: str, activation: str | None) -> None:
    x, weight, bias, residual = draw(2, 5, 7), draw(3, 7), draw(3), draw(2, 5, 3)
    found = Linear(weight, bias)(x, activation=activation, residual=residual)
    assert_allclose(found, ACTIVATION[activation](x @ weight.T + bias) + residual, **CLOSE)
    gate = draw(2, 5, 3)
    gated = Linear(weight, bias)(x, activation=activation, residual=residual, times=gate)
    assert_allclose(gated, ACTIVATION[activation](x @ weight.T + bias) * gate + residual, **CLOSE)
    assert_allclose(Linear(weight)(x[0, 0]), weight @ x[0, 0], **CLOSE)


def test_linear_computes_in_the_type_of_its_input(draw: Draw) -> None:
    layer = Linear.seeded(7, 3)
    assert layer(draw(5, 7)).dtype == np.float64 and layer(draw(5, 7, dtype=np.float16)).dtype == np.float16
    assert layer([[1, 2, 3, 4, 5, 6, 7]]).dtype == layer(np.arange(7)).dtype == np.float32


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_with_and_without_gate(draw: Draw, activation: str) -> None:
    x, up, gate, down, bias = draw(2, 5, 7), draw(11, 7), draw(11, 7), draw(7, 11), draw(11)
    plain = FeedForward(Linear(up, bias), Linear(down), activation)
    assert_allclose(plain(x, residual=x), ACTIVATION[activation](x @ up.T + bias) @ down.T + x, **CLOSE)
    gated = FeedForward(Linear(up), Linear(down), activation, gate=Linear(gate))
    assert_allclose(gated(x), (ACTIVATION[activation](x @ gate.T) * (x @ up.T)) @ down.T, rtol=0, atol=1e-11)


def test_norms_equal_their_formulas(draw: Draw, engine_name: str) -> None:
    x, weight, bias = draw(2, 5, 7), draw(7), draw(7)
    centred = x - x.mean(axis=-1, keepdims=True)
    expected = centred / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * weight + bias
    assert_allclose(LayerNorm(weight, bias)(x), expected, **CLOSE)
    expected = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-3) * weight
    assert_allclose(RMSNorm(weight, 1e-3)(x), expected, **CLOSE)


def test_norms_equal_torch(draw: Draw) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(draw(5, 7))
    for module, kind in ((torch.nn.LayerNorm, LayerNorm), (torch.nn.RMSNorm, RMSNorm)):
        peer = module(7, eps=1e-4, dtype=torch.float64)
        assert_allclose(kind.from_torch(peer)(x).detach(), peer(x).detach(), **CLOSE)


def test_embedding_returns_rows(draw: Draw) -> None:
    weight = draw(11, 3)
    assert_array_equal(Embedding(weight)([[1, 10], [0, 1]]), weight[[[1, 10], [0, 1]]])
    with pytest.raises(errors.OutOfRange, match="token 11 is out of range"):
        Embedding(weight)([11])
    with pytest.raises(errors.OutOfRange, match="token -1"):
        Embedding(weight)([-1])
    with pytest.raises(errors.OptionError, match="tokens"):
        Embedding(weight)(["cat"])


def test_shapes_that_do_not_fit_are_refused(draw: Draw) -> None:
    with pytest.raises(errors.ShapeError, match="width 5, the layer expects 7"):
        Linear(draw(3, 7))(draw(2, 5))
    with pytest.raises(errors.ShapeError, match="expected"):
        Linear(draw(3, 7), draw(7))
    with pytest.raises(errors.ShapeError, match="expected"):
        LayerNorm(draw(3), draw(4))
    with pytest.raises(errors.ShapeError, match="`down`"):
        FeedForward(Linear(draw(3, 7)), Linear(draw(7, 4)))
    with pytest.raises(errors.OptionError, match="Did you mean 'gelu'"):
        FeedForward(Linear(draw(3, 7)), Linear(draw(7, 3)), "gellu")
    with pytest.raises(errors.TypeProblem):
        Linear(draw(3, 7))("seven")
    with pytest.raises(errors.OptionError, match="seed"):
        Linear.seeded(3, 7, seed=-1)


def test_libraries_do_not_mix(draw: Draw) -> None:
    torch = pytest.importorskip("torch")
    layer = Linear(draw(3, 7))
    with pytest.raises(errors.TypeProblem, match=r"layer\.to_torch\(\)"):
        layer(torch.zeros(2, 7))
    with pytest.raises(errors.TypeProblem, match=r"layer\.to_numpy\(\)"):
        layer.to_torch()(np.zeros((2, 7)))


# What all layers share


def test_parameters_have_dotted_names() -> None:
    names = list(Encoder.seeded(6, 2).parameters())
    assert names[:2] == ["attention.w_q.weight", "attention.w_q.bias"] and names[-1] == "norm_2.bias"
    assert "encoders.1.norm_1.weight" in Transformer.seeded(5, 6, 2, encoders=2).parameters()


def test_map_replaces_arrays_and_keeps_the_rest() -> None:
    layer = Encoder.seeded(6, 2, norm_first=True, activation="gelu")
    doubled = layer.map(lambda array: 2 * array)
    assert doubled.norm_first and doubled.feed_forward.activation == "gelu" and doubled.attention.heads == 2
    for name, array in layer.parameters().items():
        assert_array_equal(doubled.parameters()[name], 2 * array)


def test_a_shared_array_stays_shared() -> None:
    embedding = Embedding.seeded(5, 6)
    model = replace(Transformer.seeded(5, 6, 2, decoders=1), embedding=embedding, head=Linear(embedding.weight))
    mapped = model.map(np.copy)
    assert mapped.head is not None and mapped.head.weight is mapped.embedding.weight is not embedding.weight
    assert replace(model, head=None).count() == model.count()


def test_layers_are_frozen_and_have_a_repr() -> None:
    layer = Encoder.seeded(6, 2)
    with pytest.raises(FrozenInstanceError):
        layer.norm_first = True  # type: ignore[misc]
    assert repr(Linear.seeded(3, 2)) == "Linear(weight (2, 3) float32, bias (2,) float32)"
    assert "attention: MultiHead(\n    w_q: Linear(weight (6, 6)" in repr(layer)


# Seeds


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_seeds_give_the_same_numbers_for_numpy_and_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    of_torch = layers(getattr(torch, dtype))
    for kind, ours in layers(np.dtype(dtype)).items():
        for (name, array), (other_name, tensor) in zip(
            ours.parameters().items(), of_torch[kind].parameters().items(), strict=True
        ):
            assert name == other_name and array.dtype == dtype
            assert_array_equal(array, tensor.numpy())


def test_numbers_of_a_seed_never_change() -> None:
    assert Linear.seeded(2, 1, seed=0, dtype=np.float64).weight.tolist() == [[0.38738615147100774, -0.651141503267228]]
    vectors = [[2.046851537329203, 1.3704951249079642, 0.3211382246325877]]
    assert_allclose(Embedding.seeded(1, 3, seed=0, dtype=np.float64).weight, vectors, rtol=0, atol=1e-14)


def test_every_part_has_different_numbers() -> None:
    for layer in layers(np.float64).values():
        numbers = np.concatenate([array.ravel() for array in layer.parameters().values()])
        drawn = numbers[(numbers != 0) & (numbers != 1)]
        assert len(np.unique(drawn)) == len(drawn)
    assert (Linear.seeded(3, 5, seed=1).weight != Linear.seeded(3, 5, seed=2).weight).all()


def test_seeded_numbers_have_the_documented_distribution() -> None:
    weight = Linear.seeded(100, 50, dtype=np.float64).weight
    bound = np.sqrt(6 / 150)
    assert abs(weight).max() <= bound and weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)
    vectors = Embedding.seeded(100, 50, dtype=np.float64).weight
    assert vectors.mean() == pytest.approx(0, abs=0.05) and vectors.std() == pytest.approx(1, rel=0.03)
    assert np.mean(abs(vectors) < 1) == pytest.approx(0.6827, abs=0.02)  # as of a normal distribution
