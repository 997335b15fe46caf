"""A pruned checkpoint computes what the model computes with these heads silenced, here and in transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.edits import silence
from regard.errors import OptionError, OutOfRange, Unsupported
from regard.heads import prune

from ..models.checkpoints import SENTENCES, Tiny, base_of, torch, transformers, write
from ..models.conftest import cache

__all__ = ["cache"]

SMALL: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6, "num_key_value_heads": 2,
    "intermediate_size": 29, "max_position_embeddings": 61,
}  # fmt: skip
GEMMA: dict[str, Any] = SMALL | {"head_dim": 4, "query_pre_attn_scalar": 4}
BERT: dict[str, Any] = {
    "vocab_size": 31, "hidden_size": 30, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 22,
}  # fmt: skip
PAIR = [(0, 1), (0, 4), (1, 0), (1, 5), (2, 2), (2, 3)]  # one of each group: 6 heads on 2 key heads become 4 on 2
GROUP = [(layer, head) for layer in range(3) for head in (0, 1, 2)]  # all that read one key head
UNEVEN = [(0, 1), (1, 0), (1, 1), (1, 2), (1, 5), (2, 3), (2, 4)]
SOME = [(0, 1), (2, 5)]
# kind, settings, heads, the heads and key heads per layer of the file; None where they are zeroed
CASES: list[tuple[str, dict[str, Any], list[tuple[int, int]], tuple[int, int] | None]] = [
    ("Llama", SMALL, PAIR, (4, 2)),
    ("Llama", SMALL | {"attention_bias": True, "head_dim": 6}, GROUP, (3, 1)),
    ("Llama", SMALL, SOME, None),
    ("Mistral", SMALL | {"sliding_window": 3, "head_dim": 8}, PAIR, (4, 2)),
    ("Mistral", SMALL | {"num_key_value_heads": 6}, UNEVEN, (5, 5)),
    ("Qwen2", SMALL, PAIR, (4, 2)),
    ("Qwen3", SMALL | {"head_dim": 10}, UNEVEN, None),
    ("Qwen3", SMALL | {"head_dim": 10}, [*GROUP, (1, 4)], (3, 1)),
    ("Gemma", GEMMA, PAIR, (4, 2)),
    ("Gemma2", GEMMA, GROUP, (3, 1)),
    ("Gemma3", GEMMA, PAIR, (4, 2)),
    ("Bert", BERT, PAIR, None),
    ("DistilBert", {"vocab_size": 31, "dim": 24, "n_layers": 3, "n_heads": 6, "hidden_dim": 29}, PAIR, None),
    ("GPT2", {"vocab_size": 31, "n_embd": 24, "n_layer": 3, "n_head": 6}, PAIR, None),
    ("GPTNeoX", BERT, PAIR, None),
    ("OPT", BERT | {"word_embed_proj_dim": 30, "ffn_dim": 22, "pad_token_id": 0}, PAIR, None),
]


def made(folder: Path, kind: str, settings: dict[str, Any]) -> Tiny:
    config = getattr(transformers, f"{kind}TextConfig" if kind == "Gemma3" else f"{kind}Config")(**settings)
    is_bert = kind.endswith("Bert")
    name = {"Bert": "BertModel", "DistilBert": "DistilBertModel", "GPT2": "GPT2LMHeadModel"}.get(
        kind, f"{kind}ForCausalLM"
    )
    return write(folder, config, "bert" if is_bert else "causal", name)


def end(model: Any, ids: Any) -> Any:
    with torch.no_grad():
        result = model(ids)
    return (result.logits if "logits" in result else result.last_hidden_state).numpy()


@pytest.mark.parametrize(
    ("kind", "settings", "heads", "shape"), CASES, ids=[f"{case[0]}-{len(case[2])}-{case[3]}" for case in CASES]
)
def test_a_pruned_checkpoint_is_the_model_with_these_heads_silenced(
    kind: str, settings: dict[str, Any], heads: list[tuple[int, int]], shape: tuple[int, int] | None, tmp_path: Path
) -> None:
    tiny = made(tmp_path / "whole", kind, settings)
    pruned = prune(tiny.folder, heads, tmp_path / "pruned")
    assert (pruned.heads, pruned.key_heads) == shape if shape else not pruned.removed
    assert (pruned.numbers[1] < pruned.numbers[0]) == pruned.removed
    assert ("in W_O set to zero" in str(pruned)) == (shape is None)
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 4]])
    before = end(tiny.twin, ids)
    with regard.watch(tiny.twin, keep=None, edit=silence(*heads)):
        expected = end(tiny.twin, ids)
    smaller = type(tiny.twin).from_pretrained(tmp_path / "pruned", attn_implementation="eager").eval()
    tolerance = 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(end(smaller, ids), expected, atol=tolerance)
    assert np.abs(before - expected).max() > 100 * tolerance, "silencing changes nothing: the comparison says nothing"
    count = sum(parameter.numel() for parameter in base_of(smaller).parameters())
    assert (count < sum(parameter.numel() for parameter in base_of(tiny.twin).parameters())) == pruned.removed
    if kind in ("Gemma", "Gemma2", "Gemma3", "GPTNeoX", "OPT"):
        return  # which Regard reads through transformers only
    ours, whole = regard.model(tmp_path / "pruned"), tiny.open()
    for reading, silenced in zip(ours.read(SENTENCES), whole.read(SENTENCES, edit=silence(*heads)), strict=True):
        np.testing.assert_allclose(
            reading.states[-1], silenced.states[-1], atol=1e-5 * np.abs(silenced.states[-1]).max()
        )


def test_bfloat16_and_other_tensors_are_kept_bit_for_bit(tmp_path: Path) -> None:
    tiny = made(tmp_path / "whole", "Llama", SMALL)
    tiny.twin.to(torch.bfloat16).save_pretrained(tmp_path / "half")
    (tmp_path / "half" / "tokenizer.json").write_bytes((tiny.folder / "tokenizer.json").read_bytes())
    pruned = prune(tmp_path / "half", "0.1,0.4,1.0,1.5,2.2,2.3", tmp_path / "pruned")
    loaded = type(tiny.twin).from_pretrained(pruned.folder).state_dict()
    assert pruned.sources[0] == (0, 2, 3, 5)
    for name, tensor in tiny.twin.state_dict().items():
        assert loaded[name].dtype is torch.bfloat16
        if "self_attn" not in name:
            assert torch.equal(loaded[name], tensor)
    rows = [row for head in pruned.sources[0] for row in range(4 * head, 4 * head + 4)]
    name = "model.layers.0.self_attn.q_proj.weight"
    assert torch.equal(loaded[name], tiny.twin.state_dict()[name][rows])
    assert {path.name for path in pruned.folder.iterdir()} >= {"config.json", "model.safetensors", "tokenizer.json"}


def test_what_cannot_be_pruned_is_refused_in_a_sentence(tmp_path: Path) -> None:
    tiny = made(tmp_path / "whole", "Llama", SMALL)
    for heads, error, match in (
        ([(0, 6)], OutOfRange, "there are 6 heads"),
        ([(3, 0)], OutOfRange, "there are 3 layers"),
        ("7.0", OptionError, "names 7.0; .* has 3 layers × 6 heads"),
        ("a head", OptionError, "expected heads such as 2.0,3.1"),
        ([], OptionError, "at least one head"),
        ([4], OptionError, r"expected \(layer, head\)"),
    ):
        with pytest.raises(error, match=match):
            prune(tiny.folder, heads, tmp_path / "pruned")  # type: ignore[arg-type]
    assert not (tmp_path / "pruned").exists()
    with pytest.raises(OptionError, match="expected a new folder"):
        prune(tiny.folder, [(0, 0)], tiny.folder)
    t5 = transformers.T5Config(vocab_size=31, d_model=24, num_layers=2, num_heads=2, d_kv=12, d_ff=29)
    other = write(tmp_path / "t5", t5, "causal", "T5ForConditionalGeneration")
    with pytest.raises(Unsupported, match=r"Pruning .*, a t5"):
        prune(other.folder, [(0, 0)], tmp_path / "pruned")


@pytest.mark.slow
def test_smollm2_without_a_head_per_layer_is_a_smaller_folder(tmp_path: Path) -> None:
    heads = [(layer, 3 * (layer % 3) + head) for layer in range(30) for head in range(3)]
    pruned = prune("smollm2", heads, tmp_path / "pruned")
    assert (pruned.removed, pruned.heads, pruned.key_heads) == (True, 6, 2)
    text = "The capital of France is"
    silenced = regard.model("smollm2").read(text, edit=silence(*heads)).states[-1]
    tolerance = 1e-5 * np.abs(silenced).max()
    np.testing.assert_allclose(regard.model(pruned.folder).read(text).states[-1], silenced, atol=tolerance)
    tokenizer = transformers.AutoTokenizer.from_pretrained(pruned.folder)
    twin = transformers.AutoModel.from_pretrained(pruned.folder, attn_implementation="eager").eval()
    with torch.no_grad():
        states = twin(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states
    np.testing.assert_allclose(states[-2].numpy()[0], regard.model(pruned.folder).read(text).states[-2], atol=tolerance)
    assert json.loads((pruned.folder / "config.json").read_text(encoding="utf-8"))["num_attention_heads"] == 6
