"""Tiny random models of many architectures: what they are built from, what they read, and how well watching them agrees
with transformers' eager attention. `docs/survey_watch.py` asks the same of all models of transformers' own tests.
"""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

VOCABULARY, WIDTH, HEADS, TOKENS = 67, 32, 4, 11
TEXT = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 2,
    "num_attention_heads": HEADS, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
GROUPED = {**TEXT, "num_key_value_heads": 2}
HEAD_DIM = {**GROUPED, "head_dim": 8}
SEQUENCES = {
    "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
VISION = {
    "hidden_size": WIDTH, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": HEADS,
    "image_size": 12, "patch_size": 4,
}  # fmt: skip
MIXTURE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


@dataclass(frozen=True)
class Architecture:
    """One kind of model: the name of its configuration, what differs from it, what it reads."""

    name: str
    kind: str  # as AutoConfig knows it
    options: dict[str, Any]
    reads: str = "text"  # text, pair, image, both, audio
    auto: str = "AutoModel"


ARCHITECTURES = (
    Architecture("BERT", "bert", TEXT),
    Architecture("RoBERTa", "roberta", TEXT),
    Architecture("DistilBERT", "distilbert", {"vocab_size": VOCABULARY, "dim": WIDTH, "hidden_dim": 40, "n_layers": 2, "n_heads": HEADS}),
    Architecture("ALBERT", "albert", {**TEXT, "embedding_size": 16, "num_hidden_layers": 3}),
    Architecture("ELECTRA", "electra", {**TEXT, "embedding_size": 16}),
    Architecture("CamemBERT", "camembert", TEXT),
    Architecture("XLM-RoBERTa", "xlm-roberta", TEXT),
    Architecture("ERNIE", "ernie", TEXT),
    Architecture("ModernBERT", "modernbert", {**TEXT, "local_attention": 6, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2}),
    Architecture("GPT-2", "gpt2", {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "n_positions": 64}),
    Architecture("GPT-NeoX", "gpt_neox", TEXT),
    Architecture("OPT", "opt", {**TEXT, "ffn_dim": 40, "word_embed_proj_dim": WIDTH}),
    Architecture("Llama", "llama", GROUPED),
    Architecture("Phi", "phi", GROUPED),
    Architecture("Phi-3", "phi3", GROUPED),
    Architecture("Qwen2", "qwen2", GROUPED),
    Architecture("Qwen2-MoE", "qwen2_moe", {**GROUPED, **MIXTURE, "shared_expert_intermediate_size": 24}),
    Architecture("Qwen3", "qwen3", HEAD_DIM),
    Architecture("Qwen3-MoE", "qwen3_moe", {**HEAD_DIM, **MIXTURE}),
    Architecture("Mistral (sliding window)", "mistral", {**HEAD_DIM, "sliding_window": 4}),
    Architecture("Mixtral", "mixtral", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    Architecture("Gemma", "gemma", HEAD_DIM),
    Architecture("Gemma 2 (soft cap)", "gemma2", {**HEAD_DIM, "sliding_window": 4, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 8}),
    Architecture("Gemma 3", "gemma3_text", {**HEAD_DIM, "sliding_window": 4, "query_pre_attn_scalar": 8, "layer_types": ["sliding_attention", "full_attention"]}),
    Architecture("GPT-OSS (sinks)", "gpt_oss", {**HEAD_DIM, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4}),
    Architecture("DeepSeek-V3 (latent attention)", "deepseek_v3", {
        **GROUPED, "num_key_value_heads": HEADS, "q_lora_rank": 12, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6,
        "v_head_dim": 5, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "moe_intermediate_size": 24,
        "first_k_dense_replace": 1,
    }),
    Architecture("Cohere", "cohere", GROUPED),
    Architecture("Cohere 2", "cohere2", {**GROUPED, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    Architecture("OLMo", "olmo", GROUPED),
    Architecture("OLMo 2", "olmo2", GROUPED),
    Architecture("StarCoder 2", "starcoder2", GROUPED),
    Architecture("StableLM", "stablelm", GROUPED),
    Architecture("Granite", "granite", {**GROUPED, "attention_multiplier": 0.3}),
    Architecture("GLM", "glm", HEAD_DIM),
    Architecture("Helium", "helium", HEAD_DIM),
    Architecture("SmolLM3", "smollm3", GROUPED),
    Architecture("T5 (bias by distance)", "t5", {
        "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": HEADS,
        "decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
    }, "pair"),
    Architecture("mT5", "mt5", {
        "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": HEADS,
        "decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
    }, "pair"),
    Architecture("BART", "bart", SEQUENCES, "pair"),
    Architecture("Marian", "marian", SEQUENCES, "pair"),
    Architecture("PEGASUS", "pegasus", SEQUENCES, "pair"),
    Architecture("mBART", "mbart", SEQUENCES, "pair"),
    Architecture("Whisper", "whisper", {
        **{name: size for name, size in SEQUENCES.items() if name != "max_position_embeddings"},
        "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
    }, "audio"),
    Architecture("wav2vec 2", "wav2vec2", {
        **TEXT, "conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 4), "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    }, "sound"),
    Architecture("ViT", "vit", VISION, "image"),
    Architecture("DeiT", "deit", VISION, "image"),
    Architecture("DINOv2", "dinov2", VISION, "image"),
    Architecture("BEiT", "beit", VISION, "image"),
    Architecture("CLIP", "clip", {"text_config": TEXT, "vision_config": VISION, "projection_dim": 16}, "clip"),
    Architecture("SigLIP", "siglip", {"text_config": TEXT, "vision_config": VISION}, "clip"),
    Architecture("LLaVA", "llava", {"text_config": {"model_type": "llama", **GROUPED}, "vision_config": {"model_type": "clip_vision_model", **VISION}, "image_token_index": 66, "image_token_id": 66}, "llava"),
    Architecture("PaliGemma", "paligemma", {"text_config": {"model_type": "gemma", **HEAD_DIM}, "vision_config": {"model_type": "siglip_vision_model", **VISION}, "image_token_index": 66, "image_token_id": 66, "projection_dim": WIDTH, "hidden_size": WIDTH}, "llava"),
    Architecture("Blip-2", "blip-2", {
        "vision_config": VISION, "qformer_config": {**TEXT, "encoder_hidden_size": WIDTH, "cross_attention_frequency": 1},
        "text_config": {"model_type": "opt", **TEXT, "ffn_dim": 40, "word_embed_proj_dim": WIDTH}, "num_query_tokens": 5, "image_token_index": 66, "image_text_hidden_size": 16,
    }, "blip2", "Blip2ForConditionalGeneration"),
    Architecture("Qwen2-VL", "qwen2_vl", {
        "text_config": {**GROUPED, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}},
        "vision_config": {"depth": 2, "embed_dim": WIDTH, "hidden_size": WIDTH, "num_heads": HEADS, "mlp_ratio": 2, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3},
        "image_token_id": 66, "video_token_id": 65, "vision_start_token_id": 64, "vision_end_token_id": 63,
    }, "qwen2_vl"),
)  # fmt: skip


def build(architecture: Architecture, implementation: str = "sdpa") -> Any:
    """A model with random weights that are large enough for attention to be far from uniform."""
    import transformers

    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(architecture.kind, **architecture.options)
    maker = getattr(transformers, architecture.auto)
    make = maker.from_config if architecture.auto.startswith("Auto") else maker._from_config
    try:
        model = make(config, attn_implementation=implementation).eval()
    except ValueError:  # no fused attention: GPT-OSS
        model = make(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2 and "norm" not in name.lower():
                weight.normal_(0, 0.25)
            elif "sinks" in name:
                weight.normal_(0, 1)
    return model


def inputs_of(architecture: Architecture, batch: int = 2) -> dict[str, Any]:
    """What the model reads: two sequences, the first one padded where it reads text."""
    made = torch.Generator().manual_seed(3)

    def tokens(count: int) -> torch.Tensor:
        return torch.randint(3, 60, (batch, count), generator=made)

    def image(size: int = 12) -> torch.Tensor:
        return torch.randn(batch, 3, size, size, generator=made)

    def padding(count: int, padded: int) -> torch.Tensor:
        mask = torch.ones(batch, count, dtype=torch.int64)
        mask[0, count - padded :] = 0
        return mask

    if architecture.reads == "text":
        return {"input_ids": tokens(TOKENS), "attention_mask": padding(TOKENS, 3)}
    if architecture.reads == "pair":
        return {"input_ids": tokens(TOKENS), "attention_mask": padding(TOKENS, 3), "decoder_input_ids": tokens(7)}
    if architecture.reads == "audio":
        return {"input_features": torch.randn(batch, 8, 32, generator=made), "decoder_input_ids": tokens(7)}
    if architecture.reads == "sound":
        return {"input_values": torch.randn(batch, 400, generator=made)}
    if architecture.reads == "image":
        return {"pixel_values": image()}
    if architecture.reads == "clip":
        return {"input_ids": tokens(TOKENS), "attention_mask": padding(TOKENS, 3), "pixel_values": image()}
    if architecture.reads == "qwen2_vl":
        ids = tokens(TOKENS)
        ids[:, 2:6] = 66
        ids[:, 1] = 64
        patches = torch.randn(batch * 16, 3 * 2 * 16, generator=made)
        return {
            "input_ids": ids, "attention_mask": padding(TOKENS, 3), "pixel_values": patches,
            "image_grid_thw": torch.tensor([[1, 4, 4]] * batch), "mm_token_type_ids": (ids == 66).long(),
        }  # fmt: skip
    ids = tokens(TOKENS + 9)
    count = 5 if architecture.reads == "blip2" else 9
    ids[:, 1 : 1 + count] = 66
    mask = padding(TOKENS + 9, 3)
    found = {"input_ids": ids, "attention_mask": mask, "pixel_values": image()}
    if architecture.kind == "paligemma":
        found["token_type_ids"] = torch.zeros_like(ids)
    return found


@dataclass
class Agreement:
    """The largest differences from eager attention, outputs relative to their largest number."""

    output: float
    weights: float
    layers: int  # whose weights were compared
    cross: int
    peak: float  # mean largest weight: far above 1 / keys, so that the comparison means something


def agreement(architecture: Architecture, keep: str = "all") -> Agreement:
    """Watch a model and compare with its eager attention."""
    import regard

    model, inputs = build(architecture), inputs_of(architecture)
    own = model.config._attn_implementation
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with regard.watch(model, keep=keep) as seen:
            watched = model(**inputs)
        assert model.config._attn_implementation == own
        model.set_attn_implementation("eager")
        with weights_of_eager(model) as truth:
            expected = model(**inputs)
    real = inputs.get("attention_mask")
    output = difference(_main(watched), _main(expected), real if "decoder_input_ids" not in inputs else None)
    worst, compared, cross, peaks = 0.0, 0, 0, []
    for layer in seen:
        if keep != "all":
            continue
        attention = layer.attention
        if layer.name not in truth:  # a pooling head that calls PyTorch's own attention: the output it used is known
            worst = max(worst, float((attention @ layer.values - layer.output).abs().max()))
            continue
        dense, parts = attention.dense(), truth[layer.name]
        weights = parts[0]
        if len(parts) > 1:  # images of one sequence, each of which sees itself
            weights, at = torch.zeros_like(dense), 0
            for part in parts:
                size = part.shape[-1]
                weights[:, :, at : at + size, at : at + size] = part
                at += size
        queries = _real_rows(layer, real)
        worst = max(worst, float((dense - weights).abs()[queries].max()))
        peaks.append(float(dense.amax(-1).mean()))
        compared, cross = compared + (not layer.cross), cross + layer.cross
    return Agreement(output, worst, compared, cross, sum(peaks) / max(len(peaks), 1))


def _real_rows(layer: Any, real: torch.Tensor | None) -> Any:
    """An index of the rows of real queries, (batch, head, query, key) → rows."""
    call = layer.runs[-1].calls[0]
    batch, heads, queries = call.queries.shape[:3]
    if real is None or layer.cross or queries != real.shape[1] or batch != real.shape[0]:
        return slice(None)
    return real.bool()[:, None].expand(batch, heads, queries)


class weights_of_eager:
    """The weights that every attention module returned, by name: hooks on modules that return (output, weights)."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __enter__(self) -> dict[str, list[torch.Tensor]]:
        found: dict[str, list[torch.Tensor]] = {}
        names = {id(module): name for name, module in self.model.named_modules()}
        self.patched = []
        forwards: dict[int, int] = {}

        def entering(module: Any, args: Any) -> None:
            forwards[id(module)] = forwards.get(id(module), 0) + 1

        self.hooks = [module.register_forward_pre_hook(entering) for module in self.model.modules()]
        files = {type(module).__module__ for module in self.model.modules()}
        for name in files:
            file = sys.modules.get(name)
            eager: Callable[..., Any] | None = getattr(file, "eager_attention_forward", None)
            if eager is None:
                continue

            def recording(module: Any, *args: Any, _eager: Any = eager, **kwargs: Any) -> Any:
                output, weights = _eager(module, *args, **kwargs)
                name = names[id(module)]
                again = forwards.get(id(module), 1) - 1
                name = name if not again else f"{name} (call {again + 1})"
                found.setdefault(name, []).append(weights)
                return output, weights

            self.patched.append((file, eager))
            setattr(file, "eager_attention_forward", recording)  # noqa: B010 - of a module that has it
        return found

    def __exit__(self, *problem: Any) -> None:
        for file, eager in self.patched:
            setattr(file, "eager_attention_forward", eager)  # noqa: B010
        for hook in self.hooks:
            hook.remove()


def _main(output: Any) -> torch.Tensor:
    for name in ("logits", "last_hidden_state", "logits_per_image"):
        if getattr(output, name, None) is not None:
            return getattr(output, name)
    raise AssertionError(f"no main output among {list(output)}")


def difference(one: torch.Tensor, other: torch.Tensor, real: torch.Tensor | None) -> float:
    """The largest difference at real tokens, relative to the largest number."""
    apart = (one - other).abs()
    if real is not None and apart.shape[:2] == real.shape:
        apart, other = apart[real.bool()], other[real.bool()]
    return float(apart.max() / other.abs().max())
