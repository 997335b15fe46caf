"""Typical mistakes, each planted in a correct calculation, are named; what follows from them is not wrong again."""

from typing import Any

import numpy as np
import pytest

from regard.teaching.hand_check import check_notes

WORDS = ["The", "cat", "sat", "down"]
HIDDEN = np.triu(np.ones((4, 4), bool), 1)


def softmax(scores, axis=-1):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def calculation(digits=None, with_mask=False, **planted):
    """All steps of one head, each from the one before, printed with `digits`; `planted` functions replace steps."""
    draw = np.random.default_rng(11).integers
    x = draw(-1, 2, size=(4, 4)).astype(float)
    known = {"embeddings": x} | {name: draw(-1, 2, size=(4, 4)).astype(float) for name in ("W_q", "W_k", "W_v")}
    for step, matrix in (("q", "W_q"), ("k", "W_k"), ("v", "W_v")):
        known[step] = planted.get(step, lambda n, m=matrix: n["embeddings"] @ n[m])(known)
    steps = {
        "scores": lambda n: n["q"] @ n["k"].T,
        "scaled": lambda n: n["scores"] / 2,
        "masked": lambda n: np.where(HIDDEN, -np.inf, n["scaled"]),
        "weights": lambda n: softmax(n["masked"] if with_mask else n["scaled"]),
        "weighted values": lambda n: n["weights"][:, :, None] * n["v"][None],
        "outputs": lambda n: n["weighted values"].sum(axis=1),
    }
    for step, compute in steps.items():
        known[step] = planted.get(step, compute)(known)
    notes = {"words": WORDS, **known}
    if with_mask:
        notes["mask"] = "causal"
    else:
        del notes["masked"]
    return {name: printed(part, digits) if name not in ("words", "mask") else part for name, part in notes.items()}


def printed(part, digits):
    if np.ndim(part):
        return [printed(one, digits) for one in part]
    return "−∞" if np.isneginf(part) else f"{part:.{12 if digits is None else digits}f}"


def of_step(check, step, kinds=("wrong",)):
    return [verdict for verdict in check.verdicts if verdict.step == step and verdict.kind in kinds]


STEP_OF = {"q": "query", "k": "key", "v": "value", "scores": "score", "scaled": "scaled", "masked": "masked",
           "weights": "weight", "weighted values": "weighted_value", "outputs": "output"}  # fmt: skip
ORDER = list(STEP_OF)


def without_cat(n):
    weighted = n["weighted values"].copy()
    weighted[:, 1] = 0
    return weighted.sum(axis=1)


def wrong_word(n):
    values = n["v"].copy()
    values[1] = n["v"][2]
    return n["weights"] @ values


PLANTED = [
    ("scaled", lambda n: n["scores"], "√d_k forgotten", False),
    ("scaled", lambda n: n["scores"] / 4, "divided by d_k instead of √d_k", False),
    ("weights", lambda n: softmax(n["scores"]), "√d_k forgotten", False),
    ("weights", lambda n: softmax(n["scores"] / 4), "divided by d_k instead of √d_k", False),
    ("weights", lambda n: softmax(n["scaled"], axis=0), "softmax over columns instead of rows", False),
    ("weights", lambda n: n["scaled"] / n["scaled"].sum(1, keepdims=True), "normalised without the exponential", False),
    ("weights", lambda n: np.exp(n["scaled"]), "not divided by the sum of the exponentials", False),
    ("weights", lambda n: softmax(n["scaled"]), "mask ignored", True),
    ("masked", lambda n: n["scaled"], "mask ignored", True),
    ("weights", lambda n: softmax(n["scaled"]) * ~HIDDEN, "masked after the softmax", True),
    ("q", lambda n: n["embeddings"] @ n["W_q"].T, "W_q transposed", False),
    ("k", lambda n: n["embeddings"] @ n["W_k"].T, "W_k transposed", False),
    ("v", lambda n: n["embeddings"] @ n["W_v"].T, "W_v transposed", False),
    ("q", lambda n: n["embeddings"], "W_q forgotten", False),
    ("k", lambda n: n["embeddings"] @ n["W_q"], "W_q instead of W_k", False),
    ("scores", lambda n: n["q"] @ n["v"].T, "q · v instead of q · k", False),
    ("scores", lambda n: n["k"] @ n["q"].T, "query and key swapped", False),
    ("scores", lambda n: n["q"][:, 1:] @ n["k"][:, 1:].T, "a term missing from the sum", False),
    ("weighted values", lambda n: n["weights"][..., None] * np.roll(n["v"], -1, 0)[None], "value of the wrong word",
     False),
    ("outputs", without_cat, "a term missing from the sum", False),
    ("outputs", wrong_word, "value of the wrong word", False),
    ("outputs", lambda n: n["weights"] @ n["k"], "keys instead of values", False),
    ("outputs", lambda n: n["weights"].T @ n["v"], "weights of columns instead of rows", False),
]  # fmt: skip


