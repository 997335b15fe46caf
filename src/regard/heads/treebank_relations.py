"""Which head connects a word with its subject, its possessor, its preposition: accuracy over a treebank.

The method of Clark et al. (2019): word pieces are joined (sum of the weights to a word, mean of those from it), sinks
and the word itself are set aside, and a head is right where a word's largest weight is on the right partner. The head
is chosen on one file and scored on another, beside the best fixed offset (also chosen there) and the best head of an
untrained model of the same shape. A causal model sees earlier words only: pairs whose partner comes later are left
out for it and for the offset alike, and `seen` says how many remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.engines.select import native_engine
from regard.heads.documents import TokenChunk, batches, cut
from regard.heads.observation import observe
from regard.heads.treebank import Sentence, Treebank

if TYPE_CHECKING:
    from regard.heads.statistics import Measurement
    from regard.reading.reader import Reader

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

OFFSETS = tuple(offset for offset in range(-10, 11) if offset)
LEAST_PAIRS = 20  # a relation with fewer pairs in either file is left out
RESAMPLES, SEED = 1000, 0  # of the bootstrap over sentences
BLOCK = 8192  # sentences that are resampled at once

NAMED = {
    "nsubj": "subject", "nsubj:pass": "passive subject", "obj": "object", "iobj": "indirect object",
    "obl:agent": "agent", "nmod:poss": "possessor", "case": "case", "det": "determiner", "aux": "auxiliary",
    "aux:pass": "passive auxiliary", "amod": "adjective", "advmod": "adverb", "compound": "compound",
    "cop": "copula", "mark": "marker", "cc": "conjunction", "conj": "conjunct", "nummod": "number",
    "obl": "oblique", "nmod": "noun modifier", "xcomp": "open complement", "ccomp": "clausal complement",
    "advcl": "adverbial clause", "acl": "clause of a noun", "acl:relcl": "relative clause", "appos": "apposition",
    "flat": "flat name", "compound:prt": "particle", "parataxis": "parataxis", "expl": "expletive",
}  # fmt: skip
GROUPS = {
    "who does what": ("subject", "passive subject", "object", "indirect object", "agent"),
    "whose": ("possessor",),
    "where": ("spatial preposition", "place"),
    "when": ("time",),
    "what refers to what": ("pronoun", "relative pronoun"),
}


def word_set(words: str) -> frozenset[str]:
    """Words separated by blanks."""
    return frozenset(words.split())


SPATIAL = word_set(
    "in on at under over above below behind between beside near inside outside into onto through across around along "
    "beneath underneath against among toward towards within beyond off up down by from to"
)
TIME_WORDS = word_set(
    "today yesterday tomorrow tonight now then soon later earlier before after always never often sometimes already "
    "still yet ago recently currently previously early late once again day night morning afternoon evening week "
    "weekend month year decade century hour minute second moment time monday tuesday wednesday thursday friday "
    "saturday sunday january february march april may june july august september october november december spring "
    "summer autumn fall winter"
)
PLACE_PREPOSITIONS = SPATIAL - {"by", "from", "to", "up", "down", "off", "through", "against"}


class Pair(NamedTuple):
    """A dependent and its head in one sentence, by a relation."""

    relation: str
    dependent: int
    head: int


def pairs_of(sentence: Sentence) -> Iterator[Pair]:
    """All pairs of a sentence: by the treebank's relations, and by those that people ask for."""
    words = sentence.words
    in_places = {
        word.head for word in words if word.relation == "case" and word.lemma.lower() in PLACE_PREPOSITIONS
    }  # words with such a preposition
    for place, word in enumerate(words):
        if word.refers >= 0:
            yield Pair("relative pronoun", place, word.refers)
        for antecedent in word.antecedents:
            yield Pair("pronoun", place, antecedent)
        if word.head < 0 or word.relation in ("punct", "_", "dep"):
            continue
        yield Pair(NAMED.get(word.relation, word.relation), place, word.head)
        lemma = word.lemma.lower()
        if word.relation == "case" and lemma in SPATIAL:
            yield Pair("spatial preposition", place, word.head)
        in_place = word.relation in ("obl", "nmod") and place in in_places
        is_time = lemma in TIME_WORDS and word.relation.split(":")[0] in ("obl", "advmod", "nmod")
        if in_place and not is_time:
            yield Pair("place", place, word.head)
        if is_time:
            yield Pair("time", place, word.head)


