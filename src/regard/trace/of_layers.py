"""Traces of layers: what comes before an attention, and what becomes of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from regard import arrays, errors, validate
from regard.arrays import Array
from regard.layers import Decoder, Encoder, FeedForward, LayerNorm, MultiHead, RMSNorm, Transformer
from regard.layers import inputs as of_layers
from regard.masks import Mask
from regard.trace.attention_steps import as_step, explain, several_sequences
from regard.trace.provenance import Fed, Projection, Provenance, Sum, Taken
from regard.trace.trace import Step, Trace

Words = Sequence[Any] | None
Norm = LayerNorm | RMSNorm
Which = Literal["self", "cross"]
TOKENS = ("token", "width")
QUERIES = ("query", "width")


@dataclass(frozen=True, eq=False, kw_only=True)
class Asked:
    """What somebody wants to have explained, and with which words."""

    query: Any = None
    words: Words = None  # of the tokens
    context_words: Words = None  # of the context, where there is one
    mask: Mask | None = None
    offset: Any = None
    note: str | None = None


@dataclass(frozen=True, eq=False)
class Before:
    """The steps from words to the tokens that a layer gets."""

    tokens: Array  # (token, width)
    steps: tuple[Step, ...]
    recipes: dict[str, Provenance] = field(default_factory=dict)


def of_multi_head(layer: MultiHead, x: Any, context: Any, asked: Asked) -> Trace:
    """From tokens to the outputs of all heads, concatenated and through W_O."""
    before = _given(x, layer)
    return _attention(layer, before, before.tokens, _context(context, layer), asked)


def of_encoder(block: Encoder, x: Any, asked: Asked) -> Trace:
    """A whole block: attention, feed-forward, residuals and norms."""
    return _whole_block(block, block.norm_2, _given(x, block.attention), asked)


def of_decoder(block: Decoder, x: Any, memory: Any, which: Which, asked: Asked, memory_mask: Mask | None) -> Trace:
    """The attention to the tokens themselves, or the attention to the memory and the rest of the block."""
    before = _given(x, block.attention)
    memory = None if block.cross is None else _context(memory, block.cross)
    return _decoder(block, before, memory, which, asked, memory_mask)


def of_transformer(
    model: Transformer, tokens: Any, targets: Any, place: int, which: Which, asked: Asked, masks: Sequence[Mask | None]
) -> Trace:
    """One block of a stack, encoders counted first: what comes before it runs as always."""
    blocks = (*model.encoders, *model.decoders)
    place = validate.index("block", place, len(blocks))  # encoders first, then decoders
    block, mask, target_mask, memory_mask = blocks[place], asked.mask, *masks
    both = bool(model.encoders and model.decoders)
    before = _embedded(model, tokens, False)
    if isinstance(block, Encoder):
        for earlier in model.encoders[:place]:
            before = _moved_on(before, earlier(before.tokens, mask=mask))
        return _whole_block(block, block.norm_2, before, asked)
    memory = None
    if both:
        memory = before.tokens
        for encoder in model.encoders:
            memory = encoder(memory, mask=mask)
        memory = memory if model.memory_norm is None else model.memory_norm(memory)
        if targets is None:
            raise errors.option("targets", None, "tokens for the decoders", "These decoders read targets.")
        before = _embedded(model, targets, True)
        asked = replace(asked, mask=target_mask, words=asked.context_words, context_words=asked.words)
    for decoder in model.decoders[: place - len(model.encoders)]:
        before = _moved_on(before, decoder(before.tokens, memory, mask=asked.mask, memory_mask=memory_mask))
    assert isinstance(block, Decoder)
    return _decoder(block, before, memory, which, asked, memory_mask)


# What comes before


def _given(x: Any, layer: MultiHead) -> Before:
    x = as_step(_one_sequence(of_layers.sequence("x", x, layer.w_q.weight, layer.w_q.inputs)))
    return Before(x, (Step("embedding", x, TOKENS, "embedding, as given"),), {"embedding": Taken("as given")})


def _context(context: Any, layer: MultiHead) -> Array | None:
    if context is None:
        return None
    return _one_sequence(of_layers.sequence("context", context, layer.w_k.weight, layer.w_k.inputs))


def _one_sequence(x: Array) -> Array:
    if x.ndim == 3:
        if x.shape[0] != 1:
            raise several_sequences(x.shape[0])
        return x[0]
    return x


def _embedded(model: Transformer, tokens: Any, of_targets: bool) -> Before:
    table = model.target_embedding if of_targets and model.target_embedding is not None else model.embedding
    numbers = of_layers.numbers_of_tokens(tokens, table.weight)
    numbers = numbers[0] if numbers.ndim == 2 and numbers.shape[0] == 1 else numbers
    if numbers.ndim != 1:
        raise several_sequences(numbers.shape[0] if numbers.ndim else 0)
    scale = model.embedding_scale
    embedding = table(numbers)
    embedding = as_step(embedding if scale == 1.0 else embedding * scale)
    times = "" if scale == 1.0 else f" · {scale:.4g}"
    steps = [Step("embedding", embedding, TOKENS, f"embedding = the token's row of the table{times}")]
    recipes: dict[str, Provenance] = {"embedding": Taken(f"the token's row of the table{times}")}
    x = embedding
    if model.positions is not None or model.embedding_norm is not None:
        x = x if model.positions is None else model.positions(x)
        position = x - embedding
        x = as_step(x if model.embedding_norm is None else model.embedding_norm(x))
        formula = "embedding + position" if model.positions is not None else "embedding"
        formula = formula if model.embedding_norm is None else f"norm({formula})"
        steps.append(Step("positioned", x, TOKENS, f"positioned = {formula}"))
        recipes["positioned"] = Sum(embedding, position, model.embedding_norm)
    return Before(x, tuple(steps), recipes)


def _moved_on(before: Before, tokens: Array) -> Before:
    return replace(before, tokens=tokens)


# Attention, and what follows it


def _attention(
    layer: MultiHead, before: Before, x: Array, context: Array | None, asked: Asked, normed: bool = False
) -> Trace:
    """Attention of rows x, which are the tokens or their norm."""
    attention, values = layer.attention(x, context, mask=asked.mask, offset=asked.offset)
    words, query_words = (asked.words, None) if context is None else (asked.context_words, asked.words)
    if context is not None and query_words is None:
        query_words = range(x.shape[0])
    trace = explain(attention, values, asked.query, words, query_words=query_words, note=asked.note)
    rows = _rows(trace)
    steps = [*before.steps, *(_projected_step(step, layer, _called(step, normed, context)) for step in trace.steps)]
    recipes = {**before.recipes, **_projections(layer, x[rows], x if context is None else context)}
    joined = as_step(arrays.cast(layer.concatenate(steps[-1].array), x.dtype))
    formula = "concatenated = the outputs of all heads, side by side"
    steps.append(Step("concatenated", joined, QUERIES, formula))
    if layer.w_o is not None:
        shift = "" if layer.w_o.bias is None else " + b_O"
        formula = f"projected = concatenated · W_Oᵀ{shift}"
        steps.append(Step("projected", as_step(layer.w_o(joined)), QUERIES, formula))
        recipes["projected"] = Projection(joined, layer.w_o, "O")
    return replace(trace, steps=tuple(steps), origin=replace(trace.origin, parts=recipes))


def _called(step: Step, normed: bool, context: Array | None) -> str:
    """What a projection is of."""
    if context is not None and step.name != "query":
        return "context"
    return "norm(x)" if normed else "x"


def _rows(trace: Trace) -> slice:
    return slice(trace.first_query, trace.first_query + len(trace.query_words))


def _projected_step(step: Step, layer: MultiHead, x: str) -> Step:
    if step.name not in ("query", "key", "value"):
        return step
    letter = step.name[0]
    linear = {"q": layer.w_q, "k": layer.w_k, "v": layer.w_v}[letter]
    formula = f"{x} · W_{letter}ᵀ" + ("" if linear.bias is None else f" + b_{letter}")
    norm = {"q": layer.q_norm, "k": layer.k_norm, "v": None}[letter]
    formula = formula if norm is None else f"norm({formula})"
    if layer.rotary is not None and letter != "v":
        formula = f"turned by its position({formula})" if norm is None else f"turned by its position {formula}"
    return replace(step, formula=f"{letter} = {formula}")


def _projections(layer: MultiHead, x: Array, context: Array) -> dict[str, Provenance]:
    turned = ["turned by its position"] if layer.rotary is not None else []
    normed = {"q": layer.q_norm is not None, "k": layer.k_norm is not None}
    then = {letter: " and ".join(["normed"] * normed[letter] + turned) for letter in "qk"}
    shared = layer.heads // layer.groups
    return {
        "query": Projection(x, layer.w_q, "q", layer.heads, 1, then["q"]),
        "key": Projection(context, layer.w_k, "k", layer.groups, shared, then["k"]),
        "value": Projection(context, layer.w_v, "v", layer.groups, shared),
    }


def _add_and_norm(trace: Trace, x: Array, norm: Norm, norm_first: bool) -> Trace:
    """With the residual added, and normed where the norm comes after."""
    last = trace.steps[-1]
    rows = x[_rows(trace)]
    attended = rows + last.array
    formula = f"attended = x + {last.name}" if norm_first else f"attended = norm(x + {last.name})"
    attended = as_step(attended if norm_first else norm(attended))
    recipe = Sum(rows, last.array, None if norm_first else norm)
    return _with(trace, Step("attended", attended, QUERIES, formula), recipe)


def _feed(trace: Trace, layer: FeedForward, norm: Norm, norm_first: bool) -> Trace:
    """Through the feed-forward, with its residual and norm."""
    attended = trace.steps[-1].array
    rows = norm(attended) if norm_first else attended
    inner = "norm(attended)" if norm_first else "attended"
    fed = as_step(layer(rows))
    trace = _with(trace, Step("fed_forward", fed, QUERIES, f"fed forward = {_feeding(layer, inner)}"), Fed(rows, layer))
    result = attended + fed
    formula = "attended + fed forward" if norm_first else "norm(attended + fed forward)"
    result = as_step(result if norm_first else norm(result))
    recipe = Sum(attended, fed, None if norm_first else norm)
    return _with(trace, Step("result", result, QUERIES, f"result = {formula}"), recipe)


def _feeding(layer: FeedForward, x: str) -> str:
    up, down = ("" if part.bias is None else f" + b_{place}" for place, part in ((1, layer.up), (2, layer.down)))
    if layer.gate is not None:
        return f"({layer.activation}({x} · W_gᵀ) · ({x} · W_1ᵀ{up})) · W_2ᵀ{down}"
    return f"{layer.activation}({x} · W_1ᵀ{up}) · W_2ᵀ{down}"


def _with(trace: Trace, step: Step, recipe: Provenance) -> Trace:
    origin = replace(trace.origin, parts={**trace.origin.parts, step.name: recipe})
    return replace(trace, steps=(*trace.steps, step), origin=origin)


# Blocks


def _whole_block(block: Encoder | Decoder, last_norm: Norm, before: Before, asked: Asked) -> Trace:
    trace = _self_attention(block, before, asked)
    return _feed(trace, block.feed_forward, last_norm, block.norm_first)


def _self_attention(block: Encoder | Decoder, before: Before, asked: Asked) -> Trace:
    x = before.tokens
    trace = _attention(
        block.attention, before, block.norm_1(x) if block.norm_first else x, None, asked, block.norm_first
    )
    return _add_and_norm(trace, x, block.norm_1, block.norm_first)


def _decoder(
    block: Decoder, before: Before, memory: Array | None, which: Which, asked: Asked, memory_mask: Mask | None
) -> Trace:
    validate.choice("which", which, ("self", "cross"))
    if block.cross is None or block.norm_2 is None:
        if which == "cross":
            raise errors.option("which", which, '"self"', "This decoder has no cross attention.")
        return _whole_block(block, block.norm_3, before, asked)
    if which == "self":
        return _self_attention(block, before, asked)
    if memory is None:
        raise errors.option("memory", None, "what an encoder gave", "This decoder attends to an encoder's result.")
    x = as_step(_self_attention(block, before, replace(asked, query=None, words=None, note=None))["attended"])
    before = Before(
        x,
        (Step("embedding", x, TOKENS, "what the attention to the tokens themselves gave"),),
        {"embedding": Taken("what the attention to the tokens themselves gave")},
    )
    rows = block.norm_2(x) if block.norm_first else x
    asked = replace(asked, mask=memory_mask, offset=None)
    trace = _attention(block.cross, before, rows, memory, asked, block.norm_first)
    trace = _add_and_norm(trace, x, block.norm_2, block.norm_first)
    return _feed(trace, block.feed_forward, block.norm_3, block.norm_first)
