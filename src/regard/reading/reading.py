"""A text that a model has read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regard import validate
from regard.arrays import Array
from regard.attention import Attention
from regard.attention.index import LIMIT
from regard.layers import Encoder, Seen
from regard.reading import construct, norms, rollout, tables, weights
from regard.reading.certificate import Certificate, certified
from regard.reading.tokens import Token, Word, labelled, words_of
from regard.reading.weights import Numbers, Unit
from regard.tables import Table
from regard.trace.labels import place_of

if TYPE_CHECKING:
    from regard.trace import Trace

FEW_WORDS = 12  # of a text that a reading names itself by


@dataclass(frozen=True, eq=False, repr=False)
class Reading:
    """What a model made of one text: tokens and words, and for each layer its attention with the values.

    A word is named by itself, as "they"; by itself and which of its occurrences, as ("the", 2); or by its position
    among the words, from 0, special ones such as [CLS] included. Layers and heads count from 0; without one, a method
    averages over all of them. Weights to a word are sums over its pieces, from a word means over them.

    >>> import numpy as np
    >>> from regard.attention import Attention
    >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
    >>> reading
    Reading(The cat sat; 3 tokens, 1 layer × 1 head, given vectors)
    >>> for row in reading.looks("The"):
    ...     print(row)
    ('The', 0.42...)
    ('sat', 0.42...)
    ('cat', 0.15...)
    """

    text: str
    tokens: tuple[Token, ...]
    seen: tuple[Seen, ...]  # one a layer: attention (head, query, key), values (key head, key, size)
    outputs: tuple[Array, ...] = ()  # attention @ values of each layer, as the model used it: (head, query, size)
    states: tuple[Array, ...] = ()  # hidden states (token, width): embedded, then after each block
    blocks: tuple[Encoder, ...] = ()  # of the model
    model: str = "given vectors"  # its name
    given: int | None = None  # tokens of the prompt, where the rest was generated

    def __post_init__(self) -> None:
        construct.check(self)

    @classmethod
    def of(
        cls,
        attention: Attention | Sequence[Attention],
        values: Any,
        words: Sequence[Any] | None = None,
        text: str | None = None,
        model: str = "given vectors",
    ) -> Reading:
        """Any `Attention` of two or three axes as a reading, or several with their values, one a layer.

        words   one for each token, or `Token`s; their positions where none are given
        """
        return cls(*construct.parts(attention, values, words, text), model=model)

    # Words

    @cached_property
    def words(self) -> tuple[Word, ...]:
        """Tokens joined into words, special ones too.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> [word.text for word in reading.words]
        ['The', 'cat', 'sat']
        """
        return words_of(self.tokens, self.text)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The words as tables name them: the second "the" is the:2.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.labels
        ('The', 'cat', 'sat')
        """
        return labelled([word.text for word in self.words])

    def word(self, given: Any, name: str = "query") -> Word:
        """The word that is meant: "they", ("the", 2) or a position; an error that lists the words where none is.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.word("cat").first, reading.word(2).text
        (1, 'sat')
        """
        if isinstance(given, Word):
            return given
        return self.words[place_of(name, given, [word.text for word in self.words])]

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """Tokens that take weight whatever the text says: special ones, and the first of a causal model.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.sinks  # neither special tokens nor a causal mask
        ()
        """
        return construct.sinks(self.tokens, self.seen[0].attention)

    @cached_property
    def sink_words(self) -> tuple[int, ...]:
        """The places of the words that these tokens belong to.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.sink_words
        ()
        """
        sinks = set(self.sinks)
        return tuple(place for place, word in enumerate(self.words) if word.first in sinks)

    # Layers

    @property
    def layers(self) -> int:
        """How many layers there are.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.layers
        1
        """
        return len(self.seen)

    @property
    def heads(self) -> int:
        """How many heads a layer has.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.heads
        1
        """
        return int(self.seen[0].attention.shape[0])

    def attention(self, layer: int) -> Attention:
        """The lazy matrix of one layer, (head, query, key), between tokens.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.attention(0)
        Attention(head 1, query 3, key 3; head_dim 4, float64)
        """
        return self.seen[validate.index("layer", layer, self.layers)].attention

    def weights(
        self, layer: int | None = None, head: int | None = None, by: Unit = "word", limit: int | None = LIMIT
    ) -> Numbers:
        """All weights between words, or tokens, as an array: O(n²), an error where it takes more than the limit.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.weights().round(2)
        array([[0.42, 0.16, 0.42],
               [0.16, 0.42, 0.42],
               [0.21, 0.21, 0.58]])
        """
        return weights.matrix(self, layer, head, by, limit)

    # What people ask

    def looks(
        self, query: Any, layer: int | None = None, head: int | None = None, sinks: bool = False, itself: bool = True
    ) -> Table:
        """The words that one word looks at, strongest first; O(n) memory.

        Sinks are set aside unless `sinks`, and the word itself unless `itself`; the column *of the rest* then says
        which share of what is left each word gets.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.looks("cat")["Word"]
        ('cat', 'sat', 'The')
        """
        return tables.looks(self, query, layer, head, sinks, itself)

    def pairs(
        self,
        itself: bool = False,
        layer: int | None = None,
        head: int | None = None,
        sinks: bool = False,
        words: tuple[int, int] | None = None,
    ) -> Table:
        """Query, key, probability: for every word the one that it looks at most, in the rest of the sentence.

        words   from which word up to which one; all of them, in O(n²) time, by default

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.pairs()["key"]
        ('sat', 'sat', 'The')
        """
        return tables.pairs(self, layer, head, sinks, itself, construct.span(self, words))

    def heads_for(self, query: Any, key: Any = None) -> Table:
        """All heads, those first in which one word looks most at the key, or at any single word of the text.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> [(layer, head) for layer, head, *_ in reading.heads_for("cat", "sat")]
        [(0, 0)]
        """
        return tables.heads_for(self, query, key)

    def top(
        self,
        k: int = 10,
        layer: int | None = None,
        head: int | None = None,
        sinks: bool = False,
        itself: bool = False,
    ) -> Table:
        """The k strongest looks from one word at another, in any layer and head.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.top(2)["query"], reading.top(2)["key"]
        (('The', 'cat'), ('sat', 'sat'))
        """
        return tables.top(self, validate.integer("k", k, 1), layer, head, sinks, itself)

    def norms(self, layer: int, head: int | None = None, query: Any = 0) -> Table:
        """‖weight · v · W_O‖: how much of each word really arrives at one word, beside the weight alone; O(n).

        A weight can be large on a value that is tiny. Without `head`, what all heads bring is added up first.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.norms(0, query="cat")["Word"]
        ('sat', 'cat', 'The')
        """
        return norms.norms(self, layer, head, query)

    def rollout(self, query: Any = None, limit: int | None = LIMIT) -> Numbers:
        """Attention rollout (Abnar and Zuidema, 2020) through all layers: (token, token), rows of sum 1.

        With a `query`, that word's row alone, (token,), by products `u @ A` in O(n) memory.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.rollout().round(2)
        array([[0.71, 0.08, 0.21],
               [0.08, 0.71, 0.21],
               [0.11, 0.11, 0.79]])
        """
        return rollout.rollout(self, query, limit)

    def moved(self, word: Any, other: Reading, other_word: Any = None) -> Table:
        """How far a word's vector moves between two texts, layer by layer: the mean over its pieces is compared.

        >>> from regard.models.architectures import model
        >>> phone, fruit = model().read(["Love Apple phones", "Love Apple pie"])
        >>> len(phone.moved("Apple", fruit))  # the embedding and six layers
        7
        """
        return norms.moved(self, word, other, other_word)

    # Every number

    def explain(self, query: Any = None, layer: int = 0) -> Trace:
        """Every step of one layer as a `Trace`: of all tokens of a short text, or in O(n) of one word's last piece.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.explain("cat")
        Trace(The cat sat, query cat; 1 head: query, key, value, score, scaled, weight, weighted_value, output)
        """
        return construct.explained(self, query, layer)

    def table(self, query: Any, layer: int = 0, head: int = 0) -> Table:
        """The slide's table on the model's own vectors: q, k, v, score, score/√d_k, softmax, softmax × v, sum.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.table("cat")["score"]
        (0.0, 2.0, 2.0)
        """
        layer = validate.index("layer", layer, self.layers)
        head = validate.index("head", head, self.seen[layer].attention.shape[0])
        table = self.explain(query, layer).table(head=head)
        name, _, sizes = table.title.rpartition(": d_k")
        of_head = f", head {head}" if name.endswith(f", head {head}") else ""
        return replace(table, title=f"{name.removesuffix(of_head)}, layer {layer}{of_head}: d_k{sizes}")

    @cached_property
    def certificate(self) -> Certificate:
        """How far these numbers can be trusted: rows of every head, checked against float64.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> reading.certificate.rows, reading.certificate.row_sums < 1e-15
        (3, True)
        """
        return certified(self)

    # Files and notebooks

    def save(self, path: str | os.PathLike[str], *, blocks: bool = False) -> None:
        """Write the reading to a safetensors file; with `blocks`, the weights of the model's blocks as well.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save(f"{folder}/cat.safetensors")
        ...     Reading.load(f"{folder}/cat.safetensors")
        Reading(The cat sat; 3 tokens, 1 layer × 1 head, given vectors)
        """
        from regard.reading.codec import save

        save(self, path, blocks)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Reading:
        """Read what `save` wrote. Nothing is unpickled; a broken file gives an error that says what is wrong.

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save(f"{folder}/cat.safetensors")
        ...     Reading.load(f"{folder}/cat.safetensors").labels
        ('The', 'cat', 'sat')
        """
        from regard.reading.codec import load

        return load(path)

    def save_html(
        self, path: str | os.PathLike[str], *, layers: Any = None, heads: Any = None, steps: bool = True
    ) -> None:
        """Write the viewer and the reading as one page, which opens from disk with the network off.

        layers, heads  keep only these, counted from 0: a smaller page, as exact as a full one
        steps          include the values, so that every step can be followed; a third smaller without

        >>> import numpy as np
        >>> from regard.attention import Attention
        >>> E = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
        >>> reading = Reading.of(Attention(E, E), E, words=["The", "cat", "sat"])
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     reading.save_html(f"{folder}/cat.html", layers=[0])
        ...     Path(f"{folder}/cat.html").read_text()[:15]
        '<!DOCTYPE html>'
        """
        from regard.viewer.page import save

        save(self, path, layers=layers, heads=heads, steps=steps)

    def __repr__(self) -> str:
        words = [word.text for word in self.words if not word.special]
        shown = words if len(words) <= FEW_WORDS else [*words[: FEW_WORDS - 1], "…"]
        tokens = f"{len(self.tokens):,} token{'' if len(self.tokens) == 1 else 's'}"
        layers = f"{self.layers} layer{'' if self.layers == 1 else 's'}"
        heads = f"{self.heads} head{'' if self.heads == 1 else 's'}"
        return f"Reading({' '.join(shown)}; {tokens}, {layers} × {heads}, {self.model})"

    def _repr_html_(self) -> str:
        from regard.output.display import reading_html

        return reading_html(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from regard.viewer.widget import mimebundle

        return mimebundle(self)
