"""The edits as values: silence and scale heads, block edges, patch from another run; combined with `&`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from regard import errors, validate
from regard.edits.sources import Means, PatchSource, source_of
from regard.reading.edit import Edit, Head, Selector

What = Literal["outputs", "pattern", "values", "residual"]
WHAT: tuple[What, ...] = ("outputs", "pattern", "values", "residual")


# Heads


@dataclass(frozen=True, eq=False, repr=False)
class HeadEdit(Edit):
    """A change of the outputs of some heads."""

    heads: tuple[Head, ...]
    positions: Selector
    stack: str | None

    @property
    def layers(self) -> frozenset[int]:
        return frozenset(layer for layer, _ in self.heads)

    def heads_in(self, layer: int, count: int) -> list[int]:
        """The heads of one layer, which has `count`."""
        return heads_in(self.heads, layer, count)

    def selectors(self) -> Iterator[tuple[str, Selector]]:
        yield "positions", self.positions

    def _options(self) -> list[str]:
        parts = [str(head) for head in self.heads]
        parts += [] if self.positions is None else [f"positions={_shown(self.positions)}"]
        return parts + ([] if self.stack is None else [f"stack={self.stack!r}"])


@dataclass(frozen=True, eq=False, repr=False)
class SilenceEdit(HeadEdit):
    """Outputs replaced by zeros, by their mean over a corpus, or by those of another example."""

    to: Literal["zero", "resample"] | Means = "zero"
    seed: int = 0

    def __repr__(self) -> str:
        to = [] if self.to == "zero" else [f"to={self.to!r}"]
        to += [f"seed={self.seed}"] if self.to == "resample" else []
        return f"silence({', '.join([*self._options(), *to])})"


@dataclass(frozen=True, eq=False, repr=False)
class ScaleEdit(HeadEdit):
    """Outputs multiplied by a number."""

    factor: float = 1.0

    def __repr__(self) -> str:
        return f"scale({', '.join([*self._options(), f'factor={self.factor:g}'])})"


def silence(
    *heads: Any,
    to: Literal["zero", "resample"] | Means = "zero",
    seed: int = 0,
    positions: Any = None,
    stack: str | None = None,
) -> Edit:
    """Heads, given as (layer, head), that write nothing, or nothing of their own.

    to         "zero"; `mean_outputs(model, texts)`: each head's mean output over a corpus; "resample": the output of
               the same head for another example of the batch, at the same token index (the last token of a shorter
               one)
    seed       decides which example "resample" takes
    positions  only for these tokens: an index, a word such as "it" or "the:2", a range, or a list of these. Indices
               count the tokens of a text, padding left out; negative ones count from the end of the prompt
    stack      of a model with several stacks of layers: "encoder", "decoder", "cross", or a pattern of module names

    >>> silence((5, 2), (3, 1))
    silence((3, 1), (5, 2))
    """
    if not isinstance(to, Means):
        validate.choice("to", to, ("zero", "resample"))
    return SilenceEdit(_heads(heads), selector("positions", positions), stack, to, validate.integer("seed", seed, 0))


def scale(*heads: Any, factor: float, positions: Any = None, stack: str | None = None) -> Edit:
    """Heads, given as (layer, head), whose outputs are multiplied by a number.

    >>> scale((5, 2), factor=2)
    scale((5, 2), factor=2)
    """
    return ScaleEdit(_heads(heads), selector("positions", positions), stack, validate.number("factor", factor))


# Edges


@dataclass(frozen=True, eq=False, repr=False)
class LayersEdit(Edit):
    """A change in some heads, or in all heads of some layers, or everywhere."""

    heads: tuple[Head, ...] | None
    layers_given: tuple[int, ...] | range | None
    stack: str | None

    @property
    def layers(self) -> frozenset[int] | None:
        if self.heads is not None:
            return frozenset(layer for layer, _ in self.heads)
        return None if self.layers_given is None else frozenset(self.layers_given)

    def heads_in(self, layer: int, count: int) -> list[int]:
        """The heads of one layer, which has `count`."""
        return list(range(count)) if self.heads is None else heads_in(self.heads, layer, count)


@dataclass(frozen=True, eq=False, repr=False)
class BlockEdit(LayersEdit):
    """Pairs of query and key without attention."""

    queries: Selector
    keys: Selector
    pairs: tuple[tuple[Selector, Selector], ...] | None
    after_softmax: bool

    def selectors(self) -> Iterator[tuple[str, Selector]]:
        for queries, keys in self.pairs or [(self.queries, self.keys)]:
            yield from (("queries", queries), ("keys", keys))

    @cached_property
    def index_pairs(self) -> Any:
        """The pairs as integers (pair, 2), where all are single token indices; otherwise None."""
        pairs = self.pairs or ()
        is_index = all(end is not None and len(end) == 1 and isinstance(end[0], int) for pair in pairs for end in pair)
        return np.array([[query[0], key[0]] for query, key in pairs]) if pairs and is_index else None  # type: ignore[index]

    def __repr__(self) -> str:
        edges = [] if self.queries is None else [f"queries={_shown(self.queries)}"]
        edges += [] if self.keys is None else [f"keys={_shown(self.keys)}"]
        if self.pairs is not None:
            few = len(self.pairs) <= 4
            shown = ", ".join(f"({_shown(query)}, {_shown(key)})" for query, key in self.pairs[:4])
            edges = [f"pairs=[{shown}]" if few else f"pairs=[{len(self.pairs):,} pairs]"]
        edges += [] if self.layers_given is None else [f"layers={self.layers_given!r}"]
        edges += [] if self.heads is None else [f"heads={list(self.heads)}"]
        edges += [f"after_softmax={self.after_softmax}"]
        edges += [] if self.stack is None else [f"stack={self.stack!r}"]
        return f"block({', '.join(edges)})"


def block(
    *,
    queries: Any = None,
    keys: Any = None,
    pairs: Iterable[tuple[Any, Any]] | None = None,
    layers: Any = None,
    heads: Any = None,
    after_softmax: bool = False,
    stack: str | None = None,
) -> Edit:
    """Edges of the attention matrix that carry nothing: attention knock-out.

    queries, keys  tokens: an index, a word such as "it" or "the:2" (all its tokens), a range, or a list of these; None
                   is all. Every query is cut off from every key
    pairs          single edges (query, key) instead
    layers         numbers; all by default
    heads          only these, (layer, head), instead of `layers`
    after_softmax  False: a mask, so that the softmax gives the weight to the remaining keys. True: the weights are set
                   to zero after the softmax, and the others stay as they are

    A query with no key left gets an output of zero.

    >>> block(queries="it", keys="trophy", layers=range(4, 9))
    block(queries='it', keys='trophy', layers=range(4, 9), after_softmax=False)
    """
    if pairs is not None and (queries is not None or keys is not None):
        raise errors.OptionError("Give `pairs`, or `queries` and `keys`, not both.")
    if queries is None is keys and pairs is None:
        raise errors.OptionError("`block` needs edges: give `queries` and `keys`, by word or token index, or `pairs`.")
    if layers is not None and heads is not None:
        raise errors.OptionError("Give `layers` or `heads`, not both: heads are (layer, head).")
    return BlockEdit(
        None if heads is None else _heads(_several(heads)),
        _layers(layers),
        stack,
        selector("queries", queries),
        selector("keys", keys),
        None if pairs is None else _pairs(pairs),
        bool(after_softmax),
    )


# Activations of another run


@dataclass(frozen=True, eq=False, repr=False)
class PatchEdit(LayersEdit):
    """Activations of another run in place of this one's."""

    source: PatchSource
    what: What
    positions: Selector
    align: tuple[tuple[int, int], ...] | None  # (token here, token there)

    def selectors(self) -> Iterator[tuple[str, Selector]]:
        yield "positions", self.positions

    def __repr__(self) -> str:
        parts = [repr(self.source)]
        parts += [] if self.what == "outputs" else [f"what={self.what!r}"]
        parts += [] if self.heads is None else [f"heads={list(self.heads)}"]
        parts += [] if self.layers_given is None else [f"layers={self.layers_given!r}"]
        parts += [] if self.positions is None else [f"positions={_shown(self.positions)}"]
        parts += [] if self.align is None else [f"align={dict(self.align)}"]
        parts += [] if self.stack is None else [f"stack={self.stack!r}"]
        return f"patch({', '.join(parts)})"


