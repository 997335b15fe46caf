"""Traces of layers: the steps before an attention, the attention, and the rest of the block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from regard import arrays, errors, validate
from regard.arrays import Array
from regard.layers import BlockStep, Decoder, Encoder, FeedForward, Heads, LayerNorm, MultiHead, RMSNorm, Transformer
from regard.layers.encoder import Attend
from regard.layers.token_inputs import token_ids, token_rows
from regard.masks import Mask
from regard.trace.attention_steps import as_step, several_sequences
from regard.trace.named_steps import Fed, Projection, Provenance, Step, Sum, Taken
from regard.trace.trace import Trace

Words = Sequence[Any] | None
Norm = LayerNorm | RMSNorm
Which = Literal["self", "cross"]
TOKENS = ("token", "width")
QUERIES = ("query", "width")


@dataclass(frozen=True, eq=False, kw_only=True)
class ExplainOptions:
    """What to explain: the query, the words and the mask."""

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
    parts: dict[str, Provenance] = field(default_factory=dict)


def of_multi_head(layer: MultiHead, x: Any, context: Any, options: ExplainOptions) -> Trace:
    """From tokens to the outputs of all heads, concatenated and through W_O."""
    before = _given(x, layer)
    heads = _attend(before, _context(context, layer), options)(layer, before.tokens)
    return _projected(heads.seen, layer, layer.output(heads.outputs))


def of_encoder(block: Encoder, x: Any, options: ExplainOptions) -> Trace:
    """A whole block: attention, feed-forward, residuals and norms."""
    return _whole_block(block, block.norm_2, _given(x, block.attention), options)


def of_decoder(
    block: Decoder, x: Any, memory: Any, which: Which, options: ExplainOptions, memory_mask: Mask | None
) -> Trace:
    """The self-attention, or the cross-attention and the rest of the block."""
    before = _given(x, block.attention)
    memory = None if block.cross is None else _context(memory, block.cross)
    return _decoder(block, before, memory, which, options, memory_mask)


def of_transformer(
    model: Transformer,
    tokens: Any,
    targets: Any,
    number: int,
    which: Which,
    options: ExplainOptions,
    masks: Sequence[Mask | None],
) -> Trace:
    """One block of a stack, encoders counted first; earlier blocks run without a trace."""
    blocks = (*model.encoders, *model.decoders)
    number = validate.index("block", number, len(blocks))  # encoders first, then decoders
    block, mask, target_mask, memory_mask = blocks[number], options.mask, *masks
    before = _embedded(model, tokens, False)
    if isinstance(block, Encoder):
        for earlier in model.encoders[:number]:
            before = replace(before, tokens=earlier(before.tokens, mask=mask))
        trace = _whole_block(block, block.norm_2, before, options)
    else:
        assert isinstance(block, Decoder)
        memory = None
        if model.encoders:
            memory = before.tokens
            for encoder in model.encoders:
                memory = encoder(memory, mask=mask)
            memory = memory if model.memory_norm is None else model.memory_norm(memory)
            if targets is None:
                raise errors.option("targets", None, "tokens for the decoders", "These decoders read targets.")
            before = _embedded(model, targets, True)
            options = replace(options, mask=target_mask, words=options.context_words, context_words=options.words)
        for decoder in model.decoders[: number - len(model.encoders)]:
            tokens = decoder(before.tokens, memory, mask=options.mask, memory_mask=memory_mask)
            before = replace(before, tokens=tokens)
        trace = _decoder(block, before, memory, which, options, memory_mask)
    return replace(trace, origin=replace(trace.origin, model=model, place=(number, which)))


# Steps before the attention


def _given(x: Any, layer: MultiHead) -> Before:
    x = as_step(_one_sequence(token_rows("x", x, layer.w_q.weight, layer.w_q.inputs)))
    return _taken(x, "embedding, as given", "as given")


def _taken(x: Array, formula: str, how: str) -> Before:
    return Before(x, (Step("embedding", x, TOKENS, formula),), {"embedding": Taken(how)})


def _context(context: Any, layer: MultiHead) -> Array | None:
    if context is None:
        return None
    return _one_sequence(token_rows("context", context, layer.w_k.weight, layer.w_k.inputs))


def _one_sequence(x: Array) -> Array:
    if x.ndim == 3 and x.shape[0] != 1:
        raise several_sequences(x.shape[0])
    return x[0] if x.ndim == 3 else x


def _embedded(model: Transformer, tokens: Any, of_targets: bool) -> Before:
    table = model.target_embedding if of_targets and model.target_embedding is not None else model.embedding
    numbers = token_ids(tokens, table.weight)
    numbers = numbers[0] if numbers.ndim == 2 and numbers.shape[0] == 1 else numbers
    if numbers.ndim != 1:
        raise several_sequences(numbers.shape[0] if numbers.ndim else 0)
    scale = model.embedding_scale
    times = "" if scale == 1.0 else f" · {scale:.4g}"
    embedding_steps = {name: as_step(value) for name, value in model.embedding_steps(numbers, 0, table, separate=True)}
    embedding = embedding_steps["embedding"]
    steps = [Step("embedding", embedding, TOKENS, f"embedding = the token's row of the table{times}")]
    parts: dict[str, Provenance] = {"embedding": Taken(f"the token's row of the table{times}")}
    x = embedding
    if model.positions is not None or model.embedding_norm is not None:
        positioned = embedding_steps.get("positioned", embedding)
        x = embedding_steps.get("normed", positioned)
        formula = "embedding + position" if model.positions is not None else "embedding"
        formula = formula if model.embedding_norm is None else f"norm({formula})"
        steps.append(Step("positioned", x, TOKENS, f"positioned = {formula}"))
        parts["positioned"] = Sum(embedding, positioned - embedding, model.embedding_norm)
    return Before(x, tuple(steps), parts)


# Attention and projections


def _attend(before: Before, context: Array | None, options: ExplainOptions, normed: bool = False) -> Attend:
    """A function that computes the attention of a block as a trace up to the concatenated outputs."""

    def attend(layer: MultiHead, x: Array) -> Heads:
        attention, values = layer.attention(x, context, mask=options.mask, offset=options.offset)
        words, query_words = (options.words, None) if context is None else (options.context_words, options.words)
        if context is not None and query_words is None:
            query_words = range(x.shape[0])
        trace = attention.explain(values, options.query, words, query_words=query_words).noted(options.note)
        rows = slice(trace.first_query, trace.first_query + len(trace.query_words))
        name = "norm(x)" if normed else "x"
        source = (x, name) if context is None else (context, "context")
        parts, formulas = _projections(layer, x[rows], name, *source)
        steps = [replace(step, formula=formulas.get(step.name, step.formula)) for step in trace.steps]
        joined = as_step(arrays.cast(layer.concatenate(steps[-1].array), x.dtype))
        formula = "concatenated = the outputs of all heads, side by side"
        steps = [*before.steps, *steps, Step("concatenated", joined, QUERIES, formula)]
        origin = replace(trace.origin, parts={**before.parts, **parts})
        trace = replace(trace, steps=tuple(steps), origin=origin)
        return Heads(joined, trace, rows)

    return attend


def _projected(trace: Trace, layer: MultiHead, projected: Array) -> Trace:
    """With W_O's result; without W_O, the concatenated outputs are the result."""
    if layer.w_o is None:
        return trace
    shift = "" if layer.w_o.bias is None else " + b_O"
    step = Step("projected", as_step(projected), QUERIES, f"projected = concatenated · W_O{shift}")
    return _with(trace, step, Projection(trace.steps[-1].array, layer.w_o, "O"))