def group_of(relation: str) -> str:
    """What people would ask to get this relation; "grammar" for all others."""
    return next((group for group, names in GROUPS.items() if relation in names), "grammar")


# What heads predict


@dataclass(frozen=True, eq=False)
class Predictions:
    """The word that every word attends to most, in every head, over a treebank."""

    sentence: Integers  # (word,): which sentence it belongs to
    first: Integers  # (sentence,): its first word among all words
    partner: NDArray[np.int16]  # (word, layer · head): position in the sentence; −1 where there is none
    seen: Flags  # (word,): whether a head could choose it: it has a token of its own and is not a sink
    causal: bool
    layers: int
    heads: int
    omitted: int  # sentences that are longer than the model reads


class Aligned(NamedTuple):
    """A sentence as a document: the tokens of each word."""

    document: TokenChunk
    edges: Integers  # the first token of each cell, and the end of the last: a cell is a word or a special token
    cell: Integers  # (word,): its cell, −1 without tokens of its own


def aligned(model: Reader, sentences: Sequence[Sentence]) -> Iterator[Aligned | None]:
    """Sentences as the model reads them; None for those that are too long or empty.

    A causal model gets its begin-of-text token first, where it has one, so that the first word is not the sink.
    """
    start = _begin(model)
    encodings = model.tokeniser.encode_many([one.text for one in sentences])
    for sentence, encoded in zip(sentences, encodings, strict=True):
        documents = list(cut(encoded, sentence.text, model.longest - (start is not None), model.causal))
        if len(documents) != 1:
            yield None
            continue
        document = documents[0] if start is None else _with_first(documents[0], start)
        yield _placed(document, sentence)


def _begin(model: Reader) -> int | None:
    """The token that begins texts of a causal model."""
    number = model.config.get("bos_token_id")
    if not model.causal or model.tokeniser.encode("a").special[0]:
        return None
    if isinstance(number, int) and not isinstance(number, bool):
        return number
    return min(model.ends) if model.ends else None


def _with_first(document: TokenChunk, number: int) -> TokenChunk:
    joined = np.zeros(len(document), bool) if document.joined is None else document.joined
    return replace(
        document,
        ids=np.concatenate([[number], document.ids]),
        special=np.concatenate([[True], document.special]),
        pieces=("", *document.pieces),
        joined=np.concatenate([[False], joined]),
        spans=((0, 0), *document.spans),
    )


def _placed(document: TokenChunk, sentence: Sentence) -> Aligned:
    starts = np.array([word.start for word in sentence.words])
    stops = np.array([word.stop for word in sentence.words])
    with_place = np.flatnonzero(stops > starts)
    edges: list[int] = []
    cell = np.full(len(starts), -1, np.int64)
    before = -1
    for token, (start, stop) in enumerate(document.spans):
        after = int(np.searchsorted(starts[with_place], start, side="right"))
        word = int(with_place[max(after - 1, 0)])
        if document.special[token] or not edges or (stop > start and word != before):
            edges.append(token)
            before = -1 if document.special[token] else word
            if not document.special[token] and cell[word] < 0:
                cell[word] = len(edges) - 1
    return Aligned(document, np.array([*edges, len(document)]), cell)


def word_weights(weights: NDArray[Any], edges: Integers) -> NDArray[Any]:
    """(…, token, token) → (…, word, word): the sum of the weights to a word, the mean of those from it."""
    to_words = np.add.reduceat(weights, edges[:-1], axis=-1)
    from_words = np.add.reduceat(to_words, edges[:-1], axis=-2)
    found: NDArray[Any] = from_words / np.diff(edges).astype(weights.dtype)[:, None]
    return found