@pytest.mark.parametrize("digits", [None, 3])
@pytest.mark.parametrize(("step", "plant", "slip", "masked"), PLANTED)
def test_a_planted_slip_is_named_and_what_follows_is_not_wrong_again(step, plant, slip, masked, digits):
    check = check_notes(calculation(digits, masked, **{step: plant}))
    wrong = of_step(check, STEP_OF[step])
    assert wrong
    if slip.startswith("a term"):  # a term may be zero, or two terms equal to one
        assert sum(verdict.slip == slip for verdict in wrong) >= len(wrong) / 2
    else:
        assert {verdict.slip for verdict in wrong} == {slip}
    for later in ORDER[ORDER.index(step) + 1 :]:
        assert not of_step(check, STEP_OF[later])
    if step != "outputs":
        assert check.of_kind("follows")
    for earlier in ORDER[: ORDER.index(step)]:
        assert not of_step(check, STEP_OF[earlier], ("wrong", "follows", "cut", "carried on"))


@pytest.mark.parametrize("digits", [None, 3])
@pytest.mark.parametrize(("step", "plant", "slip", "masked"), [case for case in PLANTED if case[0] == "scaled"])
def test_a_slip_in_a_step_that_is_not_written_down_is_named_in_the_next(step, plant, slip, masked, digits):
    notes = calculation(digits, masked, **{step: plant})
    del notes["scaled"]
    assert {verdict.slip for verdict in of_step(check_notes(notes), "weight")} == {slip}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("digits", [None, 1, 2, 3, 6])
def test_full_precision_printed_rounded_is_right(digits, masked):
    check = check_notes(calculation(digits, masked), decimals=min(digits or 2, 2))
    assert check.ok
    assert not check.slips


def rounded(array, digits=2):
    return np.round(array, digits)


def truncated(array, digits=2):
    return np.trunc(array * 10**digits) / 10**digits


@pytest.mark.parametrize("shorten", [rounded, truncated])
def test_every_way_of_carrying_on_is_recognised(shorten):
    """Weights shortened and used, values carried exactly; outputs shortened again."""
    notes = calculation(2, weights=lambda n: shorten(softmax(n["scaled"])))
    check = check_notes(notes)
    assert not check.of_kind("wrong")
    assert not check.of_kind("follows")
    assert check.of_kind("carried on")


def test_what_follows_with_full_precision_from_a_wrong_score_says_so():
    """The scaled score is printed with 2 digits; the weight is computed from 5.53 / 2 = 2.765, not from 2.77."""

    def slipped(n):
        scores = n["q"] @ n["k"].T
        scores[1, 2] += 5.53
        return scores

    check = check_notes(calculation(2, scores=slipped))
    (wrong,) = check.of_kind("wrong")
    assert wrong.what == "score cat → sat"
    assert {verdict.what.split()[1] for verdict in check.of_kind("follows")} >= {"cat"}
    assert not check.of_kind("cut")


def multi_head(**planted):
    draw = np.random.default_rng(5).integers
    x = draw(-2, 3, size=(3, 4)).astype(float)
    known = {"embeddings": x} | {name: draw(-1, 2, size=(4, 4)).astype(float) for name in ("W_q", "W_k", "W_v", "W_O")}

    def heads(rows):
        return rows.reshape(len(rows), 2, 2).swapaxes(0, 1)

    q, k, v = (heads(x @ known[name]) for name in ("W_q", "W_k", "W_v"))
    weights = softmax(q @ k.swapaxes(1, 2) / 2**0.5)
    outputs = weights @ v
    joined = planted.get("concatenated", lambda o: o.swapaxes(0, 1).reshape(3, 4))(outputs)
    through = planted.get("projected", lambda c, w: c @ w)(joined, known["W_O"])
    return {**known, "heads": 2, "weights": weights, "outputs": outputs, "concatenated": joined, "projected": through}


