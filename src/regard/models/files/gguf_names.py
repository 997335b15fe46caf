"""GGUF's names for tensors and settings, and the hub's: one table each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.errors import unsupported
from regard.models.errors import broken

ARCHITECTURES = ("llama", "qwen2", "qwen3")
TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
BLOCK_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SETTINGS = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "intermediate_size": "feed_forward_length",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "rope_theta": "rope.freq_base",
    "head_dim": "attention.key_length",
    "rope_dimension_count": "rope.dimension_count",
    "vocab_size": "vocab_size",
}
NEEDED = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "rms_norm_eps")
# Settings that change what is computed, and the value at which they do not.
REFUSED = {
    "expert_count": 0,
    "attention.causal": True,
    "attention.scale": 0.0,
    "attention.clamp_kqv": 0.0,
    "attention.max_alibi_bias": 0.0,
    "attn_logit_softcapping": 0.0,
    "final_logit_softcapping": 0.0,
    "embedding_scale": 1.0,
    "residual_scale": 1.0,
    "logit_scale": 1.0,
    "rope.scale_linear": 1.0,
}
TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding", "unk_token_id": "unknown"}
CORRECTIONS = "rope_freqs.weight"  # divisors of the RoPE frequencies, a tensor in files of Llama 3.1 and later


def architecture_of(metadata: Mapping[str, Any], path: Path) -> str:
    """What the file says it is, if that is known."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise broken(path, "its metadata has no general.architecture")
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise unsupported(
            f"Architecture {name[:40]!r} of {path}", f"Known in GGUF files are {known} (Mistral is llama)."
        )
    return name


def hub_names(names: Iterable[str], architecture: str, path: Path) -> dict[str, str]:
    """The hub's name of every tensor, and the file's.

    >>> hub_names(["blk.3.attn_q.weight", "output_norm.weight"], "llama", Path("tiny.gguf"))
    {'model.layers.3.self_attn.q_proj.weight': 'blk.3.attn_q.weight', 'model.norm.weight': 'output_norm.weight'}
    """
    found = {}
    for name in names:
        block = re.fullmatch(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)", name)
        other = re.fullmatch(r"(\w+)\.(weight|bias)", name)
        if block and block[2] in BLOCK_TENSORS:
            found[f"model.layers.{int(block[1])}.{BLOCK_TENSORS[block[2]]}.{block[3]}"] = name
        elif other and other[1] in TENSORS:
            found[f"{TENSORS[other[1]]}.{other[2]}"] = name
        elif name == CORRECTIONS:
            found[name] = name
        else:
            raise unsupported(
                f"Tensor {name[:80]!r} of {path} in the architecture {architecture!r}",
                "Mixtures of experts and other extensions are not read.",
            )
    return found


def turned(names: Iterable[str], metadata: Mapping[str, Any], architecture: str) -> dict[str, int]:
    """Tensors whose rows llama.cpp reorders, with their heads: Q and K of Llama, not those of Qwen."""
    if architecture != "llama":
        return {}
    queries = _heads(metadata, "llama.attention.head_count", 0)
    keys = _heads(metadata, "llama.attention.head_count_kv", queries)
    return {name: queries if ".q_proj." in name else keys for name in names if ".q_proj." in name or ".k_proj." in name}


def _heads(metadata: Mapping[str, Any], name: str, otherwise: int) -> int:
    came = metadata.get(name, otherwise)
    return came if type(came) is int and came > 0 else 0


def config(metadata: Mapping[str, Any], architecture: str, tensors: Iterable[str], path: Path) -> dict[str, Any]:
    """The metadata in the words of a config.json, with the defaults of llama.cpp for what is left out."""
    found = {
        name: metadata[f"{architecture}.{stored}"]
        for name, stored in SETTINGS.items()
        if f"{architecture}.{stored}" in metadata
    }
    for name, value in found.items():
        whole = name not in ("rms_norm_eps", "rope_theta")
        if type(value) is not int and (whole or type(value) is not float):
            stored = f"{architecture}.{SETTINGS[name]}"
            raise broken(
                path, f"its {stored} is {str(value)[:60]}, and one {'whole ' if whole else ''}number was expected"
            )
    for name in NEEDED:
        if name not in found:
            raise broken(path, f"its metadata has no {architecture}.{SETTINGS[name]}")
    for stored, harmless in REFUSED.items():
        value = metadata.get(f"{architecture}.{stored}", harmless)
        if value != harmless:
            what = f"{architecture}.{stored} {str(value)[:40]} in {path}"
            raise unsupported(what, "Such a model cannot be read yet.")
    for name, stored in TOKENS.items():
        if type(value := metadata.get(f"tokenizer.ggml.{stored}_token_id")) is int:
            found[name] = value
    heads, width = found["num_attention_heads"], found["hidden_size"]
    if heads < 1 or width < heads:
        raise broken(path, f"{heads} heads cannot share an embedding_length of {width}")
    found.setdefault("num_key_value_heads", heads)
    found.setdefault("head_dim", width // heads)
    if metadata.get(f"{architecture}.attention.value_length", found["head_dim"]) != found["head_dim"]:
        raise unsupported(f"An attention.value_length other than {found['head_dim']} in {path}", "Both must be equal.")
    window, longest = metadata.get(f"{architecture}.attention.sliding_window"), found.get("max_position_embeddings", 0)
    if window is not None and not (type(window) is int and window >= longest > 0):
        raise unsupported(f"{architecture}.attention.sliding_window in {path}", "Such a model cannot be read yet.")
    found.setdefault("rope_theta", 10000.0)
    # written as float32: 9.99999974e-06 was 1e-05
    found["rms_norm_eps"] = float(f"{found['rms_norm_eps']:.6g}")
    tensors = frozenset(tensors)
    found["tie_word_embeddings"] = "lm_head.weight" not in tensors
    found["hidden_act"] = "silu"
    found["model_type"] = architecture
    if CORRECTIONS in tensors:
        found["rope_divisors"] = CORRECTIONS
    if scaling := _rope_scaling(metadata, architecture, path):
        found["rope_scaling"] = scaling
    return found


def _rope_scaling(metadata: Mapping[str, Any], architecture: str, path: Path) -> dict[str, Any] | None:
    told = {
        name.removeprefix(f"{architecture}.rope.scaling."): value
        for name, value in metadata.items()
        if name.startswith(f"{architecture}.rope.scaling.")
    }
    kind = told.pop("type", "none")
    if kind == "none":
        return None
    names = {"factor": "factor", "original_context_length": "original_max_position_embeddings"}
    told.pop("finetuned", None)
    if kind not in ("linear", "yarn") or told.keys() - names:
        more = ", ".join(sorted(told.keys() - names))
        raise unsupported(
            f"Rotary positions of type {str(kind)[:40]!r} {f'with {more[:120]} ' if more else ''}in {path}",
            "linear and yarn are read, with a factor and an original_context_length.",
        )
    return {"rope_type": kind} | {names[name]: value for name, value in told.items()}
