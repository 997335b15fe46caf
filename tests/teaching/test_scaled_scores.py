"""What dividing by √d_k does to weights and gradients."""

import math

import numpy as np
import pytest

from regard import errors
from regard.attention import Attention
from regard.teaching.scaled_scores import QUANTITIES, SIZES, _Draw, gradient_sizes, halved_scores, scaling_lesson

TOKENS, WIDTH, SIZE = 7, 5, 11


@pytest.fixture(scope="module")
def lesson():
    return scaling_lesson()


def test_halved_scores_give_more_even_weights():
    assert [vector.round(2).tolist() for vector in halved_scores()["softmax"]] == [[0.88, 0.12], [0.73, 0.27]]


def test_d_k_runs_from_1_to_1024(lesson):
    assert lesson.sizes == SIZES == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert all(getattr(lesson, name).shape == (3, 11) for name in QUANTITIES)
    assert lesson.curve("entropy").shape == (11,)


def test_without_division_the_softmax_saturates(lesson):
    assert lesson.curve("entropy", 1)[-1] < 0.3 and lesson.curve("largest_weight", 1)[-1] > 0.9
    assert lesson.curve("saturated", 1)[0] == 0 and lesson.curve("saturated", 1)[-1] > 0.5


def test_without_division_the_gradients_of_the_weights_grow_and_that_of_a_typical_query_vanishes(lesson):
    """Both at once: a few queries with split weights have large gradients, the rest almost none."""
    for name in ("gradient_q", "gradient_k"):
        assert lesson.curve(name, 1)[-1] > 10 * lesson.curve(name, 1)[0]
    assert lesson.curve("through_softmax", 1)[-1] < lesson.curve("through_softmax", 1).max() / 1.5
    assert lesson.curve("typical_query", 1)[-1] < 0.05 * lesson.curve("typical_query", 1).max()


def test_by_the_root_nothing_depends_on_d_k(lesson):
    for name in ("entropy", "through_softmax", "gradient_q", "gradient_k"):
        curve = lesson.curve(name, "√d_k")
        assert curve.max() < 1.5 * curve.min()  # 8 draws scatter by about a tenth
    assert lesson.curve("saturated", "√d_k").max() == 0


def test_by_d_k_weights_become_uniform_and_gradients_shrink(lesson):
    assert lesson.curve("entropy", "d_k")[-1] == pytest.approx(math.log(32), abs=0.01)
    assert lesson.curve("gradient_q", "d_k")[-1] < 0.1 * lesson.curve("gradient_q", "d_k")[0]


def test_all_divisors_agree_where_d_k_is_1(lesson):
    for name in QUANTITIES:
        assert len(set(getattr(lesson, name)[:, 0])) == 1


@pytest.mark.parametrize("divisor", [1.0, math.sqrt(SIZE), 3.0])
def test_gradients_equal_those_of_pytorch(divisor):
    torch = pytest.importorskip("torch")
    draw = _Draw.seeded(SIZE, TOKENS, WIDTH, (0, 0, SIZE))
    x, g = torch.tensor(draw.x), torch.tensor(draw.g)
    w_q, w_k = (
        torch.tensor(np.linalg.lstsq(draw.x, part, rcond=None)[0].T).requires_grad_() for part in (draw.q, draw.k)
    )
    q = x @ w_q.T
    scaled = q @ (x @ w_k.T).T / divisor
    q.retain_grad(), scaled.retain_grad()
    (torch.softmax(scaled, 1) * g).sum().backward()
    found = gradient_sizes(draw, np.asarray(Attention(draw.q, draw.k, scale=1 / divisor).dense()), divisor)
    norms = scaled.grad.norm(dim=1), q.grad.norm(dim=1), w_q.grad.norm(), w_k.grad.norm()
    for ours, theirs in zip(found, norms, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.numpy(), rtol=1e-9)  # square roots of sums of squares


def test_any_divisor_is_taken():
    found = scaling_lesson(
        {"power": lambda size: size**0.75, "eight": 8, "root": "sqrt(d_k)"}, sizes=(4, 16), tokens=5, width=3, draws=2
    )
    assert found.divisors == ("power", "eight", "root")
    np.testing.assert_allclose(found.divided_by, np.array([[4**0.75, 8], [8, 8], [2, 4]]))
    assert scaling_lesson([2.5], sizes=[3], tokens=5, draws=1).table(2.5).rows[0][:2] == (3, 2.5)


def test_the_same_seed_gives_the_same_numbers():
    one, same, other = (scaling_lesson(sizes=(8,), draws=1, seed=seed) for seed in (1, 1, 2))
    assert (one.gradient_q == same.gradient_q).all() and (one.gradient_q != other.gradient_q).any()


def test_tables_say_what_they_show(lesson):
    first, *others = lesson.tables()
    assert first.title == "Smaller scores, more even weights" and len(others) == 3
    without = lesson.table(1)
    assert len(without) == 11 and "seed 0" in without.notes[0] and "‖∂W_q‖ grows" in without.notes[2]
    assert "keeps its size" in lesson.table("√d_k").notes[2] and "shrinks" in lesson.table("d_k").notes[2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"divisors": ["half"]}, "a function of d_k"),
        ({"divisors": [0]}, "positive"),
        ({"divisors": []}, "at least one"),
        ({"sizes": [0]}, "from 1 to"),
        ({"sizes": []}, "at least one"),
    ],
)
def test_invalid_arguments_are_explained(arguments, says):
    with pytest.raises(errors.OptionError, match=says):
        scaling_lesson(**{"tokens": 3, "draws": 1, "sizes": [2], **arguments})


def test_an_unknown_curve_is_refused(lesson):
    with pytest.raises(errors.OptionError, match="entropy"):
        lesson.curve("entrophy")
    with pytest.raises(errors.OptionError, match="√d_k"):
        lesson.curve("entropy", 5)