def test_several_heads_and_w_o_can_be_checked():
    check = check_notes(multi_head())
    assert check.ok
    assert {verdict.step for verdict in check.verdicts} == {"weight", "output", "concatenated", "projected"}


@pytest.mark.parametrize(
    ("step", "plant", "slip"),
    [
        ("projected", lambda c, w: c @ w.T, "W_O transposed"),
        ("projected", lambda c, w: c, "W_O forgotten"),
        ("concatenated", lambda o: o[::-1].swapaxes(0, 1).reshape(3, 4), "heads in reverse order"),
    ],
)
def test_slips_after_the_heads_are_named(step, plant, slip):
    check = check_notes(multi_head(**{step: plant}))
    assert {verdict.slip for verdict in of_step(check, step)} == {slip}
    assert {verdict.kind for verdict in check.slips if verdict.step != step} <= {"follows"}


def test_heads_may_be_counted_from_one_and_matrices_given_per_head():
    notes = multi_head()
    per_head = {name: [notes[name][:, :2], notes[name][:, 2:]] for name in ("W_q", "W_k", "W_v")}
    notes |= per_head | {"weights": {"head 1": notes["weights"][0], "head 2": notes["weights"][1]}}
    del notes["heads"]
    assert check_notes(notes).ok


def test_keys_of_cross_attention_come_from_the_context():
    notes = {
        "embeddings": {"le": [1, 0], "chat": [0, 2]},
        "context": {"The": [1, 1], "cat": [0, 3], "sat": [2, 0]},
        "scores": {"le": [1, 0, 2], "chat": {"cat": 6}},
    }
    assert check_notes(notes).ok
    assert check_notes(notes | {"scores": {"chat": {"cat": 5}}}).of_kind("wrong")[0].what == "score chat → cat"


def test_minus_infinity_may_be_written_early_or_as_a_large_negative_number():
    notes = {"embeddings": [[1, 0], [0, 1]], "mask": "causal", "scores": [[1, "−∞"], [0, 1]]}
    assert check_notes(notes).ok
    assert check_notes(notes | {"masked": [[0.707, -1e9], [0, 0.707]], "weights": [[1, 0], [0.33, 0.67]]}).ok
    wrong = check_notes(notes | {"masked": [["−∞", "−∞"], [0, 0.707]]}).of_kind("wrong")
    assert [verdict.what for verdict in wrong] == ["masked 0 → 0"]


def careful_student(seed):
    """Notes in which every step follows from printed or unrounded numbers, and is printed rounded or truncated."""
    draw, toss = np.random.default_rng(seed), np.random.default_rng(seed + 1000)
    count, size, digits = toss.integers(2, 5), toss.integers(2, 5), int(toss.integers(1, 4))
    notes = {"embeddings": draw.normal(size=(count, size)).round(1)}
    notes |= {name: draw.normal(size=(size, size)).round(1) for name in ("W_q", "W_k", "W_v")}
    full: dict[str, Any] = {}
    shown: dict[str, Any] = {}

    def step(name, compute, *needs):
        full[name] = compute(*((shown if toss.random() < 0.5 else full)[need] for need in needs))
        nudged = full[name] * 10**digits + 1e-7 * np.sign(
            full[name]
        )  # as a calculator truncates 2.16, stored as 2.1599…
        shown[name] = full[name].round(digits) if toss.random() < 0.5 else np.trunc(nudged) / 10**digits
        if toss.random() < 0.8:
            notes[name] = printed(shown[name], digits)
        else:
            shown[name] = full[name]

    for name, matrix in (("q", "W_q"), ("k", "W_k"), ("v", "W_v")):
        step(name, lambda matrix=matrix: notes["embeddings"] @ notes[matrix])
    step("scores", lambda q, k: q @ k.T, "q", "k")
    step("scaled", lambda scores: scores / size**0.5, "scores")
    step("weights", softmax, "scaled")
    step("weighted values", lambda weights, v: weights[:, :, None] * v[None], "weights", "v")
    if toss.random() < 0.5:
        step("outputs", lambda weighted: weighted.sum(axis=1), "weighted values")
    else:
        step("outputs", lambda weights, v: weights @ v, "weights", "v")
    return notes | {"outputs": printed(shown["outputs"], digits)}


@pytest.mark.parametrize("seed", range(60))
def test_no_number_of_a_careful_student_is_wrong(seed):
    check = check_notes(careful_student(seed))
    assert not check.of_kind("wrong")
    assert not check.of_kind("follows")
