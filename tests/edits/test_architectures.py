"""Every edit of a watched model against dense attention in plain PyTorch, on twelve architectures."""

from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import regard  # noqa: E402
from regard.edits import Means, block, patch, scale, silence  # noqa: E402

from ..watch.architectures import ARCHITECTURES, build, inputs_of  # noqa: E402
from .reference import dense  # noqa: E402

NAMES = (
    "BERT", "GPT-2", "GPT-NeoX", "Llama", "Qwen3", "Gemma 3", "Mistral (sliding window)", "T5 (bias by distance)",
    "BART", "Whisper", "ViT", "GPT-OSS (sinks)",
)  # fmt: skip
QUICK = ("BERT", "Llama", "T5 (bias by distance)", "GPT-OSS (sinks)")
LAYER, HEAD, TOKEN = 1, 2, 2
CASES = [
    pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow)
    for one in ARCHITECTURES
    if one.name in NAMES
]
STACKS = {"T5 (bias by distance)": ("encoder", "decoder", "cross"), "BART": ("encoder", "decoder", "cross"),
          "Whisper": ("encoder", "decoder", "cross")}  # fmt: skip


def test_there_are_twelve():
    assert {case.id for case in CASES} == set(NAMES)


def is_in(stack, name):
    """Whether an attention module belongs to a stack, by its name."""
    is_cross = "encoder_attn" in name or "EncDecAttention" in name
    if stack is None:
        return True
    if stack == "cross":
        return is_cross
    return stack in name.split(".") and not is_cross


def last(output):
    return output.last_hidden_state if hasattr(output, "last_hidden_state") else output.logits


def padding_of(inputs, queries):
    """The first real token of each sequence of queries or keys, where inputs are padded on the left; and the count."""
    mask = inputs.get("attention_mask")
    if mask is None or mask.shape[1] != queries:
        return [(0, queries)] * 2
    return [(int(row.int().argmax()), int(row.sum())) for row in mask]


def edits_and_changes(stack, inputs, other):
    """Pairs of an edit and what it is in plain PyTorch; `other` are activations of another run, by module name."""

    def here(name, layer):
        return layer == LAYER and is_in(stack, name)

    def real(parts, axis):
        return padding_of(inputs, parts["blocked"].shape[axis])

    def on_outputs(change):
        def changed(name, layer, parts):
            if here(name, layer):
                parts["after"] = change

        return changed

    def times(factor):
        def change(outputs):
            outputs[:, HEAD] *= factor

        return on_outputs(change)

    def at_first(name, layer, parts):
        if here(name, layer):
            spans = real(parts, 2)

            def change(outputs):
                for row, (start, _) in enumerate(spans[: len(outputs)]):
                    outputs[row, HEAD, start + 1] = 0

            parts["after"] = change

    def blocked(field, heads):
        def change(name, layer, parts):
            if here(name, layer):
                mask = torch.zeros_like(parts["blocked"])
                for row, (query, key) in enumerate(zip(real(parts, 2), real(parts, 3), strict=True)):
                    if row < len(mask):
                        mask[row, heads, query[0] + 3, key[0] + 1] = True
                        mask[row, heads, query[0] + query[1] - 1, key[0]] = True
                parts[field] = mask

        return change

    def patched(field):
        def change(name, layer, parts):
            if here(name, layer):
                source = other[name]
                if field == "outputs":

                    def after(outputs):
                        outputs[:, HEAD] = source["outputs"][:, HEAD]

                    parts["after"] = after
                elif field == "pattern":
                    for one in ("queries", "keys"):
                        parts[one][:, HEAD] = source[one][:, HEAD]
                else:
                    parts["values"][:, HEAD] = source["values"][:, HEAD]

        return change

    def resampled(name, layer, parts):
        if here(name, layer):
            spans = real(parts, 2)

            def change(outputs):
                before = outputs[:, HEAD].clone()
                for row, other_row in ((0, 1), (1, 0)):
                    start, (there, count) = spans[row][0], spans[other_row]
                    tokens = torch.arange(outputs.shape[2] - start).clamp(max=count - 1) + there
                    outputs[row, HEAD, start:] = before[other_row, tokens]

            parts["after"] = change

    def to_mean(outputs):
        outputs[:, HEAD] = torch.from_numpy(mean[HEAD])

    heads, size = next(one["outputs"] for one in other.values()).shape[1::2]
    mean = np.random.default_rng(5).standard_normal((heads, size)).astype(np.float32)
    every, pairs = slice(None), [(3, 1), (-1, 0)]
    place = {"stack": stack}
    yield "silence", lambda _: silence((LAYER, HEAD), **place), times(0)
    yield "silence one token", lambda _: silence((LAYER, HEAD), positions=1, **place), at_first
    yield (
        "silence to a mean",
        lambda _: silence((LAYER, HEAD), to=Means({LAYER: mean}, 9), **place),
        on_outputs(to_mean),
    )
    yield "resample", lambda _: silence((LAYER, HEAD), to="resample", **place), resampled
    yield "scale", lambda _: scale((LAYER, HEAD), factor=-1.5, **place), times(-1.5)
    yield "block", lambda _: block(pairs=pairs, layers=[LAYER], **place), blocked("blocked", every)
    yield "block one head", lambda _: block(pairs=pairs, heads=[(LAYER, HEAD)], **place), blocked("blocked", HEAD)
    yield (
        "block after",
        lambda _: block(pairs=pairs, layers=[LAYER], after_softmax=True, **place),
        blocked("zeroed", every),
    )
    for what in ("outputs", "pattern", "values"):
        yield (
            f"patch {what}",
            lambda seen, what=what: patch(seen, what=what, heads=[(LAYER, HEAD)], **place),
            patched(what),
        )


