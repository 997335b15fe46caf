"""A text that a model has read: tokens, words, and what attends to what in every layer and head."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard import codec, errors, validate
from regard.arrays import Array, numpy_of
from regard.attention import Attention
from regard.attention.index import LIMIT
from regard.attention.pooled import region
from regard.errors import count, size_in_bytes
from regard.layers import Encoder, LayerAttention
from regard.layers.codec import KINDS as LAYER_KINDS
from regard.masks import allowed
from regard.notebook import InNotebooks
from regard.provenance import GIVEN, Source, provenance, quoted
from regard.reading import seen_codec
from regard.reading.certificate import Certificate, certify
from regard.reading.highlights import Opening, opening
from regard.reading.layer_numbers import are_counted, in_words, numbers_for, position, sizes_in_words
from regard.reading.links import UNRANKED, strongest, strongest_links
from regard.reading.votes import Votes, votes_of
from regard.reading.weights import Numbers, Unit, WordWeights, mean_over_heads, rollout, rollout_row
from regard.reading.words import Token, Word, join_tokens, piece, tokens_of, words_of
from regard.tables import Column, Table, printed_number
from regard.trace import Trace
from regard.trace.labels import numbered, place_of, words_for

if TYPE_CHECKING:
    from regard.reading.reader import Reader

T = TypeVar("T")
LAYER, HEAD, WEIGHT = Column("layer", "number", 0), Column("head", "number", 0), Column("weight", "number", shade=True)
FEW_WORDS = 12  # of a text, in the repr
MOST_NAMED = 3  # sinks that a note names
LONGEST_QUOTE = 70  # characters of a text that a note quotes


@dataclass(frozen=True, eq=False, repr=False)
class Reading(InNotebooks):
    """A text as a model has read it: tokens and words, and for each layer its attention and values.

    A word is given as "they"; with its occurrence, as "the:2" or ("the", 2); or as a position among the words, from 0,
    special ones such as [CLS] included. Layers and heads have the model's own numbers, which count from 0; without one,
    a method averages over all of them. The weight on a word is the sum over its pieces, the weights of a word are means
    over its pieces. The examples of its methods go on with the `reading` of this one.

    >>> import numpy as np
    >>> from regard.attention import Attention
    >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
    >>> reading
    Reading(The cat sat; 3 tokens, 1 layer × 1 head, given vectors)
    >>> for row in reading.strongest("The", itself=True):
    ...     print(row)
    ('The', 0.42...)
    ('sat', 0.42...)
    ('cat', 0.15...)
    >>> reading.layers, reading.heads, reading.labels, [word.first for word in reading.words]
    (1, 1, ('The', 'cat', 'sat'), [0, 1, 2])
    >>> reading.attention(0)
    Attention(head 1, query 3, key 3; head_dim 4, float64)
    >>> reading.word_weights.mean_row(reading.word("The"), 0, 0).round(2), reading.output_weights(0)
    (array([0.42, 0.16, 0.42]), None)
    >>> reading.sinks, reading.sink_words  # neither special tokens nor a causal mask
    ((), ())
    >>> reading.is_square, reading.has_values, reading.nbytes
    (True, True, 288)
    >>> reading.source(0, 0), reading.unverified, reading.certificate.rows
    ('given vectors, layer 0, head 0: “The cat sat”', '', 3)
    """

    text: str
    tokens: tuple[Token, ...]
    seen: tuple[LayerAttention, ...]  # per layer: attention (head, query, key), values (key head, key, value_dim)
    outputs: tuple[Array, ...] = ()  # attention @ values of each layer, as the model used it: (head, query, value_dim)
    states: tuple[Array, ...] = ()  # hidden states (token, width): embedded, then after each block
    blocks: tuple[Encoder, ...] = ()  # of the model
    model: str = GIVEN  # its name
    given: int | None = None  # tokens of the prompt, where the rest was generated
    reader: Reader | None = None  # the model that read it, which can read and write more; not saved
    file: str | None = None  # the name of the file it was loaded from; not saved
    layer_numbers: tuple[int, ...] = ()  # in the model, one per layer of `seen`; 0, 1, 2 … by default
    head_numbers: tuple[int, ...] = ()  # in each of these layers; 0, 1, 2 … by default
    is_text_known: bool = True  # whether the tokens are those that the model was called with; not saved
    queries: range | tuple[str, ...] = ()  # the tokens that are queries, all by default; or queries of another text
    trace: Trace | None = None  # every step, where the numbers are those of a trace; not saved
    note: str | None = None  # what a page says of it; not saved
    is_edited: bool = False  # whether an edit changed `outputs`, so that they are not weights × values; not saved

    def __post_init__(self) -> None:
        tokens, layers = len(self.tokens), len(self.seen)

        def check(what: str, layer: int, array: Any, fits: bool, expected: str) -> None:
            if not fits:
                number = self.layer_numbers[min(layer, layers - 1)]
                raise errors.ShapeError(
                    f"{what} of layer {number} has shape {tuple(array.shape)}; expected {expected} for "
                    f"{count(tokens, 'token')}.\nIn every layer, each token of the text is one query and one key."
                )

        if not layers:
            raise errors.ShapeError("`seen` holds no layer; a reading needs the attention of at least one.")
        object.__setattr__(self, "layer_numbers", numbers_for("layer", self.layer_numbers, layers))
        object.__setattr__(self, "queries", self.queries or range(tokens))
        for layer, (attention, values) in enumerate(self.seen):
            fits = attention.ndim == 3 and attention.shape[1:] == (len(self.queries), tokens)
            check("The attention", layer, attention, fits, "(head, query, key)")
            fits = values.ndim == 3 and tuple(values.shape[:2]) == (attention.keys.shape[0], tokens)
            check("The array of values", layer, values, fits, "(head, key, value_dim)")
        heads = max(attention.shape[0] for attention, _ in self.seen)
        object.__setattr__(self, "head_numbers", numbers_for("head", self.head_numbers, heads))
        for layer, output in enumerate(self.outputs):
            attention, values = self.seen[min(layer, layers - 1)]
            shape = (*attention.shape[:2], values.shape[-1])
            check("The output", layer, output, tuple(output.shape) == shape, str(shape))
        for layer, state in enumerate(self.states):
            check("The state", layer, state, state.ndim == 2 and state.shape[0] == tokens, "(token, width)")
        for name, expected in (("outputs", layers), ("states", layers + 1), ("blocks", layers)):
            if getattr(self, name):
                _check_count(name, len(getattr(self, name)), layers, expected)

    @classmethod
    def of(
        cls,
        attention: Attention | Sequence[Attention] | Trace,
        values: Any = None,
        words: Sequence[Any] | None = None,
        text: str | None = None,
        model: str = GIVEN,
    ) -> Reading:
        """Any `Attention` of two or three axes as a reading, or several with their values, one per layer; or a `Trace`.

        Without values, the queries may be some of the tokens (by the attention's offset), or others altogether; and
        what needs values is refused.

        words   one for each token, or `Token`s; their positions where none are given
        """
        if isinstance(attention, Trace):
            return _reading_of_trace(cls, attention)
        if values is None and isinstance(attention, Attention):
            return _reading_without_values(cls, attention)
        several = isinstance(attention, (list, tuple))
        attentions, of_layers = (list(attention), list(values)) if several else ([attention], [values])  # type: ignore[arg-type]
        if attentions:
            _check_count("values", len(of_layers), len(attentions), len(attentions))
        seen = tuple(_three_axes(*layer) for layer in zip(attentions, of_layers, strict=False))
        if words is not None and not isinstance(words, str) and all(isinstance(word, Token) for word in words):
            text, tokens = join_tokens(words) if text is None else (text, tuple(words))
        else:
            keys = seen[0].attention.shape[-1] if seen else 0
            text, tokens = tokens_of(words_for("words", words, keys, "key"), text)
        return cls(text, tokens, seen, model=model)

    # Words

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Tokens joined into words, special ones too."""
        return words_of(self.tokens, self.text)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The words as tables name them: the second "the" is the:2."""
        return tuple(numbered([word.text for word in self.words]))

    def word(self, given: Any, name: str = "word") -> Word:
        """A word by its text, "the:2", ("the", 2) or position; an error lists the words.

        >>> reading.word("cat").first, reading.word(2).text
        (1, 'sat')
        """
        if isinstance(given, Word):
            return given
        return self.words[place_of(name, given, [word.text for word in self.words])]

    def _index(self, word: Any, name: str = "word") -> int:
        """The position of a word among all words."""
        return self.words.index(self.word(word, name))

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """Tokens that take weight in every text: special ones, and the first token of a causal model."""
        sinks = [index for index, token in enumerate(self.tokens) if token.special]
        attention = self.seen[0].attention
        is_text = self.trace is None and self.has_values and self.is_square
        if is_text and len(self.tokens) > 1 and attention.mask is not None and 0 not in sinks:
            first = numpy_of(attention.masked[0, 0, :])
            if np.isneginf(first[1:]).all() and not np.isneginf(first[0]):  # the first query sees only itself
                sinks.insert(0, 0)
        return tuple(sinks)

    @cached_property
    def sink_words(self) -> tuple[int, ...]:
        """Positions of the words that the sinks belong to."""
        sinks = set(self.sinks)
        return tuple(index for index, word in enumerate(self.words) if word.first in sinks)

    # Layers

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self.seen)

    @property
    def heads(self) -> int:
        """The number of heads per layer."""
        return int(self.seen[0].attention.shape[0])

    @property
    def is_square(self) -> bool:
        """Whether every token is one query and one key, as in a text that a model has read."""
        return self.queries == range(len(self.tokens))

    @property
    def has_values(self) -> bool:
        """Whether the values are known, which an `Attention` alone does not have."""
        return bool(self.seen[0].values.shape[-1])

    @property
    def nbytes(self) -> int:
        """The bytes of all queries, keys and values."""
        arrays = [array for A, values in self.seen for array in (A.queries, A.keys, values)]
        return sum(int(np.prod(array.shape)) * int(array.dtype.itemsize) for array in arrays)

    def attention(self, layer: int) -> Attention:
        """The lazy matrix of one layer, (head, query, key), between tokens."""
        return self.seen[self._place(layer)].attention

    def _place(self, layer: int) -> int:
        """The position in `seen` of a layer of the model."""
        return position("layer", layer, self.layer_numbers)

    def _places(self, layer: int | None, head: int | None) -> tuple[int | None, int | None]:
        """The positions of a layer and a head of the model; None stays None."""
        of_layer = None if layer is None else self._place(layer)
        return of_layer, None if head is None else position("head", head, self.head_numbers)

    def _numbers(self, layer: int, head: int) -> tuple[int, int]:
        """The model's numbers of a layer and a head at two positions."""
        return self.layer_numbers[layer], self.head_numbers[head]

    def weights(
        self, *, layer: int | None = None, head: int | None = None, by: Unit = "word", limit: int | None = LIMIT
    ) -> Numbers:
        """All weights between words, or tokens, as an array: O(n²); an error above the limit.

        >>> reading.weights().round(2)
        array([[0.42, 0.16, 0.42],
               [0.16, 0.42, 0.42],
               [0.21, 0.21, 0.58]])
        """
        validate.choice("by", by, ("word", "token"))
        count = len(self.words) if by == "word" else len(self.tokens)
        advice = "Use strongest(word) for one word, attention(layer).pooled((512, 512)) for a picture"
        _check_square_size(f"The weights between {count:,} {by}s", count, limit, advice, "weights(…, limit={})")
        layer, head = self._places(layer, head)
        if by == "word":
            return np.concatenate([rows for _, rows in self._by_word.mean_blocks(layer, head)])
        total, layers = np.zeros((count, count)), self._by_word.layers(layer)
        for index in layers:
            total += mean_over_heads(self.seen[index].attention, self._by_word.heads(index, head))
        return total / len(layers)

    @cached_property
    def word_weights(self) -> WordWeights:
        """Weights between words by the positions of layers and heads, which the tables below are made of."""
        return WordWeights(tuple(seen.attention for seen in self.seen), self.words)

    @property
    def _by_word(self) -> WordWeights:
        self._check_square()
        return self.word_weights

    def _check_square(self) -> None:
        if not self.is_square:
            raise errors.unsupported(
                "A table of words whose queries are not the tokens", "Use the `Attention` or the `Trace` itself."
            )

    def _check_values(self) -> None:
        if not self.has_values:
            raise errors.unsupported("This without values", "Give them: Reading.of(attention, values).")

    # Tables: one word or all, one layer and head or all of them

    def strongest(
        self, word: Any, *, layer: int | None = None, head: int | None = None, sinks: bool = False, itself: bool = False
    ) -> Table:
        """The words that one word attends to, strongest first; O(n) memory.

        Sinks are left out unless `sinks`, the word itself unless `itself`. The column *of the rest* is the share of
        what remains.

        >>> reading.strongest("cat")["Word"], reading.strongest("cat", itself=True)["Word"]
        (('sat', 'The'), ('cat', 'sat', 'The'))
        """
        own_word = self._index(word)
        weights = self._by_word.mean_row(self.words[own_word], *self._places(layer, head))
        listed = self._listed(own_word, sinks, itself)
        order, rest = strongest(np.where(listed, weights, UNRANKED)), float(weights[listed].sum())
        columns = [Column("Word", "word"), WEIGHT]
        cells: list[Any] = [[self.labels[index] for index in order], [float(weights[index]) for index in order]]
        if not listed.all():
            columns.append(Column("of the rest", "number"))
            cells.append([float(weights[index]) / rest if rest > 0 else 0.0 for index in order])
        notes = self._sink_notes(weights[list(self.sink_words)].sum())
        if not itself:
            notes.append(f"Weight on itself: {printed_number(weights[own_word], 2)}.")
        if omitted := int(listed.sum()) - len(order):
            notes.append(f"{omitted:,} word{' is' if omitted == 1 else 's are'} not listed: masked, or of weight 0.")
        title = f"{self.labels[own_word]} attends to, {self._scope(layer, head)}"
        rows = tuple(zip(*cells, strict=True))
        return Table(title, tuple(columns), rows, tuple(notes), source=self.source(layer, head))

    def pairs(
        self,
        *,
        layer: int | None = None,
        head: int | None = None,
        sinks: bool = False,
        itself: bool = False,
        words: tuple[int, int] | None = None,
    ) -> Table:
        """Query, key, probability: for every word the other word it attends to most; O(n²) time.

        words   (start, stop): only these words as queries

        >>> reading.pairs()["key"]
        ('sat', 'sat', 'The')
        """
        aside = [] if sinks else list(self.sink_words)
        rows: list[tuple[Any, ...]] = []
        to_sinks, to_itself = [], []
        for first, block in self._by_word.mean_blocks(
            *self._places(layer, head), range(*region("words", words, len(self.words)))
        ):
            for index, row in enumerate(block, first):
                if index in aside:
                    continue
                to_sinks.append(row[list(self.sink_words)].sum())
                to_itself.append(row[index])
                best = strongest_links(row[None], [index], [index], 1, itself=itself, sinks=aside)
                partner = (self.labels[best.key[0]], float(best.weight[0])) if len(best.key) else (None, None)
                rows.append((self.labels[index], *partner))
        columns = Column("query", "word"), Column("key", "word"), Column("probability", "number", shade=True)
        notes = self._sink_notes(np.mean(to_sinks), " on average") if rows and not sinks else []
        if rows and not itself:
            notes.append(f"Weight of words on themselves: {printed_number(np.mean(to_itself), 2)} on average.")
        title = f"Strongest attention per word, {self._scope(layer, head)}"
        return Table(title, columns, tuple(rows), tuple(notes), source=self.source(layer, head))

    def opening(self, word: Any = None, *, layer: int | None = None, head: int | None = None) -> Opening:
        """Where a report opens: the strongest link between content words, a pronoun's first.

        Sinks, the word itself and its neighbours are set aside; a given word, layer or head is kept.

        >>> reading = Reading.of(Attention(E, E), E, words=["kids", "sat", "they"])
        >>> link = reading.opening()
        >>> reading.labels[link.query], reading.labels[link.key], link.layer, link.head
        ('they', 'kids', 0, 0)
        """
        query = None if word is None else self._index(word)
        layer, head = self._places(layer, head)
        link = opening(self._by_word, self.sink_words, query=query, layer=layer, head=head)
        layer, head = self._numbers(link.layer, link.head)
        return link._replace(layer=layer, head=head)

    def heads_for(self, word: Any, key: Any = None) -> Table:
        """All heads, ranked by the weight of one word on `key`, or on the other word it attends to most; O(n) per head.

        >>> [(layer, head) for layer, head, *_ in reading.heads_for("cat", "sat")]
        [(0, 0)]
        """
        own_word = self._index(word)
        target = None if key is None else self._index(key, "key")
        listed = self._listed(own_word, sinks=False, itself=False)
        rows: list[tuple[Any, ...]] = []
        to_sinks = []
        for layer, head, row in self._by_word.rows(self.words[own_word], None, None):
            to_sinks.append(float(row[list(self.sink_words)].sum()))
            words = [target] if target is not None else strongest(np.where(listed, row, UNRANKED), 1)
            numbers = self._numbers(layer, head)
            rows += [(*numbers, self.labels[word_index], float(row[word_index]), to_sinks[-1]) for word_index in words]
        rows.sort(key=lambda row: (-row[3], row[0], row[1]))
        columns = [LAYER, HEAD, Column("key", "word"), WEIGHT, Column("to sinks", "number")]
        title = f"Heads in which {self.labels[own_word]} attends most to " + (
            "one word" if target is None else self.labels[target]
        )
        if not self.sink_words:
            columns, rows = columns[:-1], [row[:-1] for row in rows]
        notes = tuple(self._sink_notes(np.mean(to_sinks), " on average"))
        return Table(title, tuple(columns), tuple(rows), notes, source=self.source())

    def votes(self, word: Any) -> Votes:
        """One vote per head, for the word that the given word attends to most; O(n) per head.

        Sinks and the word itself are set aside; a head whose largest weight of all is on a sink counts as abstaining.

        >>> reading.votes("cat")
        Votes(cat: sat 1; 0 of 1 head abstain)
        >>> reading.votes("sat").heads  # The and cat are equal
        (HeadVote(layer=0, head=0, word=None, weight=0.0, abstains=True),)
        """
        index, sinks = self._index(word), self.sink_words
        return votes_of(self._by_word, self.words[index], self.labels, sinks=sinks, own=index, numbers=self._numbers)

    def top(
        self,
        k: int = 10,
        *,
        layer: int | None = None,
        head: int | None = None,
        sinks: bool = False,
        itself: bool = False,
    ) -> Table:
        """The k largest weights of one word on another, in any layer and head.

        >>> reading.top(2)["query"], reading.top(2)["key"]
        (('The', 'cat'), ('sat', 'sat'))
        """
        k = validate.integer("k", k, 1)
        best: list[tuple[float, int, int, int, int]] = []  # minus the weight, layer, head, query, key
        aside = [] if sinks else list(self.sink_words)
        in_sinks, rows_seen = 0.0, 0
        for block in self._by_word.blocks(*self._places(layer, head)):
            queries = np.arange(block.first, block.first + block.weights.shape[1])
            kept = ~np.isin(queries, aside)
            in_sinks += float(block.weights[:, kept][:, :, list(self.sink_words)].sum())
            rows_seen += block.weights.shape[0] * int(kept.sum())
            for number, rows in zip(block.heads, block.weights, strict=True):
                links = strongest_links(rows, queries, queries, k, itself=itself, sinks=aside)
                best += [
                    (-float(weight), block.layer, number, int(query), int(key))
                    for query, key, weight in zip(*links, strict=True)
                ]
            best = sorted(best)[:k]
        cells = tuple(
            (*self._numbers(of_layer, of_head), self.labels[query], self.labels[key], -weight)
            for weight, of_layer, of_head, query, key in best
        )
        columns = LAYER, HEAD, Column("query", "word"), Column("key", "word"), WEIGHT
        notes = self._sink_notes(in_sinks / rows_seen if rows_seen else 0.0, " on average")
        title = f"Largest weights, {self._scope(layer, head)}"
        return Table(title, columns, cells, tuple(notes), source=self.source(layer, head))

    def norms(
        self, word: Any, *, layer: int | None = None, head: int | None = None, sinks: bool = False, itself: bool = False
    ) -> Table:
        """‖weight · v · W_O‖, the contribution of each word to one word, beside the weight alone; O(n).

        A large weight can rest on a small value. Without `head`, the contributions of all heads are added before the
        norm is taken; without `layer`, the numbers are means over layers.

        >>> reading.norms("cat")["Word"], reading.norms("cat", itself=True)["Word"]
        (('sat', 'The'), ('sat', 'cat', 'The'))
        """
        own_word = self._index(word)
        self._check_values()
        place_of_layer, place_of_head = self._places(layer, head)
        layers = self._by_word.layers(place_of_layer)
        matrices = [self.output_weights(index) for index in layers]
        is_known = all(w_o is not None for w_o in matrices)
        of_layers = [
            self._by_word.contributions(self.words[own_word], index, place_of_head, self.seen[index].values, w_o)
            for index, w_o in zip(layers, matrices, strict=True)
        ]
        shares, alone, total = np.mean(of_layers, axis=0)
        listed = np.flatnonzero(self._listed(own_word, sinks, itself))
        order = listed[np.argsort(-total[listed], kind="stable")]
        through = " · W_O" if is_known else ""
        norms = Column(f"‖v{through}‖", "number"), Column(f"‖weight · v{through}‖", "number")
        columns = Column("Word", "word"), WEIGHT, *norms
        cells = (
            (self.labels[index], float(shares[index]), float(alone[index]), float(total[index])) for index in order
        )
        notes = self._sink_notes(shares[list(self.sink_words)].sum())
        if not is_known:
            notes.append("W_O is not known: these are the norms of the values themselves.")
        title = f"Contribution of each word to {self.labels[own_word]}, {self._scope(layer, head)}"
        return Table(title, columns, tuple(cells), tuple(notes), source=self.source(layer, head))

    def output_weights(self, layer: int) -> Array | None:
        """W_O of the layer at a position, (width, head · value_dim), where it is known."""
        w_o = self.blocks[layer].attention.w_o if self.blocks else None
        return None if w_o is None else w_o.weight

    def moved(self, word: Any, other: Reading, other_word: Any = None) -> Table:
        """How far a word's vectors in two texts are apart, layer by layer; means over its pieces are compared.

        >>> from regard.models.model import model
        >>> phone, fruit = model().read(["Love Apple phones", "Love Apple pie"])
        >>> len(phone.moved("Apple", fruit))  # the embedding and six layers
        7
        """
        if not self.states or not other.states:
            raise errors.Unsupported(
                "This reading holds no hidden states, so a word has no vector to compare.\n"
                "Read the text with a model: regard.model().read(text)."
            )

        def check(here: int, there: int, what: str) -> None:
            if here != there:
                raise errors.OptionError(
                    f"The two readings have {here} and {there} {what}; expected readings of the same model."
                )

        check(len(self.states), len(other.states), "hidden states")
        here, there = self.word(word, "word"), other.word(word if other_word is None else other_word, "other_word")
        rows = []
        for number, states in enumerate(zip(self.states, other.states, strict=True)):
            check(states[0].shape[-1], states[1].shape[-1], "numbers per vector")
            first, second = (
                numpy_of(state[its.first : its.last]).mean(axis=0, dtype=np.float64)
                for state, its in zip(states, (here, there), strict=True)
            )
            apart, lengths = float(np.linalg.norm(first - second)), (np.linalg.norm(first), np.linalg.norm(second))
            cosine = float(first @ second / max(lengths[0] * lengths[1], np.finfo(float).tiny))
            relative = apart / max(float(np.mean(lengths)), float(np.finfo(float).tiny))
            after = f"after layer {self.layer_numbers[number - 1]}" if number else "embedded"
            rows.append((after, cosine, apart, relative))
        columns = (
            Column("State", "text"),
            *(Column(name, "number") for name in ("cosine", "distance", "distance / length")),
        )
        texts = self.text, other.text
        parts = [text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 1]}…" for text in texts]
        title = f"{here.text}: distance of its vectors in two texts"
        compared = f"{here.text} with {there.text} in {quoted(other.text)}"
        source = provenance(self._named_model, text=self.text, compared=compared)
        return Table(title, columns, tuple(rows), (f"Here: {parts[0]}", f"There: {parts[1]}"), source=source)

    def next_tokens(
        self,
        word: Any = None,
        *,
        count: int = 10,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> Table:
        """What a model that writes expects after a word, or after the whole text: tokens and their probabilities.

        temperature   below 1 sharpens the probabilities, above 1 flattens them
        top_k, top_p  only the k most likely tokens, or the most likely of total probability p

        >>> from regard.models.model import model
        >>> print(model("smollm2").read("Once upon a time").next_tokens(count=1).rows[0][0])
        ,
        """
        if self.reader is None or not self.states:
            raise errors.Unsupported(
                "The model that read this text is not at hand, so nothing is known of the next token.\n"
                'Read the text with a model that writes: regard.model("smollm2").read(text).'
            )
        last = len(self.tokens) if word is None else self.word(word).last
        tokens = self.reader.next_tokens(
            numpy_of(self.states[-1])[last - 1], count, temperature=temperature, top_k=top_k, top_p=top_p
        )
        title = f"Next token after {self.tokens[last - 1].text}, {self.model}"
        columns = Column("token", "word"), Column("probability", "number", 3)
        return Table(title, columns, tuple(tokens), source=self.source())

    def rollout(self, word: Any = None, *, limit: int | None = LIMIT) -> Numbers:
        """Attention rollout (Abnar and Zuidema, 2020) through all layers: (token, token), with rows of sum 1.

        With a `word`, only its row, (token,), by products `u @ A` in O(n) memory.

        >>> reading.rollout().round(2)
        array([[0.71, 0.08, 0.21],
               [0.08, 0.71, 0.21],
               [0.11, 0.11, 0.79]])
        """
        attentions = self._by_word.attentions
        if word is not None:
            asking = self.word(word, "word")
            row = np.zeros(len(self.tokens))
            row[asking.first : asking.last] = 1 / (asking.last - asking.first)
            return rollout_row(attentions, row)
        count = len(self.tokens)
        advice = "Give one word, which takes O(n), as in rollout(0)"
        _check_square_size(f"The rollout of {count:,} tokens", count, limit, advice, "rollout(limit={})")
        return rollout(attentions)

    # Every number

    def explain(self, word: Any = None, *, layer: int | None = None) -> Trace:
        """Every step of one layer, the first by default, as a `Trace`: of all tokens of a short text, or in O(n) of one
        word's last piece.

        >>> reading.explain("cat")
        Trace(The cat sat, query cat; 1 head: query, key, value, score, scaled, weight, weighted_value, output)
        """
        self._check_square()
        self._check_values()
        index = 0 if layer is None else self._place(layer)
        asking = None if word is None else self.word(word, "word")
        query = None if asking is None else asking.last - 1
        pieces = [piece(token, self.text) for token in self.tokens]
        name = f"{self._named_model}, layer {self.layer_numbers[index]}"
        source, note = Source(name, self.text, self.head_numbers), name
        if not are_counted(self.head_numbers):
            note += f"; the heads, in this order, are {in_words(self.head_numbers)} of the model"
        if asking is not None and asking.last - asking.first > 1:
            parts = " + ".join(pieces[asking.first : asking.last])
            note += f"; {asking.text} is read as {parts}, and the last of these is the query"
        trace: Trace
        if self.blocks and self.states:
            trace = self.blocks[index].explain(self.states[index], words=pieces, query=query)
        else:
            attention, values = self.seen[index]
            trace = attention.explain(values, query=query, words=pieces)
        return trace.noted(f"{note}.", source)

    def table(
        self, word: Any, *, layer: int | None = None, head: int | None = None, sinks: bool = False, itself: bool = False
    ) -> Table:
        """The slides' table of one head, on the model's own vectors: q, k, v, score, score/√d_k, softmax × v, sum.

        Where no layer or head is given, the head is taken in which the word has its largest weight on another word
        (with `sinks` and `itself`: on any word).

        >>> reading.table("cat")["score"]
        (0.0, 2.0, 2.0)
        """
        asking = self.word(word, "word")
        listed = self._listed(self.words.index(asking), sinks, itself)
        of_heads = self._by_word.rows(asking, *self._places(layer, head))
        best = max(of_heads, key=lambda one: float(np.where(listed, one[2], UNRANKED).max()))
        layer, head = self._numbers(best[0], best[1])
        table = self.explain(asking, layer=layer).table(head=best[1])
        name, _, sizes = table.title.rpartition(": d_k")
        alone = are_counted(self.head_numbers) and self.seen[best[0]].attention.shape[0] == 1
        of_head = "" if alone else f", head {head}"
        title = f"{name.removesuffix(f', head {best[1]}')}, layer {layer}{of_head}: d_k{sizes}"
        return replace(table, title=title)

    def _listed(self, own: int, sinks: bool, itself: bool) -> NDArray[np.bool_]:
        """Which words a ranking for the word at `own` contains."""
        listed = np.ones(len(self.words), bool)
        if not sinks:
            listed[list(self.sink_words)] = False
        if not itself or (not sinks and own in self.sink_words):
            listed[own] = False
        return listed

    def source(self, layer: int | None = None, head: int | None = None) -> str:
        """Where the numbers come from, in one sentence that files carry: model, layer, head and text."""
        of_layer, of_head = self._places(layer, head)
        number = None if of_layer is None else self.layer_numbers[of_layer]
        heads = () if of_head is None else (self.head_numbers[of_head],)
        return provenance(self._named_model, layer=number, heads=heads, text=self.text)

    @property
    def _named_model(self) -> str:
        return f"{self.model} (unverified)" if self.file else self.model

    def _scope(self, layer: int | None, head: int | None) -> str:
        """Which heads are meant, in words."""
        if layer is None and head is None:
            recorded = are_counted(self.layer_numbers) and are_counted(self.head_numbers)
            if self.layers * self.heads > 1:
                return "all heads" if recorded else "all recorded heads"
            return "the only head" if recorded else f"layer {self.layer_numbers[0]}, head {self.head_numbers[0]}"
        of_layer, of_head = self._places(layer, head)
        scope = "every layer" if of_layer is None else f"layer {self.layer_numbers[of_layer]}"
        heads = "all heads" if of_head is None else f"head {self.head_numbers[of_head]}"
        return f"{scope}, {heads}"

    def _sink_notes(self, share: Any, on_average: str = "") -> list[str]:
        """How much weight the sinks take: "[CLS] and [SEP] take 0.37 of the weight."."""
        if not self.sink_words:
            return []
        sinks = [self.words[index] for index in self.sink_words]
        names = list(dict.fromkeys(word.text if word.special else f"The first word, {word.text}," for word in sinks))
        if len(names) > MOST_NAMED:
            named = f"{names[0]} and {len(sinks) - 1} other sinks"
        else:
            named = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        verb = "takes" if len(sinks) == 1 else "take"
        return [f"{named} {verb} {printed_number(share, 2)} of the weight{on_average}."]

    @cached_property
    def certificate(self) -> Certificate:
        """How exact these numbers are: rows of every head, checked against float64."""
        return certify(self.seen, () if self.is_edited else self.outputs)

    @property
    def unverified(self) -> str:
        """What the certificate cannot know of a loaded reading, or of a text given for a watched model that was called
        without token ids; empty for a text that was read here.
        """
        if self.file is None and not self.is_text_known:
            return "The text is not verified: the token ids that the model was called with are not known."
        if self.file is None:
            return ""
        return f"The text and the model's name, {self.model}, are those that {self.file} states: they are not verified."

    # Files and notebooks

    def save(self, path: str | os.PathLike[str], *, blocks: bool = False) -> None:
        """Write the reading to a safetensors file; with `blocks`, the weights of the model's blocks as well.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save(f"{folder}/cat.safetensors")
        ...     Reading.load(f"{folder}/cat.safetensors")
        Reading(The cat sat; 3 tokens, 1 layer × 1 head, given vectors, unverified: cat.safetensors)
        """
        self._check_square()
        tensors: dict[str, Array] = {}
        written = enumerate(self.blocks if blocks else ())
        metadata = {
            "text": self.text,
            "tokens": [seen_codec.describe_token(token) for token in self.tokens],
            "layers": [
                seen_codec.describe_seen(f"layers.{number}", seen, tensors) for number, seen in enumerate(self.seen)
            ],
            "outputs": seen_codec.add_tensors("outputs", self.outputs, tensors),
            "states": seen_codec.add_tensors("states", self.states, tensors),
            "blocks": [codec.describe(f"blocks.{number}", block, tensors, LAYER_KINDS) for number, block in written],
            "model": self.model,
            "given": self.given,
            "layer_numbers": list(self.layer_numbers),
            "head_numbers": list(self.head_numbers),
        }
        codec.save(path, tensors, metadata, kind="reading")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Reading:
        """Read what `save` wrote, as NumPy arrays. Nothing is unpickled; an error says what is wrong with a file.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save(f"{folder}/cat.safetensors")
        ...     Reading.load(f"{folder}/cat.safetensors").labels
        ('The', 'cat', 'sat')
        """

        def build(tensors: dict[str, Array], metadata: dict[str, Any]) -> Reading:
            def each(name: str, build_one: Callable[[Any], T]) -> tuple[T, ...]:
                return seen_codec.field(
                    metadata, name, lambda rows: tuple(map(build_one, seen_codec.of_type("it", rows, list)))
                )

            metadata = {"layer_numbers": [], "head_numbers": [], **metadata}  # missing in files of before
            seen_codec.check_numbers(tensors)
            text = seen_codec.field(metadata, "text", lambda text: seen_codec.of_type("it", text, str))
            tokens = each("tokens", lambda row: seen_codec.token_of(row, text))
            return cls(
                text,
                tokens,
                each("layers", lambda layer: seen_codec.seen_of(layer, tensors)),
                each("outputs", lambda name: seen_codec.finite_tensor(name, tensors)),
                each("states", lambda name: seen_codec.finite_tensor(name, tensors)),
                each("blocks", lambda block: block_of(block, tensors)),
                seen_codec.field(metadata, "model", lambda model: seen_codec.of_type("it", model, str)),
                seen_codec.field(metadata, "given", lambda prompt: seen_codec.prompt_of(prompt, len(tokens))),
                file=Path(path).name,
                layer_numbers=each("layer_numbers", lambda number: seen_codec.of_type("a number", number, int)),
                head_numbers=each("head_numbers", lambda number: seen_codec.of_type("a number", number, int)),
            )

        return codec.load_as(path, "reading", build)

    def save_html(
        self,
        path: str | os.PathLike[str],
        *,
        layers: Any = None,
        heads: Any = None,
        steps: bool = True,
        beside: Reading | None = None,
        with_model: bool = False,
    ) -> None:
        """Write the viewer and the reading as one page, which opens from disk with the network off.

        layers, heads  keep only these, by their numbers in the model: a smaller page, as exact as a full one
        steps          include the values, so that every step can be followed; a third smaller without
        beside         another reading, to compare with: *Love Apple phones* beside *Love apple pie*
        with_model     put the model into the page, which then reads other texts too

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save_html(f"{folder}/cat.html", layers=[0])
        ...     Path(f"{folder}/cat.html").read_text()[:15]
        '<!DOCTYPE html>'
        """
        from regard.viewer.page import save

        save(self, path, layers=layers, heads=heads, steps=steps, beside=beside, with_model=with_model)

    def __repr__(self) -> str:
        words = [word.text for word in self.words if not word.special]
        shown = words if len(words) <= FEW_WORDS else [*words[: FEW_WORDS - 1], "…"]
        tokens = f"{len(self.tokens):,} token{'' if len(self.tokens) == 1 else 's'}"
        source = self.model if self.file is None else f"{self.model}, unverified: {self.file}"
        sizes = sizes_in_words(self.layer_numbers, self.head_numbers)
        return f"Reading({' '.join(shown)}; {tokens}, {sizes}, {source})"


def block_of(described: Any, tensors: dict[str, Array]) -> Encoder:
    """The block of a model that a file describes."""
    return seen_codec.of_type("a block", codec.build(described, tensors, LAYER_KINDS), Encoder)


def _check_square_size(what: str, count: int, limit: int | None, advice: str, call: str) -> None:
    """Refuse a matrix of count × count numbers above a limit."""
    needed = 8 * count * count
    if limit is not None and needed > limit:
        raise errors.TooLarge(
            f"{what} would take {size_in_bytes(needed)}, the limit is {size_in_bytes(limit)}.\n"
            f"{advice}, or raise the limit: {call.format(needed)}."
        )


def _check_count(name: str, came: int, layers: int, expected: int) -> None:
    if came != expected:
        raise errors.ShapeError(f"`{name}` holds {came} for {count(layers, 'layer')}; expected {expected}, or none.")


def _reading_of_trace(cls: type[Reading], trace: Trace) -> Reading:
    first, count = trace.own_key, len(trace.query_words)
    text, tokens = tokens_of(trace.words, trace.source.text or None)
    seen = (LayerAttention(attention_of(trace), trace["value"]),)
    queries = trace.query_words if first is None else range(first, first + count)
    return cls(
        text, tokens, seen, model="", head_numbers=trace.source.heads, queries=queries, trace=trace, note=trace.note
    )


def attention_of(trace: Trace) -> Attention:
    """The attention of a trace; mask and bias are recovered from its stages."""
    origin = trace.origin
    bias = None
    if "biased" in trace:
        bias = numpy_of(trace["biased"] - (trace["capped"] if "capped" in trace else trace["scaled"]))
    return Attention(
        numpy_of(trace["query"]),
        numpy_of(trace["key"]),
        scale=origin.scale,
        mask=allowed(numpy_of(trace["masked"]) != -np.inf) if "masked" in trace else None,
        bias=bias,
        softcap=origin.softcap or None,
        sinks=None if origin.sinks is None else np.asarray(numpy_of(origin.sinks)),
        similarity="cosine" if origin.is_cosine else "dot",
        offset=trace.own_key or 0,
    )


def _reading_without_values(cls: type[Reading], attention: Attention) -> Reading:
    """Of the first sequence: the tokens have no text but their positions."""
    note = None
    if attention.ndim == 4:
        if attention.shape[0] > 1:
            note = f"Sequence 0 of {attention.shape[0]}: A.select(batch=…) shows another."
        attention = attention.select(batch=0)
    keys = attention.shape[-1]
    seen = _three_axes(attention, np.zeros((attention.keys.shape[0] if attention.ndim == 3 else 1, keys, 0)))
    count = attention.shape[-2]
    start = 0 if attention.offset is None and count == keys else attention.offset
    first = -1 if start is None else int(np.ravel(numpy_of(start))[0])
    among = first >= 0 and first + count <= keys
    queries = range(first, first + count) if among else tuple(map(str, range(count)))
    return cls("", tokens_of(tuple(map(str, range(keys))), "")[1], (seen,), queries=queries, note=note)


def _three_axes(attention: Any, values: Any) -> LayerAttention:
    """One sequence as (head, query, key) and (key head, key, value_dim)."""
    if not isinstance(attention, Attention):
        raise errors.option("attention", attention, "an Attention, or a list of them, one per layer")
    if attention.ndim == 4:
        if attention.shape[0] != 1:
            raise errors.ShapeError(
                f"There are {attention.shape[0]} sequences; a reading holds one.\n"
                "Choose one: Reading.of(A.select(batch=0), values[0])."
            )
        attention, values = attention.select(batch=0), values[0]
    if attention.ndim == 2:
        attention = replace(attention, queries=attention.queries[None], keys=attention.keys[None])
    values = values if hasattr(values, "ndim") else np.asarray(values, dtype=np.float64)
    return LayerAttention(attention, values[None] if values.ndim == 2 else values)