def predictions(
    model: Reader,
    treebank: Treebank,
    *,
    measurement: Measurement | None = None,
    on_batch: Callable[[int, int], None] | None = None,
) -> Predictions:
    """Every head's choice for every word. With a `measurement`, statistics are counted in the same pass.

    on_batch   called with the number of tokens that are done, and of all
    """
    sentences = treebank.sentences
    found = list(aligned(model, sentences)) if sentences else []
    kept = [place for place, one in enumerate(found) if one is not None]
    layers, heads = len(model.block_shapes), model.heads
    lengths = np.array([len(sentence.words) for sentence in sentences], np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
    total = int(lengths.sum())
    partner = np.full((total, layers * heads), -1, np.int16)
    seen = np.zeros(total, bool)
    documents = [one.document for one in found if one is not None]
    done, tokens = 0, sum(map(len, documents))
    if on_batch is not None:
        on_batch(0, tokens)
    for batch in batches(documents):
        joined: dict[tuple[int, ...], _Joined] = {}  # the same for all layers
        for group in observe(model, [documents[place] for place in batch]):
            if measurement is not None:
                measurement.add(group)
            if group.places not in joined:
                of_group = [kept[batch[place]] for place in group.places]
                joined[group.places] = _Joined.of([found[number] for number in of_group], first[of_group])
                seen[joined[group.places].word] = joined[group.places].seen
            columns = slice(group.layer * heads, (group.layer + 1) * heads)
            for chosen, weights in group.whole():
                words, partners = joined[group.places].choices(chosen, weights)
                partner[words, columns] = partners
        done += sum(len(documents[place]) for place in batch)
        if on_batch is not None:
            on_batch(done, tokens)
    partner[:, silent_heads(model)] = -1
    sentence = np.repeat(np.arange(len(sentences)), lengths)
    return Predictions(sentence, first, partner, seen, model.causal, layers, heads, len(sentences) - len(kept))


def silent_heads(model: Reader) -> Flags:
    """Heads that write nothing because their rows of W_O are 0, (layer · head,): they choose no word."""
    silent_of = [
        np.zeros(shape.heads, bool)
        if shape.w_o is None
        else ~np.asarray(shape.w_o).reshape(len(shape.w_o), shape.heads, -1).any(axis=(0, 2))
        for shape in model.block_shapes
    ]
    silent: Flags = np.concatenate(silent_of)
    return silent


class _Joined(NamedTuple):
    """The words of documents with equally many tokens; a cell is a word or a special token."""

    edges: NDArray[np.int32]  # (document, cell + 1): the first token of each cell
    counts: NDArray[np.int32]  # (document,): cells
    aside: Flags  # (document, cell): sinks
    word_of: NDArray[np.int16]  # (document, cell): position in the sentence, −1 for special tokens
    document: Integers  # (word,): of each word of all documents
    cell: Integers  # (word,): −1 without tokens of its own
    word: Integers  # (word,): among all words of the treebank
    seen: Flags  # (word,): whether a head can choose it

    @classmethod
    def of(cls, some: Sequence[Any], first: Integers) -> _Joined:
        """Of some `Aligned` documents, and the numbers of their first words."""
        most = max(len(one.edges) - 1 for one in some)
        edges = np.zeros((len(some), most + 1), np.int32)
        counts = np.array([len(one.edges) - 1 for one in some], np.int32)
        aside = np.zeros((len(some), most), bool)
        word_of = np.full((len(some), most), -1, np.int16)
        for place, one in enumerate(some):
            edges[place, : len(one.edges)] = one.edges
            aside[place, : counts[place]] = one.document.sinks[one.edges[:-1]]
            has = np.flatnonzero(one.cell >= 0)
            word_of[place, one.cell[has]] = has
        document = np.repeat(np.arange(len(some)), [len(one.cell) for one in some])
        cell = np.concatenate([one.cell for one in some])
        word = np.concatenate([start + np.arange(len(one.cell)) for start, one in zip(first, some, strict=True)])
        return cls(edges, counts, aside, word_of, document, cell, word, (cell >= 0) & ~aside[document, cell])

    def choices(self, chosen: slice, weights: NDArray[Any]) -> tuple[Integers, NDArray[np.int16]]:
        """Words of some documents, and the word that each attends to most, (word, head): −1 where there is none."""
        best = most_attended(weights, self.edges[chosen], self.counts[chosen], self.aside[chosen])
        some = np.flatnonzero((self.document >= chosen.start) & (self.document < chosen.stop))
        document = self.document[some]
        cells = best[document - chosen.start, :, self.cell[some]]  # (word, head)
        partners = np.where(cells >= 0, self.word_of[document[:, None], cells], -1)
        partners[self.cell[some] < 0] = -1
        return self.word[some], partners


def most_attended(weights: NDArray[Any], edges: Any, counts: Any, aside: Flags) -> NDArray[np.int32]:
    """Of every cell the other cell, not set aside, with the largest weight, (document, head, cell); −1 without any.

    weights   (document, head, token, token)
    edges     (document, cell + 1): the first token of each cell, and the end of the last
    counts    (document,): cells, of which later ones are not used

    >>> weights = np.array([[[[0.1, 0.5, 0.4], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1]]]], np.float32)
    >>> most_attended(weights, np.array([[0, 1, 3]], np.int32), np.array([2], np.int32), np.zeros((1, 2), bool))
    array([[[1, 0]]], dtype=int32)
    """
    native = native_engine()
    if native is not None and weights.dtype == np.float32:
        found: NDArray[np.int32] = native.word_choices(weights, edges, counts, aside)
        return found
    best = np.full((*weights.shape[:2], aside.shape[1]), -1, np.int32)
    for place, count in enumerate(counts.tolist()):
        between = word_weights(weights[place].astype(np.float64), edges[place, : count + 1])  # (head, cell, cell)
        between[:, :, aside[place, :count]] = 0
        cells = np.arange(count)
        between[:, cells, cells] = 0
        best[place, :, :count] = np.where(between.max(axis=2) > 0, between.argmax(axis=2), -1)  # the earlier of equals
    return best


# Scores


class Questions(NamedTuple):
    """For one relation and direction: queries and their right partners."""

    relation: str
    direction: str  # "to head" or "to dependent"
    word: Integers  # (pair,): the query, among all words
    partner: Integers  # (pair,): its right partner, position in the sentence


def questions(treebank: Treebank, found: Predictions) -> tuple[dict[tuple[str, str], Questions], dict[str, int]]:
    """The questions of every relation and direction that heads can answer, and the number of pairs in the file."""
    collected: dict[tuple[str, str], list[tuple[int, int]]] = {}
    pairs: dict[str, int] = {}
    for sentence, first in zip(treebank.sentences, found.first.tolist(), strict=True):
        for relation, dependent, head in pairs_of(sentence):
            pairs[relation] = pairs.get(relation, 0) + 1
            for direction, query, partner in (("to head", dependent, head), ("to dependent", head, dependent)):
                if found.causal and partner > query:
                    continue
                if found.seen[first + query] and found.seen[first + partner]:
                    collected.setdefault((relation, direction), []).append((first + query, partner))
    return {key: Questions(*key, *np.array(sorted(rows), np.int64).T) for key, rows in collected.items()}, pairs


def hits(asked: Questions, found: Predictions) -> tuple[Integers, Flags]:
    """Sentence of each query, and whether each head is right, (query, head); a query with two partners counts once."""
    right = found.partner[asked.word] == asked.partner[:, None]
    return _per_query(asked, found, right)


def offset_hits(asked: Questions, found: Predictions) -> Flags:
    """Whether the word at each fixed offset is a right partner, (query, offset)."""
    position = asked.word - found.first[found.sentence[asked.word]]
    right = position[:, None] + np.array(OFFSETS) == asked.partner[:, None]
    return _per_query(asked, found, right)[1]


def _per_query(asked: Questions, found: Predictions, right: Flags) -> tuple[Integers, Flags]:
    starts = np.flatnonzero(np.diff(asked.word, prepend=-1))
    return found.sentence[asked.word[starts]], np.logical_or.reduceat(right, starts, axis=0)


class Interval(NamedTuple):
    """A share with its 95% bootstrap interval."""

    value: float
    low: float
    high: float


class Score(NamedTuple):
    """The best head for a relation in one direction, chosen on one file and scored on another."""

    relation: str
    group: str
    direction: str
    layer: int
    head: int
    accuracy: Interval
    offset: int
    offset_accuracy: Interval
    untrained: Interval | None  # the best head of an untrained model
    gain: Interval  # accuracy minus that of the offset, sentence by sentence
    queries: int  # scored
    seen: float  # share of the file's pairs that the model could see
    choosing: float  # accuracy on the file that it was chosen on
    choosing_gain: float  # there, minus that of the offset

    @property
    def beats_offset(self) -> bool:
        """Whether the whole interval of the gain is above 0."""
        return self.gain.low > 0

    @property
    def is_named(self) -> bool:
        """Whether the head may be named for the relation: it beats the offset, and an untrained model where known."""
        return self.beats_offset and (self.untrained is None or self.accuracy.low > self.untrained.value)


class HeadScore(NamedTuple):
    """A relation, in one direction, that a head finds more often than the best fixed offset does."""

    relation: str
    direction: str
    layer: int
    head: int
    accuracy: Interval
    gain: Interval  # accuracy minus that of the offset, sentence by sentence
    choosing_gain: float  # the same on the file that relations were chosen on


@dataclass(frozen=True, eq=False)
class Read:
    """A treebank as a model read it."""

    treebank: Treebank
    found: Predictions


def scores(chosen_on: Read, scored_on: Read, untrained: tuple[Read, Read] | None = None) -> list[Score]:
    """The best head of every relation and direction, ordered by group, relation and accuracy."""
    on_choice, _ = questions(chosen_on.treebank, chosen_on.found)
    on_score, pairs = questions(scored_on.treebank, scored_on.found)
    result = []
    for key in sorted(on_choice.keys() & on_score.keys()):
        first, second = on_choice[key], on_score[key]
        sentence, right = hits(second, scored_on.found)
        if min(len(np.unique(first.word)), len(sentence)) < LEAST_PAIRS:
            continue
        chosen = hits(first, chosen_on.found)[1].mean(axis=0)
        by_offset = offset_hits(first, chosen_on.found).mean(axis=0)
        head, offset = int(chosen.argmax()), int(by_offset.argmax())
        of_head, of_offset = right[:, head].astype(int), offset_hits(second, scored_on.found)[:, offset].astype(int)
        columns = [of_head, of_offset, of_head - of_offset]
        if untrained is not None:
            head_0 = int(hits(first, untrained[0].found)[1].mean(axis=0).argmax())
            columns.append(hits(second, untrained[1].found)[1][:, head_0])
        sentences = len(scored_on.treebank.sentences)
        of_best, of_fixed, gain, *baseline = bootstrap(sentence, np.stack(columns, axis=1), sentences)
        result.append(
            Score(
                key[0], group_of(key[0]), key[1], *divmod(head, scored_on.found.heads), of_best, OFFSETS[offset],
                of_fixed, baseline[0] if baseline else None, gain, len(sentence), len(second.word) / pairs[key[0]],
                float(chosen[head]), float(chosen[head] - by_offset[offset]),
            )
        )  # fmt: skip
    order = [*GROUPS, "grammar"]
    best = {one.relation: max(other.choosing for other in result if other.relation == one.relation) for one in result}
    return sorted(
        result, key=lambda one: (order.index(one.group), -best[one.relation], one.relation, -one.choosing_gain)
    )


def scores_by_head(chosen_on: Read, scored_on: Read, found: Sequence[Score]) -> list[HeadScore]:
    """What every head finds better than the best fixed offset, on both files; best first for each head.

    A relation of a head must gain on the file to choose on, and the whole interval of its gain on the other file must
    be above 0.
    """
    on_choice, _ = questions(chosen_on.treebank, chosen_on.found)
    on_score, _ = questions(scored_on.treebank, scored_on.found)
    result = []
    for one in found:
        first, second = on_choice[one.relation, one.direction], on_score[one.relation, one.direction]
        offset = OFFSETS.index(one.offset)
        gains = hits(first, chosen_on.found)[1].mean(axis=0) - offset_hits(first, chosen_on.found)[:, offset].mean()
        heads = np.flatnonzero(gains > 0)
        if not len(heads):
            continue
        sentence, right = hits(second, scored_on.found)
        of_heads = right[:, heads].astype(int)
        of_offset = offset_hits(second, scored_on.found)[:, offset].astype(int)
        columns = np.concatenate([of_heads, of_heads - of_offset[:, None]], axis=1)
        intervals = bootstrap(sentence, columns, len(scored_on.treebank.sentences))
        for head, accuracy, gain in zip(heads.tolist(), intervals[: len(heads)], intervals[len(heads) :], strict=True):
            if gain.low > 0:
                layer, place = divmod(head, scored_on.found.heads)
                result.append(HeadScore(one.relation, one.direction, layer, place, accuracy, gain, float(gains[head])))
    return sorted(result, key=lambda one: (one.layer, one.head, -one.choosing_gain, one.relation))


class Change(NamedTuple):
    """A relation before and after heads were silenced: the best head of each model, chosen on one file."""

    before: Score
    after: Score
    change: Interval  # of the accuracy, sentence by sentence


def changes(intact: tuple[Read, Read], silenced: tuple[Read, Read]) -> list[Change]:
    """What silencing heads does to the accuracy of every relation, in its better direction before."""
    after = {(one.relation, one.direction): one for one in scores(*silenced)}
    asked, _ = questions(intact[1].treebank, intact[1].found)
    result = []
    for before in best_directions(scores(*intact)):
        key = before.relation, before.direction
        hits_of = []
        for one, read in ((before, intact[1]), (after[key], silenced[1])):
            sentence, right = hits(asked[key], read.found)
            hits_of.append(right[:, one.layer * read.found.heads + one.head].astype(int))
        lost = (hits_of[1] - hits_of[0])[:, None]
        (change,) = bootstrap(sentence, lost, len(intact[1].treebank.sentences))
        result.append(Change(before, after[key], change))
    return result


def best_directions(found: Sequence[Score]) -> list[Score]:
    """Of each relation the direction in which the best head gains more over the fixed offset, where it was chosen.

    A causal model sees few pairs in one of the directions: one with less than half the pairs of the other is left out.
    """
    kept: dict[str, Score] = {}
    for one in found:
        most = max(other.seen for other in found if other.relation == one.relation)
        before = kept.get(one.relation)
        if 2 * one.seen >= most and (before is None or one.choosing_gain > before.choosing_gain):
            kept[one.relation] = one
    return [one for one in found if kept[one.relation] is one]


def bootstrap(sentence: Integers, values: NDArray[Any], sentences: int) -> list[Interval]:
    """The means of columns of integers, (query, column), with 95% intervals from resampling all sentences of a file.

    All columns and relations share the resamples, and sums of integers are exact: the same numbers always give the
    same intervals.
    """
    columns = np.concatenate([np.ones((len(values), 1)), values], axis=1).astype(np.float64)
    of_sentence = np.stack([np.bincount(sentence, weights=one, minlength=sentences) for one in columns.T], axis=1)
    drawn = _resamples(sentences)
    sums = np.zeros((len(drawn), columns.shape[1]))
    for first in range(0, sentences, BLOCK):
        block = slice(first, first + BLOCK)
        sums += drawn[:, block].astype(np.float64) @ of_sentence[block]
    means = sums[:, 1:] / np.maximum(sums[:, :1], 1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return [Interval(*map(float, triple)) for triple in zip(values.mean(axis=0), low, high, strict=True)]


@lru_cache(maxsize=2)
def _resamples(sentences: int) -> NDArray[np.uint8]:
    """How often each sentence is in each resample, (resample, sentence)."""
    generator, found = np.random.default_rng(SEED), np.empty((RESAMPLES, sentences), np.uint8)
    for row in found:
        row[:] = np.bincount(generator.integers(sentences, size=sentences), minlength=sentences)
    return found