def patch(
    other: Any,
    *,
    what: What = "outputs",
    heads: Any = None,
    layers: Any = None,
    positions: Any = None,
    align: Mapping[int, int] | Sequence[tuple[int, int]] | None = None,
    stack: str | None = None,
) -> Edit:
    """Activations of another run, token by token, in place of this run's.

    other      what another run computed: a `Reading`, one for each text, or what `regard.watch` has seen
    what       "outputs" of heads; "pattern": the other run's attention weights with this run's values; "values": the
               other run's values with this run's weights; "residual": the hidden state before a layer
    heads      (layer, head), or `layers` for all heads of these; "residual" takes `layers`
    positions  only these tokens of this text, as for `silence`; for "values" those whose values are taken
    align      {token here: token there}, needed where the runs have different numbers of tokens: other tokens stay

    A pattern is taken whole, so for it both runs have equally many tokens.
    """
    validate.choice("what", what, WHAT)
    if what == "residual" and heads is not None:
        raise errors.OptionError('The residual stream has no heads: patch(other, what="residual", layers=[4]).')
    if heads is None is layers:
        example = "layers=[4]" if what == "residual" else "heads=[(9, 6)]"
        raise errors.OptionError(f"`patch` needs to know where: give {example}.")
    if heads is not None and layers is not None:
        raise errors.OptionError("Give `layers` or `heads`, not both: heads are (layer, head).")
    pairs = None
    if align is not None:
        tokens = align.items() if isinstance(align, Mapping) else align
        pairs = tuple(
            (validate.integer("align", here, 0), validate.integer("align", there, 0)) for here, there in tokens
        )
        if what == "pattern":
            raise errors.OptionError("A pattern is taken whole: runs of different lengths have no common one.")
    return PatchEdit(
        None if heads is None else _heads(_several(heads)),
        _layers(layers),
        stack,
        source_of(other),
        what,
        selector("positions", positions),
        pairs,
    )


