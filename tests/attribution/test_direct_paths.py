"""Contributions sum to what transformers computes, and each part is what plain PyTorch gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard import errors
from regard.attribution.direct_paths import contributions

from ..models.checkpoints import torch
from ..small_models import encoder
from .cases import TEXT, readers, reference

KINDS = ("gpt2", "llama", "gpt_neox", "opt")
EXACT = 1e-4  # of logits of the order of 10


@pytest.mark.parametrize("kind", KINDS)
def test_all_parts_sum_to_the_logit_of_transformers(folders: Any, kind: str) -> None:
    made = folders(kind)
    for reader in readers(kind, made):
        ids = reader.tokeniser.encode(TEXT).ids
        logits, _ = reference(made, ids)
        cat, dogs = (reader.tokeniser.encode(word, special=False).ids[0] for word in ("cat", "dogs"))
        for position in (3, -1):
            expected = float(logits[position, cat] - logits[position, dogs])
            parts = contributions(reader, TEXT, ("cat", "dogs"), position=position)
            assert abs(parts.total - expected) < EXACT, reader
            assert abs(parts.measured - expected) < EXACT
            assert (
                abs(contributions(reader, TEXT, "cat", position=position).total - float(logits[position, cat])) < EXACT
            )
            np.testing.assert_allclose(parts.sources.sum(2), parts.heads, atol=EXACT)
            assert (np.abs(parts.heads) > 1e-3).all()  # no part is zero by accident
            assert not parts.sources[:, :, position % len(ids) + 1 :].any()  # of later tokens


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_contributes_what_the_norm_at_its_scale_makes_of_its_output(folders: Any, kind: str) -> None:
    """Plain PyTorch: hooks on W_O keep one head's columns; the last norm's scale is measured, not Regard's formula."""
    made = folders(kind)
    reader = readers(kind, made)[0]
    parts = contributions(reader, TEXT, "mat")
    twin, ids = made.twin, torch.tensor([reader.tokeniser.encode(TEXT).ids])
    outputs = {"gpt2": "c_proj", "llama": "o_proj", "gpt_neox": "attention.dense", "opt": "out_proj"}[kind]
    modules = [part for name, part in twin.named_modules() if name.endswith(outputs) and "mlp" not in name]
    norms = {"gpt2": "ln_f", "llama": "model.norm", "gpt_neox": "final_layer_norm", "opt": "decoder.final_layer_norm"}[
        kind
    ]
    norm = [part for name, part in twin.named_modules() if name.endswith(norms)][-1]
    seen: dict[Any, Any] = {}
    hooks = [
        part.register_forward_pre_hook(lambda part, args: seen.update({part: args[0]})) for part in [*modules, norm]
    ]
    with torch.no_grad():
        twin(ids)
        for hook in hooks:
            hook.remove()
        final, layer, head = seen[norm].reshape(-1, 24)[-1], 1, 2
        rows = seen[modules[layer]].reshape(
            -1, modules[layer].weight.shape[0] if kind == "gpt2" else modules[layer].in_features
        )
        size = rows.shape[1] // parts.heads.shape[1]
        kept = torch.zeros_like(rows[-1])
        kept[head * size : (head + 1) * size] = rows[-1, head * size : (head + 1) * size]
        written = modules[layer](kept[None])[0] - modules[layer](torch.zeros_like(kept)[None])[0]
        centred = written if kind == "llama" else written - written.mean()
        spread = (final**2).mean() if kind == "llama" else final.var(correction=0)
        epsilon = getattr(norm, "variance_epsilon", None) or norm.eps
        direction = twin.get_output_embeddings().weight[reader.tokeniser.encode("mat", special=False).ids[0]]
        expected = float(centred / torch.sqrt(spread + epsilon) * norm.weight @ direction)
    assert abs(parts.heads[layer, head] - expected) < EXACT
    assert abs(parts.written[layer, head] - float(written.norm())) < EXACT


def test_post_norm_contributions_sum_to_the_state_along_a_direction() -> None:
    model = encoder()
    direction = np.random.default_rng(0).normal(size=model.width)
    text = "the kids were scared of the lions"
    expected = model.embed(text, normalise=False) @ direction
    parts = contributions(model, text, direction, position="mean")
    assert abs(parts.total - expected) < 1e-5 and abs(parts.measured - expected) < 1e-5
    np.testing.assert_allclose(parts.sources.sum(2), parts.heads, atol=1e-6)


def test_source_tokens_write_what_the_weights_values_and_w_o_give(folders: Any) -> None:
    made = folders("llama")
    for reader in readers("llama", made):
        stream, layer, head, source = reader.residual(TEXT), 2, 5, 4
        attention, values = stream.reading.seen[layer]
        w_o = np.asarray(stream.blocks[layer].w_o.weight, np.float64).reshape(24, 6, 4)
        row = attention.dense()[head, -1, source] * (values[head // 3, source] @ w_o[:, head].T)
        parts = contributions(reader, TEXT, "mat")
        assert abs(parts.source_written[layer, head, source] - np.linalg.norm(row)) < 1e-5


@pytest.mark.parametrize(
    ("toward", "match"),
    [
        ("kids cat", "a next token is one"), (("cat", "dogs", "mat"), "two tokens"), (np.ones(7), r"expected \(24,\)"),
    ],
)  # fmt: skip
def test_a_target_that_is_none_is_refused(folders: Any, toward: Any, match: str) -> None:
    with pytest.raises(errors.RegardError, match=match):
        contributions(readers("llama", folders("llama"))[0], TEXT, toward)


@pytest.mark.parametrize("of", [0, 1], ids=["own", "transformers"])
def test_without_a_target_the_most_likely_next_token_is_explained(folders: Any, of: int) -> None:
    reader = readers("llama", folders("llama"))[of]
    stream = reader.residual(TEXT)
    assert stream.head is not None and stream.norm is not None
    for position in (-1, 2):
        logits = stream.head(stream.norm(stream.reading.states[-1]))[position]
        parts, word = contributions(reader, TEXT, position=position), reader.tokeniser.piece(int(logits.argmax()))[0]
        assert parts.target == f"the logit of “{word}”"
        assert parts.measured == pytest.approx(float(logits.max()), abs=1e-5)
    difference = contributions(reader, TEXT, (None, "cat"))
    assert difference.measured == pytest.approx(
        contributions(reader, TEXT).measured - contributions(reader, TEXT, "cat").measured, abs=1e-5
    )
    with pytest.raises(errors.OptionError, match="after the mean"):
        contributions(reader, TEXT, position="mean")


def test_models_without_logits_or_with_other_blocks_are_refused_in_a_sentence(folders: Any) -> None:
    with pytest.raises(errors.Unsupported, match="no unembedding"):
        contributions(encoder(), "the kids left", "kids")
    with pytest.raises(errors.Unsupported, match="each added as it is written"):
        contributions(readers("gemma2", folders("gemma2"))[0], TEXT, "cat")


@pytest.mark.slow
def test_the_parts_of_smollm2_sum_to_its_logit() -> None:
    from regard.models.model import model

    smollm2, text = model("smollm2"), "When Mary and John went to the store, John gave a drink to"
    parts = contributions(smollm2, text, (" Mary", " John"))
    logits = smollm2.next_logits(smollm2.read(text).states[-1][-1:])[0].astype(np.float64)
    mary, john = (smollm2.tokeniser.encode(word, special=False).ids[0] for word in (" Mary", " John"))
    assert abs(parts.total - (logits[mary] - logits[john])) < EXACT
