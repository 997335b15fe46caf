"""BERT and its relatives equal transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.errors import OptionError, Unsupported
from regard.models.model import opened

from .checkpoints import SENTENCES, Tiny, base_of, differences, torch, transformers, write

SMALL: dict[str, Any] = {
    "vocab_size": 37, "hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 29,
    "max_position_embeddings": 23,
}  # fmt: skip
EXACT = 1e-5  # float32 on both sides, sums in another order


def config_of(kind: str, **more: Any) -> Any:
    if kind == "distilbert":
        return transformers.DistilBertConfig(
            vocab_size=37, dim=12, n_layers=3, n_heads=3, hidden_dim=29, max_position_embeddings=23, **more
        )
    return getattr(transformers, {"bert": "BertConfig", "roberta": "RobertaConfig"}[kind])(**SMALL, **more)


@pytest.fixture(
    params=[
        ("bert", "BertModel", {}),
        ("bert", "BertForMaskedLM", {"hidden_act": "gelu_new"}),
        ("bert", "BertModel", {"hidden_act": "relu", "layer_norm_eps": 1e-3}),
        ("roberta", "RobertaModel", {"pad_token_id": 1, "type_vocab_size": 1}),
        ("roberta", "RobertaForMaskedLM", {"pad_token_id": 0}),
        ("distilbert", "DistilBertModel", {}),
        ("distilbert", "DistilBertForMaskedLM", {"activation": "relu"}),
    ],
    ids=lambda given: "-".join([given[1], *map(str, given[2].values())]),
)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> Tiny:
    kind, model_class, more = request.param
    return write(tmp_path, config_of(kind, **more), "bert", model_class)


def test_states_and_weights_equal_transformers(tiny: Tiny) -> None:
    model = tiny.open()
    assert model.kind == "bert"
    for reading in model.read(SENTENCES):
        assert max(differences(reading, model, tiny.twin)) < EXACT


def test_texts_read_together_equal_texts_read_alone(tiny: Tiny) -> None:
    model = tiny.open()
    for text, reading in zip(SENTENCES, model.read(SENTENCES), strict=True):
        alone = model.read(text)
        assert reading.tokens == alone.tokens
        for ours, right in zip(reading.states, alone.states, strict=True):
            np.testing.assert_allclose(ours, right, atol=1e-5)
        for ours, right in zip(reading.seen, alone.seen, strict=True):
            np.testing.assert_allclose(ours.attention.dense(), right.attention.dense(), atol=1e-5)
            np.testing.assert_allclose(ours.values, right.values, atol=1e-5)


def test_outputs_equal_attention_times_values(tiny: Tiny) -> None:
    for reading in tiny.open().read(SENTENCES):
        for seen, output in zip(reading.seen, reading.outputs, strict=True):
            np.testing.assert_allclose(seen.attention @ seen.values, output, atol=1e-5)


def test_readings_of_one_call_are_views_of_common_arrays(tiny: Tiny) -> None:
    first, second, *_ = tiny.open().read(SENTENCES)
    assert np.shares_memory(first.states[1].base, second.states[1].base)
    assert first.seen[1].attention.queries.base is not None


def test_fewer_layers_are_the_first_ones(tiny: Tiny) -> None:
    model = tiny.open()
    whole, part = model.read(SENTENCES[0]), model.read(SENTENCES[0], layers=2)
    assert (len(part.seen), len(part.outputs), len(part.states), len(part.blocks)) == (2, 2, 3, 2)
    np.testing.assert_array_equal(part.states[2], whole.states[2])
    with pytest.raises(OptionError, match="from 1 to 3"):
        model.read("the cat", layers=4)


def test_texts_longer_than_the_positions_are_refused(tiny: Tiny) -> None:
    model = tiny.open()
    assert model.longest == base_of(tiny.twin).embeddings.position_embeddings.weight.shape[0] - _first_position(tiny)
    model.read("cat " * (model.longest - 2))
    with pytest.raises(OptionError, match=f"has {model.longest + 1} tokens; tiny reads at most {model.longest}"):
        model.read("cat " * (model.longest - 1))


def _first_position(tiny: Tiny) -> int:
    config = tiny.twin.config
    return config.pad_token_id + 1 if config.model_type == "roberta" else 0


def test_old_names_of_tensors_are_read(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tiny = write(tmp_path, config_of("bert"), "bert", "BertModel")
    weights = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in weights.items()
    }
    assert old.keys() != weights.keys()
    save_file(old, tmp_path / "model.safetensors")
    model = tiny.open()
    assert max(differences(model.read(SENTENCES[0]), model, tiny.twin)) < EXACT


def changed(folder: Path, **settings: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    return folder


def test_an_unknown_architecture_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, config_of("bert"), "bert", "BertModel")
    changed(tmp_path, architectures=["MambaForCausalLM"], model_type="mamba")
    with pytest.raises(Unsupported, match=r"MambaForCausalLM(?s:.*)Bert, Roberta.*Llama, Mistral.*GPT2"):
        opened(tmp_path)


@pytest.mark.parametrize("architecture", ["BertGenerationEncoder", "Qwen2MoeForCausalLM", "LlamaModelling"])
def test_an_architecture_that_only_starts_like_a_known_one_is_refused(tmp_path: Path, architecture: str) -> None:
    write(tmp_path, config_of("bert"), "bert", "BertModel")
    changed(tmp_path, architectures=[architecture])
    with pytest.raises(Unsupported, match=architecture):
        opened(tmp_path)


def test_a_missing_tensor_is_named_with_its_file(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    write(tmp_path, config_of("bert"), "bert", "BertModel")
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if name.endswith("layer.1.attention.self.key.weight"))
    save_file({key: array for key, array in weights.items() if key != name}, tmp_path / "model.safetensors")
    with pytest.raises(OptionError, match=rf"(?s){name}.*{tmp_path.name}|{tmp_path.name}.*{name}"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"hidden_size": 24}, r"word_embeddings\.weight"),
        ({"intermediate_size": 31}, r"intermediate\.dense\.weight"),
        ({"num_hidden_layers": 4}, r"encoder\.layer\.3\."),
        ({"num_attention_heads": 5}, "5 query heads"),
        ({"num_attention_heads": "3"}, "num_attention_heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"hidden_act": "sine"}, "sine"),
        ({"layer_norm_eps": -1}, "layer_norm_eps"),
        ({"is_decoder": True}, "A BERT decoder"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
    ],
)
def test_invalid_settings_are_named(tmp_path: Path, settings: dict[str, Any], what: str) -> None:
    write(tmp_path, config_of("bert"), "bert", "BertModel")
    with pytest.raises((OptionError, Unsupported, ValueError), match=what):
        opened(changed(tmp_path, **settings))


def test_empty_lists_and_other_types_than_text_are_refused(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    for nothing in ([], [3], 3, None, ["the", b"cat"]):
        with pytest.raises(OptionError):
            model.read(nothing)  # type: ignore[arg-type]


def test_an_empty_text_has_only_special_tokens(tmp_path: Path) -> None:
    model = write(tmp_path, config_of("bert"), "bert", "BertModel").open()
    assert [token.special for token in model.read("").tokens] == [True, True]


# The real one


@pytest.fixture(scope="module")
def minilm(minilm_path: Path) -> Any:
    return opened(minilm_path, "minilm")


def test_minilm_equals_transformers(minilm: Any, minilm_path: Path) -> None:
    twin = transformers.AutoModel.from_pretrained(minilm_path, attn_implementation="eager").eval()
    theirs = transformers.AutoTokenizer.from_pretrained(minilm_path)
    texts = [
        "The kids were scared of the lions, so they left right away.",
        "Action gets results",
        "Keys on the table belong to Sarah; unbelievably, she keeps forgetting them. " * 12,
    ]
    for text, reading in zip(texts, minilm.read(texts), strict=True):
        ids = theirs(text)["input_ids"]
        assert [token.id for token in reading.tokens] == ids
        with torch.no_grad():
            right = twin(torch.tensor([ids]), output_attentions=True, output_hidden_states=True)
        for ours, expected in zip(reading.states, right.hidden_states, strict=True):
            np.testing.assert_allclose(ours, expected[0].numpy(), atol=2e-5)
        for seen, expected in zip(reading.seen, right.attentions, strict=True):
            np.testing.assert_allclose(seen.attention.dense(), expected[0].numpy(), atol=2e-5)


def test_they_attends_to_kids_and_lions_in_minilm(minilm: Any) -> None:
    reading = minilm.read("The kids were scared of the lions, so they left right away.")
    words = [token.text for token in reading.tokens]
    they = words.index("they")
    assert reading.attention(3)[1, they, words.index("kids")] == pytest.approx(0.81, abs=0.005)
    assert reading.attention(5)[5, they, words.index("lions")] == pytest.approx(0.57, abs=0.005)


def test_on_layer_is_called_after_every_layer_and_may_cancel(minilm_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    model = opened(minilm_path)
    model.read("The cat sat", on_layer=lambda done, of: heard.append((done, of)))
    assert heard == [(layer, 6) for layer in range(1, 7)]

    def enough(done: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.read("The cat sat", on_layer=enough)
