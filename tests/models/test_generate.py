"""Generation: the same tokens as transformers, and a reading of the whole text without a second pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.errors import OptionError, Unsupported
from regard.layers import Alibi, Encoder
from regard.models.forward import packed, run
from regard.models.generate import Sampling
from regard.models.model import Model, opened
from regard.reading import Reading

from .checkpoints import Tiny, torch, transformers, twin_of, write
from .test_bert import config_of
from .test_gpt2 import SMALL as SMALL_GPT2
from .test_llama import SMALL

PROMPT = "the kids were scared"


@pytest.fixture(params=["Llama", "Mistral", "Qwen2", "Qwen3", "GPT2"])
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    more = {"Mistral": {"sliding_window": 5, "head_dim": 8}, "Qwen3": {"head_dim": 10}}.get(request.param, {})
    small = SMALL_GPT2 if request.param == "GPT2" else SMALL
    config = getattr(transformers, f"{request.param}Config")(**small, **more, eos_token_id=None, bos_token_id=None)
    model_class = "GPT2LMHeadModel" if request.param == "GPT2" else f"{request.param}ForCausalLM"
    return write(tmp_path, config, "causal", model_class)


def ids(reading: Reading) -> list[int]:
    return [token.id for token in reading.tokens]


def written_by(twin: Any, prompt: list[int], count: int, **more: Any) -> list[int]:
    with torch.no_grad():
        given = torch.tensor([prompt])
        mask = torch.ones_like(given)
        whole = twin.generate(given, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0, **more)
    return list(map(int, whole[0]))


def test_greedy_tokens_equal_transformers(tiny: Tiny) -> None:
    reading = tiny.open().generate(PROMPT, 30)
    assert reading.given == 4
    assert ids(reading) == written_by(tiny.twin, ids(reading)[:4], 30)


def test_a_generated_reading_equals_reading_the_whole_text(tiny: Tiny) -> None:
    model = tiny.open()
    reading = model.generate(PROMPT, 9)
    whole = model.read(" ".join(model.tokeniser.token(number) for number in ids(reading)))
    assert ids(whole) == ids(reading)
    for ours, right in zip(reading.states, whole.states, strict=True):
        np.testing.assert_allclose(ours, right, atol=1e-5 * np.abs(right).max())
    for ours, right in zip(reading.seen, whole.seen, strict=True):
        np.testing.assert_allclose(ours.attention.dense(), right.attention.dense(), atol=1e-5)
        np.testing.assert_allclose(ours.values, right.values, atol=1e-5 * np.abs(right.values).max())
    for ours, right in zip(reading.outputs, whole.outputs, strict=True):
        np.testing.assert_allclose(ours, right, atol=1e-5 * np.abs(right).max())


def test_spans_of_tokens_match_the_text(tiny: Tiny) -> None:
    reading = tiny.open().generate(PROMPT, 6)
    assert reading.text.startswith(PROMPT)
    for token in reading.tokens:
        assert reading.text[token.start : token.stop] == token.text or token.special
    assert all(one.stop <= other.start for one, other in zip(reading.tokens, reading.tokens[1:], strict=False))


@pytest.fixture
def llama(tmp_path: Path) -> Model:
    return write(tmp_path, transformers.LlamaConfig(**SMALL, eos_token_id=None), "causal", "LlamaForCausalLM").open()


def test_the_seed_decides_the_tokens(llama: Model) -> None:
    first, again, other = (ids(llama.generate(PROMPT, 20, temperature=2.0, seed=seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_top_k_of_one_is_greedy(llama: Model) -> None:
    likeliest = ids(llama.generate(PROMPT, 12))
    assert ids(llama.generate(PROMPT, 12, temperature=5.0, top_k=1)) == likeliest
    assert ids(llama.generate(PROMPT, 12, temperature=5.0, top_p=1e-9)) == likeliest


def test_tokens_are_sampled_by_their_probabilities() -> None:
    scores = np.log(np.array([0.1, 0.6, 0.3]))
    choose = Sampling(temperature=1.0, seed=3).sampler()
    counts = np.bincount([choose(scores) for _ in range(4000)], minlength=3) / 4000
    np.testing.assert_allclose(counts, [0.1, 0.6, 0.3], atol=0.03)  # four standard deviations
    among = Sampling(temperature=1.0, top_p=0.7, seed=3).sampler()
    assert {among(scores) for _ in range(200)} == {1, 2}
    of_two = Sampling(temperature=1.0, top_k=2, seed=3).sampler()
    assert {of_two(scores) for _ in range(200)} == {1, 2}


def test_the_end_of_text_token_ends_generation(tmp_path: Path) -> None:
    endless = write(tmp_path, transformers.LlamaConfig(**SMALL, eos_token_id=None), "causal", "LlamaForCausalLM")
    written = ids(endless.open().generate(PROMPT, 9))
    end = written[6]
    config = transformers.LlamaConfig(**SMALL, eos_token_id=[end])
    tiny = write(tmp_path, config, "causal", "LlamaForCausalLM")
    reading = tiny.open().generate(PROMPT, 9)
    assert ids(reading) == written[: written.index(end, 4) + 1] == written_by(tiny.twin, written[:4], 9)


def test_a_stop_text_ends_generation(llama: Model) -> None:
    whole = llama.generate(PROMPT, 9)
    third = whole.tokens[6].text
    reading = llama.generate(PROMPT, 9, stop=[third])
    assert third in [token.text for token in reading.tokens[4:]]
    assert len(reading.tokens) < len(whole.tokens)


def test_on_token_gets_every_piece_of_text(llama: Model) -> None:
    told: list[str] = []
    reading = llama.generate(PROMPT, 7, on_token=told.append)
    assert "".join(told) == llama.tokeniser.decode(ids(reading)[4:])
    assert len(told) > 1


def test_more_tokens_than_the_model_reads_are_refused(llama: Model) -> None:
    assert len(llama.generate(PROMPT, 57).tokens) == 61
    with pytest.raises(OptionError, match="has 4 tokens, and 58 more are to be generated; tiny reads at most 61"):
        llama.generate(PROMPT, 58)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": 0}, {"temperature": -1}, {"temperature": "hot"}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5},
        {"seed": -1}, {"stop": ""}, {"stop": [3]},
    ],
)  # fmt: skip
def test_invalid_options_are_named(llama: Model, wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        llama.generate(PROMPT, **wrong)


@pytest.mark.parametrize("prompt", [5, None, b"the cat", ["the cat"]])
def test_a_prompt_that_is_not_text_is_named(llama: Model, prompt: Any) -> None:
    with pytest.raises(OptionError, match="`prompt` is "):
        llama.generate(prompt)


@pytest.mark.parametrize("name", [5, None, b"minilm", ["minilm"]])
def test_a_model_that_is_not_named_by_text_is_refused(name: Any) -> None:
    with pytest.raises(OptionError, match="`model` is "):
        regard.model(name)


@pytest.mark.parametrize("window", [None, 5])
def test_generation_applies_alibi(llama: Model, window: int | None) -> None:
    """The KV cache gives the same result as reading the whole text."""

    def with_alibi(block: Encoder) -> Encoder:
        attention = replace(block.attention, rotary=None, alibi=Alibi.of(block.attention.heads), window=window)
        return replace(block, attention=attention)

    blocks = tuple(with_alibi(block) for block in llama.blocks)
    model = replace(llama, transformer=replace(llama.transformer, encoders=blocks))
    written = model.generate(PROMPT, 20)
    together = packed([ids(written)])
    for place, whole in enumerate(run(model.transformer, together)):
        np.testing.assert_allclose(written.states[place + 1], whole.result, atol=1e-4 * np.abs(whole.result).max())
        seen = whole.seen(model.blocks[place].attention, together.spans[0])
        np.testing.assert_allclose(written.seen[place].attention.dense(), seen.attention.dense(), atol=1e-4)


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 19, "rope_theta": 100.0}


def test_generation_with_yarn_equals_transformers(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(**SMALL, rope_parameters=YARN, eos_token_id=None, bos_token_id=None)
    tiny = write(tmp_path, config, "causal", "LlamaForCausalLM")
    reading = tiny.open().generate(PROMPT, 30)
    assert ids(reading) == written_by(tiny.twin, ids(reading)[:4], 30)


def test_generation_across_a_change_of_longrope_frequencies_is_refused(tmp_path: Path) -> None:
    rope = {"rope_type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4.0], "rope_theta": 100.0}
    rope |= {"original_max_position_embeddings": 9}
    config = transformers.LlamaConfig(**SMALL, rope_parameters=rope, eos_token_id=None, bos_token_id=None)
    tiny = write(tmp_path, config, "causal", "LlamaForCausalLM")
    model = tiny.open()
    reading = model.generate(PROMPT, 5)
    assert ids(reading) == written_by(tiny.twin, ids(reading)[:4], 5)
    with pytest.raises(Unsupported, match="Generate at most 5 tokens"):
        model.generate(PROMPT, 6)
    reading = model.generate(" ".join([PROMPT] * 3), 5)
    assert ids(reading) == written_by(tiny.twin, ids(reading)[:12], 5)


def test_a_bidirectional_model_does_not_generate(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    with pytest.raises(Unsupported, match="smollm2"):
        model.generate("the cat")


@pytest.mark.parametrize("count", [12, pytest.param(64, marks=pytest.mark.slow)])
def test_smollm2_generates_the_tokens_of_transformers(smollm2_path: Path, count: int) -> None:
    model = opened(smollm2_path, "smollm2")
    reading = model.generate("The kids were scared of the lions, so", count)
    twin = twin_of(model)
    assert ids(reading) == written_by(twin, ids(reading)[: reading.given], count, eos_token_id=sorted(model.ends))