# Arguments


def heads_in(heads: Iterable[Head], layer: int, count: int) -> list[int]:
    """Those of some heads (layer, head) that are in one layer, which has `count` of them."""
    chosen = [head for of_layer, head in heads if of_layer == layer]
    for head in chosen:
        if head >= count:
            raise errors.OutOfRange(
                f"The edit names head {head} of layer {layer}; there {errors.there_are(count, 'head')}, counted from 0."
            )
    return chosen


def selector(name: str, given: Any) -> Selector:
    """Tokens by index, word or range, as a tuple; None for all."""
    if given is None:
        return None
    several = list(given) if isinstance(given, (list, tuple, set, frozenset)) else [given]
    tokens: list[int | str | range] = []
    for item in several:
        if isinstance(item, (str, range)):
            tokens.append(item)
        elif validate.is_integer(item):
            tokens.append(int(item))
        else:
            raise errors.option(name, given, 'token indices, words such as "it", ranges, or a list of these')
    if not tokens:
        raise errors.option(name, given, "at least one token")
    return tuple(tokens)


def _shown(tokens: Selector) -> str:
    assert tokens is not None
    return repr(tokens[0]) if len(tokens) == 1 else repr(list(tokens))


def _several(heads: Any) -> list[Any]:
    is_one = isinstance(heads, tuple) and len(heads) == 2 and all(map(validate.is_integer, heads))
    return [heads] if is_one else list(heads)


def _heads(given: Iterable[Any]) -> tuple[Head, ...]:
    """Heads as (layer, head), each once, in order."""
    heads = []
    for pair in given:
        fits = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(map(validate.is_integer, pair))
        if not fits or min(pair) < 0:
            raise errors.option("heads", pair, "(layer, head), both from 0, as in silence((5, 2), (3, 1))")
        heads.append((int(pair[0]), int(pair[1])))
    if not heads:
        raise errors.OptionError("The edit names no head: give (layer, head), as in silence((5, 2), (3, 1)).")
    return tuple(sorted(set(heads)))


def _layers(given: Any) -> tuple[int, ...] | range | None:
    if given is None or isinstance(given, range):
        return given
    several = [given] if validate.is_integer(given) else list(given)
    if not several:
        raise errors.option("layers", given, "at least one layer")
    return tuple(validate.integer("layers", layer, 0) for layer in several)


def _pairs(given: Iterable[Any]) -> tuple[tuple[Selector, Selector], ...]:
    pairs = []
    for pair in given:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise errors.option("pairs", pair, "(query, key), each a token index or a word")
        pairs.append((selector("pairs", pair[0]), selector("pairs", pair[1])))
    if not pairs:
        raise errors.option("pairs", given, "at least one pair (query, key)")
    return tuple(pairs)
