"""transformers on PyTorch: the same weights and the same tokens, which it gets ready-made."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from model_cases import WRITTEN, ModelCase
from peers import Call, Calls
from peers.model_regard import prepared_texts
from regard.models.model import model as open_model

MOST = 12 * 2**30  # bytes of attention matrices that it may hold


def prepare(case: ModelCase) -> Calls:
    torch.set_grad_enabled(False)
    ours = open_model(case.model)
    texts = prepared_texts(case, ours.tokeniser, ours.longest)
    numbers = [ours.tokeniser.encode(text).ids for text in texts]
    model = _bert(case) if ours.kind == "bert" else llama(ours)
    if case.kind == "write":
        return {"write": _writing(model, numbers[0], sorted(ours.ends))}
    body = getattr(model, "model", model)  # without its head
    if case.kind == "embed":
        return {"embed": Call(lambda: _embedded(body, numbers), lambda vectors: {"vectors": vectors})}
    batch = _batch(numbers)

    def results(output: Any) -> dict[str, Any]:
        return {"vectors": _means(output.last_hidden_state, batch["attention_mask"]).numpy()}

    def eager() -> Any:
        body.set_attn_implementation("eager")
        try:
            return body(**batch, output_attentions=True)
        finally:
            body.set_attn_implementation("sdpa")

    calls = {"sdpa": Call(lambda: body(**batch), results)}
    count = batch["input_ids"].shape[1]
    if len(ours.blocks) * ours.heads * len(texts) * count**2 * 4 < MOST:
        calls["eager with attentions"] = Call(eager, results)
    return calls


def _bert(case: ModelCase) -> Any:
    from regard.models import store

    return transformers.AutoModel.from_pretrained(store.find(case.model), attn_implementation="sdpa").eval()


def llama(ours: Any) -> Any:
    """A Llama with the very weights of ours: dequantised from one GGUF file."""
    names = (
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "rms_norm_eps", "rope_theta", "max_position_embeddings", "vocab_size",
    )  # fmt: skip
    config = transformers.LlamaConfig(**{name: ours.config[name] for name in names}, tie_word_embeddings=True)
    model = transformers.LlamaForCausalLM(config)
    table = ours.transformer.embedding.weight
    found = {"model.embed_tokens": table, "lm_head": table, "model.norm": ours.transformer.norm.weight}
    for place, block in enumerate(ours.blocks):
        at, fed = f"model.layers.{place}.", block.feed_forward
        found |= {f"{at}self_attn.{letter}_proj": getattr(block.attention, f"w_{letter}").weight for letter in "qkvo"}
        found |= {f"{at}mlp.{name}_proj": getattr(fed, name).weight for name in ("gate", "up", "down")}
        found |= {f"{at}input_layernorm": block.norm_1.weight, f"{at}post_attention_layernorm": block.norm_2.weight}
    model.load_state_dict({f"{name}.weight": torch.from_numpy(np.array(array)) for name, array in found.items()})
    return model.eval()


def _writing(model: Any, numbers: list[int], ends: list[int]) -> Call:
    given = torch.tensor([numbers])
    options = {"max_new_tokens": WRITTEN, "do_sample": False, "pad_token_id": ends[0], "eos_token_id": ends}
    mask = torch.ones_like(given)
    return Call(
        lambda: model.generate(given, attention_mask=mask, **options), lambda whole: {"tokens": whole[0].numpy()}
    )


def _batch(numbers: list[list[int]]) -> dict[str, Any]:
    longest = max(map(len, numbers))
    ids = torch.tensor([one + [0] * (longest - len(one)) for one in numbers])
    mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in numbers])
    return {"input_ids": ids, "attention_mask": mask}


def _embedded(body: Any, numbers: list[list[int]], size: int = 32) -> Any:
    """As sentence-transformers does it: sorted by length, in batches, mean and length 1."""
    order = sorted(range(len(numbers)), key=lambda text: len(numbers[text]))
    vectors = torch.empty(len(numbers), body.config.hidden_size)
    for start in range(0, len(order), size):
        some = order[start : start + size]
        batch = _batch([numbers[text] for text in some])
        vectors[some] = _means(body(**batch).last_hidden_state, batch["attention_mask"])
    return torch.nn.functional.normalize(vectors).numpy()


def _means(states: Any, mask: Any) -> Any:
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
