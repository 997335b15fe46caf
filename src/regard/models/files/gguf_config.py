"""GGUF metadata in the hub's words: names of tensors, settings as in config.json, and the tokeniser."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from regard.errors import unsupported
from regard.models import tokens
from regard.models.errors import broken
from regard.validate import is_integer

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
# Settings that are not supported, and the value that has no effect.
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
CORRECTIONS = "rope_freqs.weight"  # divisors of the RoPE frequencies, in files of Llama 3.1 and later
# Pre-tokenisation before BPE, by the name in the metadata: contractions, words with the space or symbol before them,
# digits, symbols, white space. The families differ in how many digits stay together.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{DIGITS}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CUTS = {"llama-bpe": "{1,3}", "llama3": "{1,3}", "llama-v3": "{1,3}", "qwen2": ""}
DIGITS_ALONE = ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone")
BYTE_LEVEL = ("gpt-2", "gpt2", "phi-2", "default")
CONTROL, USER_DEFINED = 3, 4


def architecture_of(metadata: Mapping[str, Any], path: Path) -> str:
    """The architecture that the metadata names; unknown ones are refused."""
    name = metadata.get("general.architecture")
    if not isinstance(name, str):
        raise broken(path, "its metadata has no general.architecture")
    if name not in ARCHITECTURES:
        names = ", ".join(ARCHITECTURES)
        raise unsupported(
            f"Architecture {name[:40]!r} of {path}", f"Known in GGUF files are {names} (Mistral is llama)."
        )
    return name


def hub_names(names: Iterable[str], architecture: str, path: Path) -> dict[str, str]:
    """From the names of tensors on the hub to those in the file.

    >>> hub_names(["blk.3.attn_q.weight", "output_norm.weight"], "llama", Path("tiny.gguf"))
    {'model.layers.3.self_attn.q_proj.weight': 'blk.3.attn_q.weight', 'model.norm.weight': 'output_norm.weight'}
    """
    stored_names = {}
    for name in names:
        block = re.fullmatch(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)", name)
        other = re.fullmatch(r"(\w+)\.(weight|bias)", name)
        if block and block[2] in BLOCK_TENSORS:
            stored_names[f"model.layers.{int(block[1])}.{BLOCK_TENSORS[block[2]]}.{block[3]}"] = name
        elif other and other[1] in TENSORS:
            stored_names[f"{TENSORS[other[1]]}.{other[2]}"] = name
        elif name == CORRECTIONS:
            stored_names[name] = name
        else:
            raise unsupported(
                f"Tensor {name[:80]!r} of {path} in the architecture {architecture!r}",
                "Mixtures of experts and other extensions are not supported.",
            )
    return stored_names


def permuted(names: Iterable[str], metadata: Mapping[str, Any], architecture: str) -> dict[str, int]:
    """Tensors whose rows llama.cpp permutes, with their number of heads: W_q and W_k of Llama, not of Qwen."""
    if architecture != "llama":
        return {}
    queries = _heads(metadata, "llama.attention.head_count", 0)
    keys = _heads(metadata, "llama.attention.head_count_kv", queries)
    return {name: queries if ".q_proj." in name else keys for name in names if ".q_proj." in name or ".k_proj." in name}


def _heads(metadata: Mapping[str, Any], name: str, otherwise: int) -> int:
    came = metadata.get(name, otherwise)
    return came if is_integer(came) and came > 0 else 0


def config_of(metadata: Mapping[str, Any], architecture: str, tensors: Iterable[str], path: Path) -> dict[str, Any]:
    """The metadata named as in config.json, with the defaults of llama.cpp for missing settings."""
    settings = {
        name: metadata[f"{architecture}.{stored}"]
        for name, stored in SETTINGS.items()
        if f"{architecture}.{stored}" in metadata
    }
    for name, value in settings.items():
        whole = name not in ("rms_norm_eps", "rope_theta")
        if not is_integer(value) and (whole or not isinstance(value, float)):
            stored = f"{architecture}.{SETTINGS[name]}"
            raise broken(path, f"its {stored} is {str(value)[:60]}; expected {'an integer' if whole else 'a number'}")
    for name in NEEDED:
        if name not in settings:
            raise broken(path, f"its metadata has no {architecture}.{SETTINGS[name]}")
    for stored, harmless in REFUSED.items():
        value = metadata.get(f"{architecture}.{stored}", harmless)
        if value != harmless:
            what = f"{architecture}.{stored} {str(value)[:40]} in {path}"
            raise unsupported(what, "Regard does not compute such models.")
    for name, stored in TOKENS.items():
        if is_integer(value := metadata.get(f"tokenizer.ggml.{stored}_token_id")):
            settings[name] = value
    heads, width = settings["num_attention_heads"], settings["hidden_size"]
    if heads < 1 or width < heads:
        raise broken(path, f"{heads} heads do not fit an embedding_length of {width}")
    settings.setdefault("num_key_value_heads", heads)
    settings.setdefault("head_dim", width // heads)
    if metadata.get(f"{architecture}.attention.value_length", settings["head_dim"]) != settings["head_dim"]:
        raise unsupported(
            f"An attention.value_length other than {settings['head_dim']} in {path}", "Both must be equal."
        )
    window, longest = (
        metadata.get(f"{architecture}.attention.sliding_window"),
        settings.get("max_position_embeddings", 0),
    )
    if window is not None and not (is_integer(window) and window >= longest > 0):
        raise unsupported(f"{architecture}.attention.sliding_window in {path}", "Regard does not compute such models.")
    settings.setdefault("rope_theta", 10000.0)
    # stored as float32: 9.99999974e-06 is 1e-05
    settings["rms_norm_eps"] = float(f"{settings['rms_norm_eps']:.6g}")
    tensors = frozenset(tensors)
    settings["tie_word_embeddings"] = "lm_head.weight" not in tensors
    settings["hidden_act"] = "silu"
    settings["model_type"] = architecture
    if CORRECTIONS in tensors:
        settings["rope_divisors"] = CORRECTIONS
    if scaling := _rope_scaling(metadata, architecture, path):
        settings["rope_scaling"] = scaling
    return settings


def _rope_scaling(metadata: Mapping[str, Any], architecture: str, path: Path) -> dict[str, Any] | None:
    scaling = {
        name.removeprefix(f"{architecture}.rope.scaling."): value
        for name, value in metadata.items()
        if name.startswith(f"{architecture}.rope.scaling.")
    }
    kind = scaling.pop("type", "none")
    if kind == "none":
        return None
    names = {"factor": "factor", "original_context_length": "original_max_position_embeddings"}
    scaling.pop("finetuned", None)
    if kind not in ("linear", "yarn") or scaling.keys() - names:
        more = ", ".join(sorted(scaling.keys() - names))
        raise unsupported(
            f"Rotary positions of type {str(kind)[:40]!r} {f'with {more[:120]} ' if more else ''}in {path}",
            "Supported are linear and yarn, with factor and original_context_length.",
        )
    return {"rope_type": kind} | {names[name]: value for name, value in scaling.items()}


# The tokeniser: vocabulary and merges from the metadata, built with `tokenizers`


def tokeniser(metadata: Mapping[str, Any], path: Path) -> tokens.Tokeniser:
    """The byte-level BPE tokeniser that the metadata describes."""
    library = tokens.library()
    model = metadata.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise unsupported(
            f"The tokeniser {str(model)[:40]!r} of {path}",
            "Supported is byte-level BPE (tokenizer.ggml.model gpt2); or use the folder with tokenizer.json.",
        )
    vocabulary = {token: number for number, token in enumerate(_strings(metadata, "tokens", path))}
    merges = [tuple(merge.split(" ")) for merge in _strings(metadata, "merges", path)]
    if wrong := next((merge for merge in merges if len(merge) != 2), None):
        raise broken(path, f"{' '.join(wrong)[:60]!r} in tokenizer.ggml.merges is not a pair of tokens")
    with tokens.trusted(path):
        engine = library.Tokenizer(library.models.BPE(vocabulary, merges))
    engine.pre_tokenizer = _pre_tokeniser(metadata.get("tokenizer.ggml.pre", "default"), library, path)
    engine.decoder = library.decoders.ByteLevel()
    kinds = metadata.get("tokenizer.ggml.token_type", [])
    named = list(vocabulary)
    if not isinstance(kinds, list) or len(kinds) > len(named):
        raise broken(path, "its tokenizer.ggml.token_type is not a list of one entry per token")
    engine.add_special_tokens([_added(library, named[n], True) for n, kind in enumerate(kinds) if kind == CONTROL])
    engine.add_tokens([_added(library, named[n], False) for n, kind in enumerate(kinds) if kind == USER_DEFINED])
    if metadata.get("tokenizer.ggml.add_bos_token", False):
        engine.post_processor = _with_bos(metadata.get("tokenizer.ggml.bos_token_id"), named, library, path)
    return tokens.of(engine, path)


def _strings(metadata: Mapping[str, Any], name: str, path: Path) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value) or not value:
        raise broken(path, f"its metadata has no tokenizer.ggml.{name}, a list of strings")
    if name == "tokens" and len(set(value)) < len(value):
        raise broken(path, "a token occurs twice in its tokenizer.ggml.tokens")
    return value


def _pre_tokeniser(name: Any, library: Any, path: Path) -> Any:
    kinds = library.pre_tokenizers
    if name in DIGITS_ALONE:
        return kinds.Sequence([kinds.Digits(individual_digits=True), kinds.ByteLevel(add_prefix_space=False)])
    if name in BYTE_LEVEL:
        return kinds.ByteLevel(add_prefix_space=False)
    if name in CUTS:
        pattern = library.Regex(_WORDS.replace("{DIGITS}", CUTS[name]))
        cut = kinds.Split(pattern, behavior="isolated")
        return kinds.Sequence([cut, kinds.ByteLevel(add_prefix_space=False, use_regex=False)])
    names = ", ".join([*DIGITS_ALONE, *BYTE_LEVEL, *CUTS])
    raise unsupported(f"The pre-tokeniser {str(name)[:40]!r} of {path}", f"Known are {names}.")


def _added(library: Any, token: str, special: bool) -> Any:
    return library.AddedToken(token, special=special, normalized=False)


def _with_bos(number: Any, named: list[str], library: Any, path: Path) -> Any:
    if type(number) is not int or not 0 <= number < len(named):
        raise broken(path, f"its tokenizer.ggml.bos_token_id is {str(number)[:40]}; there are {len(named)} tokens")
    first = named[number]
    return library.processors.TemplateProcessing(
        single=[first, "$A"], pair=[first, "$A", "$B:1"], special_tokens=[(first, number)]
    )