def _projections(
    layer: MultiHead, rows: Array, rows_called: str, context: Array, context_called: str
) -> tuple[dict[str, Provenance], dict[str, str]]:
    """What q, k and v were computed from, and their formulas."""
    parts: dict[str, Provenance] = {}
    formulas = {}
    for name, source, called, linear, norm, heads in (
        ("query", rows, rows_called, layer.w_q, layer.q_norm, layer.heads),
        ("key", context, context_called, layer.w_k, layer.k_norm, layer.groups),
        ("value", context, context_called, layer.w_v, None, layer.groups),
    ):
        letter, is_turned = name[0], layer.rotary is not None and name != "value"
        formula = f"{called} · W_{letter}" + ("" if linear.bias is None else f" + b_{letter}")
        formula = formula if norm is None else f"norm({formula})"
        if is_turned:
            formula = f"rotated by its position({formula})" if norm is None else f"rotated by its position {formula}"
        formulas[name] = f"{letter} = {formula}"
        then = ["normed"] * (norm is not None) + ["rotated by its position"] * is_turned
        parts[name] = Projection(source, linear, letter, heads, layer.heads // heads, " and ".join(then))
    return parts, formulas


def _feeding(layer: FeedForward, x: str) -> str:
    up, down = ("" if part.bias is None else f" + b_{number}" for number, part in ((1, layer.up), (2, layer.down)))
    if layer.gate is not None:
        return f"({layer.activation}({x} · W_g) · ({x} · W_1{up})) · W_2{down}"
    return f"{layer.activation}({x} · W_1{up}) · W_2{down}"


def _with(trace: Trace, step: Step, part: Provenance) -> Trace:
    origin = replace(trace.origin, parts={**trace.origin.parts, step.name: part})
    return replace(trace, steps=(*trace.steps, step), origin=origin)


# Blocks


def _observed(
    steps: Iterator[BlockStep], layer: MultiHead, x: Array, norm: Norm, block: Encoder | Decoder, last_norm: Norm | None
) -> Trace:
    """The steps of a block as a trace, from those of one attention on; without `last_norm`, up to its residual."""
    trace: Any = None
    residual: Any = None
    cross = "cross_" if isinstance(block, Decoder) and layer is block.cross else ""
    first = block.norm_first
    for name, value in steps:
        if name == f"{cross}heads":
            trace, residual = value.seen, x[value.rows]
        elif name == f"{cross}projected":
            trace = _projected(trace, layer, value)
        elif name == f"{cross}attended":
            last = trace.steps[-1]
            formula = f"x + {last.name}" if first else f"norm(x + {last.name})"
            step = Step("attended", as_step(value), QUERIES, f"attended = {formula}")
            trace = _with(trace, step, Sum(residual, last.array, None if first else norm))
            if last_norm is None:
                break
        elif name == "feed_input":
            residual, fed = trace.steps[-1].array, value
        elif name == "fed_forward":
            formula = _feeding(block.feed_forward, "norm(attended)" if first else "attended")
            step = Step("fed_forward", as_step(value), QUERIES, f"fed forward = {formula}")
            trace = _with(trace, step, Fed(fed, block.feed_forward))
        elif name == "result":
            formula = "attended + fed forward" if first else "norm(attended + fed forward)"
            part = Sum(residual, trace.steps[-1].array, None if first else last_norm)
            trace = _with(trace, Step("result", as_step(value), QUERIES, f"result = {formula}"), part)
    return cast("Trace", trace)


def _whole_block(block: Encoder | Decoder, last_norm: Norm | None, before: Before, options: ExplainOptions) -> Trace:
    x = before.tokens
    steps = block.observe(x, attend=_attend(before, None, options, block.norm_first), separate=True)
    return _observed(steps, block.attention, x, block.norm_1, block, last_norm)


def _decoder(
    block: Decoder,
    before: Before,
    memory: Array | None,
    which: Which,
    options: ExplainOptions,
    memory_mask: Mask | None,
) -> Trace:
    validate.choice("which", which, ("self", "cross"))
    if block.cross is None or block.norm_2 is None:
        if which == "cross":
            raise errors.option("which", which, '"self"', "This decoder has no cross-attention.")
        return _whole_block(block, block.norm_3, before, options)
    if which == "self":
        return _whole_block(block, None, before, options)
    if memory is None:
        raise errors.option("memory", None, "the output of an encoder", "This decoder has cross-attention.")
    steps = block.observe(before.tokens, memory, mask=options.mask, offset=options.offset, separate=True)
    x = as_step(next(value for name, value in steps if name == "attended"))
    before = _taken(x, "output of the self-attention", "output of the self-attention")
    options = replace(options, mask=memory_mask, offset=None)
    crossing = block.cross_steps(x, _attend(before, memory, options, block.norm_first), separate=True)
    return _observed(crossing, block.cross, x, block.norm_2, block, block.norm_3)