@pytest.mark.parametrize("architecture", CASES)
def test_edits_equal_dense_attention_with_the_same_change(architecture):
    model, inputs = build(architecture), inputs_of(architecture)
    others = {name: value.roll(1, -1) if name.endswith("input_ids") or "pixel" in name or "features" in name else value
              for name, value in inputs.items()}  # fmt: skip
    with torch.no_grad():
        with regard.watch(model, states=True) as seen:
            plain = last(model(**others))
        with dense(model) as recorded:
            assert torch.allclose(last(model(**others)), plain, atol=1e-5)
            other = dict(recorded)
        before = last(model(**inputs))
        for stack in STACKS.get(architecture.name, (None,)):
            for name, edit, change in edits_and_changes(stack, inputs, other):
                with dense(model, change):
                    expected = last(model(**inputs))
                with regard.watch(model, edit=edit(seen)):
                    edited = last(model(**inputs))
                error = float((edited - expected)[real_rows(inputs, edited)].abs().max())
                assert error <= 1e-5 * max(1.0, float(expected.abs().max())), f"{name} in {stack}: {error}"
                moved = float((expected - before)[real_rows(inputs, edited)].abs().max())
                assert moved > 1e-4, f"{name} in {stack} changes nothing: the comparison says nothing"
            if stack == "cross":
                continue
            entering = block_around(model, next(one for one in other if f".{LAYER}." in one and is_in(stack, one)))
            with states_entering(entering) as kept:
                model(**others)
            with states_entering(entering, kept[0][:, TOKEN]), dense(model):
                expected = last(model(**inputs))
            with regard.watch(model, edit=patch(seen, what="residual", layers=[LAYER], positions=TOKEN, stack=stack)):
                edited = last(model(**inputs))
            assert float((edited - expected)[real_rows(inputs, edited)].abs().max()) <= 1e-5 * float(
                expected.abs().max()
            )
            assert float((expected - before)[real_rows(inputs, edited)].abs().max()) > 1e-4
        assert torch.equal(last(model(**inputs)), before), "the model is not as it was"


def block_around(model, attention):
    """The module up to the first number in the name of an attention."""
    parts = attention.split(".")
    return model.get_submodule(".".join(parts[: next(place for place, part in enumerate(parts) if part.isdigit()) + 1]))


@contextmanager
def states_entering(module, replacement=None):
    """The hidden states that enter a block, with those of one token replaced, (sequence, width)."""
    kept = []

    def hook(_module, args, kwargs):
        states = (args[0] if args else kwargs["hidden_states"]).clone()
        kept.append(states)
        if replacement is not None:
            states[:, TOKEN] = replacement
        return ((states, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": states})

    handle = module.register_forward_pre_hook(hook, with_kwargs=True)
    try:
        yield kept
    finally:
        handle.remove()


def real_rows(inputs, states):
    """Tokens that are not padding: what a row without any key gets differs between implementations."""
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    if mask is None or mask.shape[:2] != states.shape[:2]:
        return torch.ones(states.shape[:2], dtype=torch.bool)
    return mask.bool()
